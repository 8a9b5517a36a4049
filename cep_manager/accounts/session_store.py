"""Sessions in the managers' database, and the secret that all managers share."""

from __future__ import annotations

import secrets
from typing import Any

import msgspec
import sqlalchemy
from sqlalchemy.exc import IntegrityError

from cep_common.security.access import AccessRole
from cep_manager.accounts.model import Session, User
from cep_manager.accounts.user_store import require_unchanged
from cep_manager.persistence.account_schema import SECRETS, SESSIONS, USERS
from cep_manager.persistence.database import Database

KEY_LENGTH = 16
"""Length of the prefix of a session's hash that identifies it among the sessions of its user."""

FORMS = "forms"


class StoredSession(msgspec.Struct, frozen=True):
    """A session with its user, and what it carries (`data`)."""

    session: Session
    user: User
    data: dict[str, Any]


class SessionStore:
    """The sessions of logged-in users. Any thread may use it.

    All methods raise PlanStoreError when the database cannot be used.
    """

    def __init__(self, database: Database) -> None:
        self._database = database

    def find(self, sha256: str) -> StoredSession | None:
        """Return the session with this hash, expired or not; None if it or its user does not exist."""
        with self._database.reading() as connection:
            row = connection.execute(sqlalchemy.select(SESSIONS).where(SESSIONS.c.sha256 == sha256)).first()
            if row is None:
                return None
            owner = connection.execute(sqlalchemy.select(USERS).where(USERS.c.name == row.user)).first()
            if owner is None:
                return None
            user = User(**{**owner._mapping, "role": AccessRole(owner.role)})
            return StoredSession(_session(row), user, msgspec.json.decode(row.data))

    def of(self, user: str) -> tuple[Session, ...]:
        """Return the user's sessions, the one that was used last first."""
        with self._database.reading() as connection:
            rows = connection.execute(
                sqlalchemy.select(SESSIONS).where(SESSIONS.c.user == user).order_by(SESSIONS.c.used_ms.desc())
            )
            return tuple(_session(row) for row in rows)

    def add(self, sha256: str, session: Session, password_hash: str, data: dict[str, Any], over_ms: int) -> None:
        """Store a new session and delete those that were last used before `over_ms`.

        Raises WrongPasswordError when `password_hash`, the hash that was checked for this login, is no longer the
        user's.
        """
        row = {name: getattr(session, name) for name in ("user", "created_ms", "used_ms", "address", "agent")}
        with self._database.transaction() as connection:
            require_unchanged(connection, session.user, password_hash)
            connection.execute(SESSIONS.delete().where(SESSIONS.c.used_ms < over_ms))
            connection.execute(SESSIONS.insert().values(**row, sha256=sha256, data=_text(data)))

    def use(self, sha256: str, now_ms: int) -> None:
        """Record that the session was used at `now_ms`."""
        with self._database.transaction(survives_power_loss=False) as connection:
            connection.execute(SESSIONS.update().where(SESSIONS.c.sha256 == sha256).values(used_ms=now_ms))

    def end(self, sha256: str) -> None:
        """Delete the session if it exists."""
        with self._database.transaction() as connection:
            connection.execute(SESSIONS.delete().where(SESSIONS.c.sha256 == sha256))

    def end_one(self, user: str, key: str) -> bool:
        """End the user's session `key`; return whether there was one."""
        with self._database.transaction() as connection:
            named = SESSIONS.c.user == user, sqlalchemy.func.substr(SESSIONS.c.sha256, 1, KEY_LENGTH) == key
            return connection.execute(SESSIONS.delete().where(*named)).rowcount > 0

    def secret(self) -> str:
        """Return 256 random bits that all managers of this database share; the first caller generates them."""
        asked = sqlalchemy.select(SECRETS.c.value).where(SECRETS.c.name == FORMS)
        with self._database.transaction() as connection:
            kept = connection.scalar(asked)
            if kept is None:
                try:
                    connection.execute(SECRETS.insert().values(name=FORMS, value=secrets.token_hex(32)))
                except IntegrityError:  # another manager started at the same moment
                    connection.rollback()
        with self._database.reading() as connection:
            return str(connection.scalars(asked).one())


def _session(row: sqlalchemy.Row[Any]) -> Session:
    return Session(row.sha256[:KEY_LENGTH], row.user, row.created_ms, row.used_ms, row.address, row.agent)


def _text(data: dict[str, Any]) -> str:
    return msgspec.json.encode(data).decode()
