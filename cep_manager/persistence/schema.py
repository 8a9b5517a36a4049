"""The tables of the managers' database, and their migration from earlier versions."""

from __future__ import annotations

import uuid

import sqlalchemy
from sqlalchemy import BigInteger, Boolean, Column, Connection, Float, Integer, MetaData, String, Table, Text, text

from cep_manager.persistence.account_schema import ACCOUNTS

SCHEMA_VERSION = 16

METADATA = MetaData()
VERSION = Table("cep_schema", METADATA, Column("version", Integer, primary_key=True, autoincrement=False))

PLANS = Table(
    "cep_plans",
    METADATA,
    Column("tenant", Integer, primary_key=True, autoincrement=False),
    Column("name", String(128), primary_key=True),
    Column("text", Text, nullable=False),
    Column("created_ms", BigInteger, nullable=False),
    Column("updated_ms", BigInteger, nullable=False),
    # The epoch under which the plan runs, and the one that was counted for its present text and workers.
    Column("epoch", BigInteger, nullable=False),
    Column("changed_epoch", BigInteger, nullable=False),
    Column("intake", Boolean, nullable=False),
    Column("workers", Integer),
    # The host that it was moved to, `shared` or `own`; null: its text and the configuration decide.
    Column("host", String(8)),
    Column("origin", Text, nullable=False),
    Column("trace", Boolean),
    Column("statistics", String(16)),
    # What it starts from until it has run: a savepoint, `none`, or empty: its newest checkpoint.
    Column("restore", String(64), nullable=False, server_default=""),
    # The epoch under which that was ordered; 0 when it was not.
    Column("restore_epoch", BigInteger, nullable=False, server_default="0"),
    # While it is being undeployed: the workers that may have had events of it then, as a JSON list.
    Column("draining", Text),
    # Stays the same when the plan is renamed; the other tables know it by this.
    Column("plan_id", String(128), nullable=False, server_default=""),
    # Names that it had before and no plan has now, as a JSON list.
    Column("former_names", Text, nullable=False, server_default="[]"),
    # The numbers of instances that its scaled stages have grown to, by stage, as a JSON object.
    Column("instances", Text, nullable=False, server_default="{}"),
)

# What a plan was before a change, for as long as it is not certain that the change works; `name` is its id.
FORMER = Table(
    "cep_former_plans",
    METADATA,
    Column("tenant", Integer, primary_key=True, autoincrement=False),
    Column("name", String(128), primary_key=True),
    Column("change", String(16), nullable=False),
    Column("text", Text, nullable=False),
    Column("updated_ms", BigInteger, nullable=False),
    Column("epoch", BigInteger, nullable=False),
    Column("workers", Integer),
    Column("host", String(8)),
    Column("instances", Text, nullable=False, server_default="{}"),
)

# Changes of the number of instances of scaled stages, and why they were made; `name` is the plan's id.
SCALINGS = Table(
    "cep_scalings",
    METADATA,
    Column("tenant", Integer, primary_key=True, autoincrement=False),
    Column("name", String(128), primary_key=True),
    Column("at_ms", BigInteger, primary_key=True, autoincrement=False),
    Column("stage", String(128), primary_key=True),
    Column("instances_before", Integer, nullable=False),
    Column("instances_after", Integer, nullable=False),
    Column("events_per_s", Float, nullable=False),
    Column("reason", Text, nullable=False),
    # Why the plan has kept its former instances; empty: it has not.
    Column("problem", Text, nullable=False),
)

# Epochs outlive their plans: a plan that is deployed again must not meet leftovers of its former self under its epoch.
# `name` is the plan's id; `called` is the name that it has, or had when it was undeployed.
EPOCHS = Table(
    "cep_epochs",
    METADATA,
    Column("tenant", Integer, primary_key=True, autoincrement=False),
    Column("name", String(128), primary_key=True),
    Column("epoch", BigInteger, nullable=False),
    Column("called", String(128), nullable=False, server_default=""),
)

