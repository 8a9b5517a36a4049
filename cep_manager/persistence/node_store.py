"""The nodes in the database: which of them have every acknowledged event, and may become active."""

from __future__ import annotations

from datetime import UTC

import msgspec
import sqlalchemy
from sqlalchemy import Connection

from cep_common.errors import ConfigError
from cep_common.ids import Endpoint
from cep_common.nodes.config import ManagerNode
from cep_common.nodes.files import NodeOrder
from cep_common.nodes.orders import StoredOrder, is_valid
from cep_manager.persistence.database import Database
from cep_manager.persistence.schema import LEADER, NODE_ORDERS, NODES

MOST_NODES = 2
TOO_MANY = "more than two nodes cannot be used in the two-node mode (deployment.config.type: ha)"


class StoredNode(msgspec.Struct, frozen=True):
    """A node as the database knows it.

    `in_sync`: it has every acknowledged event. `changed_ms` is the time of day at which that changed last.
    """

    name: str
    group: str
    sync: Endpoint
    guard: Endpoint
    http_address: str
    in_sync: bool
    changed_ms: int


class NodeStore:
    """What a manager asks of the table, as the node `me`. Any thread may use it. All methods raise PlanStoreError."""

    def __init__(self, database: Database, me: ManagerNode, http_address: str) -> None:
        self._database = database
        self._me = me
        self._http_address = http_address

    @property
    def name(self) -> str:
        """Return the name of this node."""
        return self._me.name

    def register(self, now_ms: int) -> None:
        """Record where this node is reached.

        The first node of a new group is in sync. Raises ConfigError when there are two others, or the nodes there are
        of another group.
        """
        me = self._me
        values = {
            "sync_host": me.sync_endpoint().host,
            "sync_port": me.sync_endpoint().port,
            "guard_host": me.guard_endpoint().host,
            "guard_port": me.guard_endpoint().port,
            "http_address": self._http_address,
        }
        with self._database.transaction() as connection:
            _lock_lease(connection)
            known = {node.name: node for node in _nodes(connection)}
            groups = {node.group for node in known.values()} - {me.group}
            if groups:
                raise ConfigError(
                    f"cluster.config.groupId: this node is of group {me.group}, the nodes in its database are of group "
                    f"{', '.join(groups)}: both nodes of a group have the same groupId and the same database"
                )
            if me.name in known:
                connection.execute(NODES.update().where(NODES.c.name == me.name).values(**values))
                return
            if len(known) >= MOST_NODES:
                raise ConfigError(
                    f"{TOO_MANY}: {', '.join(sorted(known))} are registered, this node is {me.name}; remove one with "
                    "`cep node remove NAME`, or use another database"
                )
            connection.execute(
                NODES.insert().values(name=me.name, node_group=me.group, in_sync=not known, changed_ms=now_ms, **values)
            )

    def barred(self, connection: Connection) -> str:
        """Return why this node must not claim the lease, in the transaction that would claim it; empty: it may."""
        _lock_lease(connection)
        nodes = {node.name: node for node in _nodes(connection)}
        mine = nodes.get(self._me.name)
        if mine is not None and mine.in_sync:
            return ""
        owners = ", ".join(name for name, node in nodes.items() if node.in_sync) or "no node"
        return f"{self._me.name} lacks events that were acknowledged: {owners} has all of them and can become active"

    def claimed(self, connection: Connection, now_ms: int) -> None:
        """Record that this node has claimed the lease and from now on accepts data that no other node has."""
        others = NODES.c.name != self._me.name, NODES.c.in_sync.is_(True)
        connection.execute(NODES.update().where(*others).values(in_sync=False, changed_ms=now_ms))

    def record(self, token: int, *, in_sync: bool, now_ms: int) -> bool:
        """Record whether the other node has every acknowledged event, if this one holds the lease under `token`.

        Returns:
            Returns whether it does.
        """
        with self._database.transaction() as connection:
            held = LEADER.update().where(LEADER.c.token == token, LEADER.c.holder != "")
            if connection.execute(held.values(beat=LEADER.c.beat)).rowcount == 0:
                return False
            others = NODES.c.name != self._me.name, NODES.c.in_sync.is_not(in_sync)
            connection.execute(NODES.update().where(*others).values(in_sync=in_sync, changed_ms=now_ms))
        return True

    def free_lease(self) -> tuple[int, int] | None:
        """Return token and beat of the lease if no node holds it, as after a switch; None: one does."""
        with self._database.reading() as connection:
            row = connection.execute(sqlalchemy.select(LEADER.c.holder, LEADER.c.token, LEADER.c.beat)).one()
        return None if row.holder else (row.token, row.beat)

    def accept_loss(self, now_ms: int) -> None:
        """Let this node become active although it lacks acknowledged events: the other one has to catch up then."""
        with self._database.transaction() as connection:
            _lock_lease(connection)
            mine = NODES.c.name == self._me.name
            connection.execute(NODES.update().where(mine).values(in_sync=True, changed_ms=now_ms))
            connection.execute(NODES.update().where(~mine).values(in_sync=False, changed_ms=now_ms))

    def remove(self, name: str) -> bool:
        """Forget another node; return whether it existed."""
        with self._database.transaction() as connection:
            _lock_lease(connection)
            return connection.execute(NODES.delete().where(NODES.c.name == name)).rowcount > 0

    def give_order(self, name: str, order: NodeOrder) -> None:
        """Record what node `name` is to do; it takes the order itself, soon or not at all."""
        with self._database.transaction() as connection:
            connection.execute(NODE_ORDERS.delete().where(NODE_ORDERS.c.name == name))
            token = connection.scalar(sqlalchemy.select(LEADER.c.token))
            now = {"given_s": _now_s(connection), "token": token}
            connection.execute(NODE_ORDERS.insert().values(name=name, action=order, **now))

    def orders(self) -> dict[str, NodeOrder]:
        """Return the orders that nodes have not taken yet, without those that are too old."""
        with self._database.reading() as connection:
            return _valid_orders(connection)

    def take_order(self) -> NodeOrder:
        """Remove and return the order of this node, empty when there is none or it is too old."""
        with self._database.transaction() as connection:
            order = _valid_orders(connection).get(self._me.name, "")
            connection.execute(NODE_ORDERS.delete().where(NODE_ORDERS.c.name == self._me.name))
        return order

    def nodes(self) -> tuple[StoredNode, ...]:
        """Return all nodes, by name."""
        with self._database.reading() as connection:
            return _nodes(connection)


