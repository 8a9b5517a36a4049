"""The condition under which the leader writes: it still holds the lease."""

from __future__ import annotations

from sqlalchemy import Connection

from cep_manager.persistence.schema import LEADER


def hold_lease(connection: Connection, token: int) -> bool:
    """Return whether the lease is held under `token`.

    It cannot be taken before the transaction has ended, and others see that plans were written.
    """
    held = LEADER.update().where(LEADER.c.token == token, LEADER.c.holder != "")
    return connection.execute(held.values(changes=LEADER.c.changes + 1)).rowcount > 0