# Plans that were undeployed on purpose. Workers delete what they have of these; that a plan is not there is not enough.
REMOVED = Table(
    "cep_removed_plans",
    METADATA,
    Column("tenant", Integer, primary_key=True, autoincrement=False),
    Column("name", String(128), primary_key=True),
    Column("created_ms", BigInteger, primary_key=True, autoincrement=False),
    Column("removed_ms", BigInteger, nullable=False),
)

# One row: the random identity of the database, created with it.
SYSTEM = Table("cep_system", METADATA, Column("identity", String(32), nullable=False))

# One row: the leader. Every write of plans increments `changes`, and so locks the row until the commit.
LEADER = Table(
    "cep_leader",
    METADATA,
    Column("token", BigInteger, nullable=False),
    Column("beat", BigInteger, nullable=False),
    Column("changes", BigInteger, nullable=False),
    Column("holder", String(64), nullable=False),
    Column("host", Text, nullable=False),
    Column("port", Integer, nullable=False),
    Column("http_address", Text, nullable=False),
    Column("lease_ms", BigInteger, nullable=False),
    Column("since_ms", BigInteger, nullable=False),
)
NO_LEADER = {
    "token": 0,
    "beat": 0,
    "changes": 0,
    "holder": "",
    "host": "",
    "port": 0,
    "http_address": "",
    "lease_ms": 0,
    "since_ms": 0,
}

# All managers, leader and standbys, by the address of their control plane; each counts its row's beat up.
MANAGERS = Table(
    "cep_managers",
    METADATA,
    Column("host", String(255), primary_key=True),
    Column("port", Integer, primary_key=True, autoincrement=False),
    Column("instance", String(64), nullable=False),
    Column("http_address", Text, nullable=False),
    Column("beat", BigInteger, nullable=False),
    # Where other managers read its log, as host:port; empty: nowhere.
    Column("insight", Text, nullable=False, server_default=""),
)

# The nodes of a two-node system. One that is `in_sync` has every acknowledged event, and may claim the lease.
NODES = Table(
    "cep_nodes",
    METADATA,
    Column("name", String(64), primary_key=True),
    Column("node_group", String(64), nullable=False),
    Column("sync_host", String(255), nullable=False),
    Column("sync_port", Integer, nullable=False),
    Column("guard_host", String(255), nullable=False),
    Column("guard_port", Integer, nullable=False),
    Column("http_address", Text, nullable=False),
    Column("in_sync", Boolean, nullable=False),
    Column("changed_ms", BigInteger, nullable=False),
)

# A command of an administrator to a node, until the node accepts it.
NODE_ORDERS = Table(
    "cep_node_orders",
    METADATA,
    Column("name", String(64), primary_key=True),
    Column("action", String(16), nullable=False),
    Column("given_s", BigInteger, nullable=False),
    Column("token", BigInteger, nullable=False),
)

# Topics of Kafka that carry streams of plans: whose each is, and whether a manager created it, which deletes it then.
TOPICS = Table(
    "cep_topics",
    METADATA,
    Column("topic", String(249), primary_key=True),
    Column("tenant", Integer, nullable=False),
    Column("plan_id", String(128), nullable=False),
    Column("created", Boolean, nullable=False),
)


def bring_up_to_date(connection: Connection) -> int:
    """Create or upgrade the tables and return their version.

    This is `SCHEMA_VERSION`, or the version of a newer manager, in which case nothing is changed.
    """
    VERSION.create(connection, checkfirst=True)
    version = connection.scalar(sqlalchemy.select(VERSION.c.version))
    if version is None:
        METADATA.create_all(connection)
        ACCOUNTS.create_all(connection)
        connection.execute(LEADER.insert().values(NO_LEADER))
        connection.execute(SYSTEM.insert().values(identity=uuid.uuid4().hex))
        connection.execute(VERSION.insert().values(version=SCHEMA_VERSION))
        return SCHEMA_VERSION
    if version not in range(1, SCHEMA_VERSION):
        return int(version)
    if version == 1:
        for statement in _FROM_1_TO_2:
            connection.execute(text(statement))
        FORMER.create(connection)
    if version in (1, 2):
        LEADER.create(connection)
        MANAGERS.create(connection)
        connection.execute(LEADER.insert().values(NO_LEADER))
    if version in (1, 2, 3):
        connection.execute(text(_FROM_3_TO_4))
    _add_since_3(connection, version)
    ACCOUNTS.create_all(connection)
    connection.execute(VERSION.update().values(version=SCHEMA_VERSION))
    return SCHEMA_VERSION


