"""The lease and the list of managers in the database: what the election asks of it, each in one transaction."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import sqlalchemy
from sqlalchemy import Connection, Row

from cep_common.ids import Endpoint
from cep_manager.election.messages import (
    ClaimLease,
    ConfirmLease,
    Lease,
    LeaseState,
    ManagerAddress,
    ReadLease,
    Request,
)
from cep_manager.persistence.database import Database
from cep_manager.persistence.node_store import NodeStore
from cep_manager.persistence.schema import LEADER, MANAGERS


class LeaseStore:
    """The lease as manager `me` sees and takes it.

    All methods raise PlanStoreError; it is then unknown whether a claim has succeeded.
    """

    def __init__(
        self, database: Database, me: ManagerAddress, now_ms: Callable[[], int], nodes: NodeStore | None = None
    ) -> None:
        """`now_ms` is the time of day, which is shown to people."""
        self._database = database
        self._me = me
        self._now_ms = now_ms
        self._nodes = nodes
        """In a system of two nodes, which of them may claim the lease."""

    def carry_out(self, request: Request) -> LeaseState:
        """Carry out the request as far as the lease allows, and return the state of the lease."""
        done, barred = False, ""
        # Managers that share an SQLite file lose power together: then no beat is worth anything, but tokens must not be
        # given out twice.
        with self._database.transaction(survives_power_loss=isinstance(request, ClaimLease)) as connection:
            match request:
                case ClaimLease():
                    barred = self._nodes.barred(connection) if self._nodes is not None else ""
                    done = not barred and self._claim(connection, request)
                case ConfirmLease(gone=gone):
                    done = self._confirm(connection, request)
                    _forget(connection, gone)
                case ReadLease():
                    pass
            namesake = self._sign_in(connection)
            lease, managers = _lease(connection), _managers(connection)
        return LeaseState(lease, done, managers, namesake, barred)

    def give_back(self, token: int) -> None:
        """Release the lease if it is held under `token`, so that the next holder need not wait for its end.

        Also removes this manager from the list of managers.
        """
        with self._database.transaction() as connection:
            held = LEADER.c.token == token, LEADER.c.holder == self._me.instance
            connection.execute(LEADER.update().where(*held).values(holder=""))
            connection.execute(MANAGERS.delete().where(_is(self._me), MANAGERS.c.instance == self._me.instance))

    def _claim(self, connection: Connection, claim: ClaimLease) -> bool:
        values = {
            "token": claim.token + 1,
            "beat": 0,
            "holder": self._me.instance,
            "host": self._me.control.host,
            "port": self._me.control.port,
            "http_address": self._me.http_address,
            "lease_ms": claim.lease_ms,
            "since_ms": self._now_ms(),
        }
        # Compare and set: of two standbys only one finds the row as it has seen it, and a holder that confirmed in
        # between keeps the lease.
        as_seen = LEADER.c.token == claim.token, LEADER.c.beat == claim.beat
        done = connection.execute(LEADER.update().where(*as_seen).values(values)).rowcount > 0
        if done and self._nodes is not None:
            self._nodes.claimed(connection, self._now_ms())
        return done

    def _confirm(self, connection: Connection, confirm: ConfirmLease) -> bool:
        # The holder, too: a database restored from a backup may give a token out twice.
        held = LEADER.c.token == confirm.token, LEADER.c.holder == self._me.instance
        values = {"beat": LEADER.c.beat + 1, "lease_ms": confirm.lease_ms}
        return connection.execute(LEADER.update().where(*held).values(values)).rowcount > 0

    def _sign_in(self, connection: Connection) -> str:
        """Write this manager to the list; return the process that was listed under its address before."""
        before = connection.scalar(sqlalchemy.select(MANAGERS.c.instance).where(_is(self._me)))
        where = self._me.insight
        values = {
            "instance": self._me.instance,
            "http_address": self._me.http_address,
            "insight": f"{where.host}:{where.port}" if where is not None else "",
        }
        if before is None:
            control = {"host": self._me.control.host, "port": self._me.control.port}
            connection.execute(MANAGERS.insert().values(**control, **values, beat=0))
        else:
            connection.execute(MANAGERS.update().where(_is(self._me)).values(**values, beat=MANAGERS.c.beat + 1))
        return str(before) if before not in (None, self._me.instance) else ""


def _forget(connection: Connection, gone: tuple[tuple[ManagerAddress, int], ...]) -> None:
    for manager, beat in gone:
        # Only if it has not signed in since it was found to have ended.
        same = MANAGERS.c.instance == manager.instance, MANAGERS.c.beat == beat
        connection.execute(MANAGERS.delete().where(_is(manager), *same))


def _lease(connection: Connection) -> Lease:
    row = connection.execute(sqlalchemy.select(LEADER)).one()
    holder = ManagerAddress(row.holder, Endpoint(row.host, row.port), row.http_address) if row.holder else None
    return Lease(row.token, holder, row.beat, row.lease_ms, row.since_ms, row.changes)


def _managers(connection: Connection) -> tuple[tuple[ManagerAddress, int], ...]:
    rows = connection.execute(sqlalchemy.select(MANAGERS).order_by(MANAGERS.c.host, MANAGERS.c.port))
    return tuple((_manager(row), row.beat) for row in rows)


def _manager(row: Row[Any]) -> ManagerAddress:
    host, _, port = str(row.insight).rpartition(":")
    insight = Endpoint(host, int(port)) if port.isdigit() else None
    return ManagerAddress(row.instance, Endpoint(row.host, row.port), row.http_address, insight)


def _is(manager: ManagerAddress) -> sqlalchemy.ColumnElement[bool]:
    return sqlalchemy.and_(MANAGERS.c.host == manager.control.host, MANAGERS.c.port == manager.control.port)
