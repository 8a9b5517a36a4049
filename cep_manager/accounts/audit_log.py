"""Audit log: every call that changes something and every login, with its outcome."""

from __future__ import annotations

import logging
import threading
from collections import OrderedDict

import msgspec
import sqlalchemy

from cep_manager.accounts.model import AuditEntry
from cep_manager.errors import PlanStoreError
from cep_manager.persistence.account_schema import AUDIT
from cep_manager.persistence.database import Database

logger = logging.getLogger(__name__)

TOGETHER_MS = 60_000
"""The time within which repeated calls of a user are counted in one row, so that floods do not displace other rows.
"""

TOO_MANY = 429
"""The status of calls that were refused because of the rate limit.

Of such calls only the first within `TOGETHER_MS` is recorded: clients that flood the manager must not cause a database
write each time.
"""

MOST_TOGETHER = 1_000
MOST_ROWS = 100_000
TIDY_AFTER = 500
"""The number of new rows after which rows that are too old, or too many, are removed."""

DAY_MS = 86_400_000


class AuditLog:
    """The audit log. Thread-safe."""

    def __init__(self, database: Database, days: int) -> None:
        """Keep rows for `days` days, but at most `MOST_ROWS`."""
        self._database = database
        self._kept_ms = days * DAY_MS
        self._lock = threading.Lock()
        self._recent: OrderedDict[tuple[object, ...], tuple[int, int]] = OrderedDict()
        self._new = TIDY_AFTER

    def write(self, entry: AuditEntry) -> None:
        """Record the entry.

        The audited action has already happened, so a database that cannot be written is logged and raises nothing.
        """
        with self._lock:
            try:
                self._write(entry)
            except PlanStoreError as error:
                logger.error(  # noqa: TRY400 - the message says it all
                    "audit entry lost: who=%r call=%s target=%r status=%d reason=%s",
                    entry.who,
                    entry.call,
                    entry.target,
                    entry.status,
                    error.message,
                )

    def entries(self, before: int, count: int, who: str = "") -> tuple[tuple[int, AuditEntry], ...]:
        """Return the newest `count` entries with their numbers, newest first.

        Only those before number `before` unless it is 0, and of one user if `who` is given. Raises PlanStoreError.
        """
        asked = sqlalchemy.select(AUDIT).order_by(AUDIT.c.id.desc()).limit(count)
        if before:
            asked = asked.where(AUDIT.c.id < before)
        if who:
            asked = asked.where(AUDIT.c.who == who)
        with self._database.reading() as connection:
            return tuple(
                (row.id, AuditEntry(**{name: row._mapping[name] for name in AuditEntry.__struct_fields__}))
                for row in connection.execute(asked)
            )

    def _write(self, entry: AuditEntry) -> None:
        same = (entry.who, entry.shown, entry.address, entry.call, entry.target, entry.status)
        number, at_ms = self._recent.get(same, (0, 0))
        if entry.status == TOO_MANY and number and entry.at_ms - at_ms < TOGETHER_MS:
            return
        with self._database.transaction(survives_power_loss=False) as connection:
            counted = 0
            if number and entry.at_ms - at_ms < TOGETHER_MS:
                more = {"times": AUDIT.c.times + 1, "last_ms": entry.at_ms}
                counted = connection.execute(AUDIT.update().where(AUDIT.c.id == number).values(more)).rowcount
            if not counted:
                made = connection.execute(AUDIT.insert().values(msgspec.structs.asdict(entry)))
                number, at_ms = int(made.inserted_primary_key[0]), entry.at_ms  # type: ignore[index]
                self._tidy(connection, number, entry.at_ms)
        self._recent[same] = (number, at_ms)
        self._recent.move_to_end(same)
        if len(self._recent) > MOST_TOGETHER:
            self._recent.popitem(last=False)

    def _tidy(self, connection: sqlalchemy.Connection, newest: int, now_ms: int) -> None:
        self._new += 1
        if self._new >= TIDY_AFTER:
            self._new = 0
            too_old = sqlalchemy.or_(AUDIT.c.at_ms < now_ms - self._kept_ms, AUDIT.c.id <= newest - MOST_ROWS)
            connection.execute(AUDIT.delete().where(too_old))