def _add_since_3(connection: Connection, version: int) -> None:
    if version in (3, 4, 5):  # before that there were no managers in it
        connection.execute(text(_FROM_5_TO_6))
    if version < 7:
        for statement in _FROM_6_TO_7:
            connection.execute(text(statement))
    if version < 8:
        connection.execute(text(_FROM_7_TO_8))
    if version < 9:
        REMOVED.create(connection)
        SYSTEM.create(connection)
        connection.execute(SYSTEM.insert().values(identity=uuid.uuid4().hex))
    if version < 10:
        for statement in _FROM_9_TO_10:
            connection.execute(text(statement))
    if version < 11:
        NODES.create(connection)
    if version < 12:
        TOPICS.create(connection)
    tables = (PLANS, FORMER) if version > 1 else (PLANS,)  # the other one was made just now
    if version < 13:
        _add_column(connection, tables, "host VARCHAR(8)")
    if version < 16:
        SCALINGS.create(connection)
        _add_column(connection, tables, "instances TEXT NOT NULL DEFAULT '{}'")
    NODE_ORDERS.drop(connection, checkfirst=True)  # the age of an order of version 14 is unknown
    NODE_ORDERS.create(connection)


def _add_column(connection: Connection, tables: tuple[Table, ...], column: str) -> None:
    for table in tables:
        connection.execute(text(f"ALTER TABLE {table.name} ADD COLUMN {column}"))


def system_identity(connection: Connection) -> str:
    """Return the identity of the database."""
    return str(connection.scalar(sqlalchemy.select(SYSTEM.c.identity)) or "")


_COUNTED = "SELECT e.epoch FROM cep_epochs e WHERE e.tenant = cep_plans.tenant AND e.name = cep_plans.name"

_FROM_1_TO_2 = (
    "ALTER TABLE cep_plans ADD COLUMN epoch BIGINT NOT NULL DEFAULT 0",
    "ALTER TABLE cep_plans ADD COLUMN changed_epoch BIGINT NOT NULL DEFAULT 0",
    "ALTER TABLE cep_plans ADD COLUMN intake BOOLEAN NOT NULL DEFAULT TRUE",
    "ALTER TABLE cep_plans ADD COLUMN workers INTEGER",
    "ALTER TABLE cep_plans ADD COLUMN origin TEXT NOT NULL DEFAULT ''",
    "ALTER TABLE cep_plans ADD COLUMN trace BOOLEAN",
    f"UPDATE cep_plans SET epoch = ({_COUNTED}), changed_epoch = ({_COUNTED})",  # noqa: S608 - our own constant
)

_FROM_5_TO_6 = "ALTER TABLE cep_managers ADD COLUMN insight TEXT NOT NULL DEFAULT ''"
_FROM_6_TO_7 = (
    "ALTER TABLE cep_plans ADD COLUMN restore VARCHAR(64) NOT NULL DEFAULT ''",
    "ALTER TABLE cep_plans ADD COLUMN restore_epoch BIGINT NOT NULL DEFAULT 0",
)
_FROM_7_TO_8 = "ALTER TABLE cep_plans ADD COLUMN draining TEXT"
_FROM_9_TO_10 = (
    "ALTER TABLE cep_plans ADD COLUMN plan_id VARCHAR(128) NOT NULL DEFAULT ''",
    "ALTER TABLE cep_plans ADD COLUMN former_names TEXT NOT NULL DEFAULT '[]'",
    "ALTER TABLE cep_epochs ADD COLUMN called VARCHAR(128) NOT NULL DEFAULT ''",
    "UPDATE cep_plans SET plan_id = name",
    "UPDATE cep_epochs SET called = name",
)
_FROM_3_TO_4 = "ALTER TABLE cep_plans ADD COLUMN statistics VARCHAR(16)"