def _lock_lease(connection: Connection) -> None:
    """Prevent claims of the lease and writes about nodes until this transaction ends."""
    connection.execute(LEADER.update().values(beat=LEADER.c.beat))


def _valid_orders(connection: Connection) -> dict[str, NodeOrder]:
    rows = connection.execute(sqlalchemy.select(NODE_ORDERS))
    orders = {row.name: StoredOrder(row.action, row.given_s, row.token) for row in rows}
    if not orders:
        return {}
    token, now_s = connection.scalar(sqlalchemy.select(LEADER.c.token)), _now_s(connection)
    return {name: order.action for name, order in orders.items() if is_valid(order, token or 0, now_s)}


def _now_s(connection: Connection) -> int:
    """Return the time by the database's clock: those of two hosts may differ by any time."""
    now = connection.scalar(sqlalchemy.select(sqlalchemy.func.current_timestamp()))
    assert now is not None  # noqa: S101 - every database has a clock
    return int((now if now.tzinfo else now.replace(tzinfo=UTC)).timestamp())


def _nodes(connection: Connection) -> tuple[StoredNode, ...]:
    rows = connection.execute(sqlalchemy.select(NODES).order_by(NODES.c.name))
    return tuple(
        StoredNode(
            row.name,
            row.node_group,
            Endpoint(row.sync_host, row.sync_port),
            Endpoint(row.guard_host, row.guard_port),
            row.http_address,
            row.in_sync,
            row.changed_ms,
        )
        for row in rows
    )
