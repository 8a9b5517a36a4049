"""The leader reads the log of a standby manager, in whatever process that is."""

from __future__ import annotations

import logging
import sqlite3
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from free_ports import free_port
from test_manager_process import eventually

from cep_common.inspection.endpoint import Inspection
from cep_common.inspection.log_buffer import LogBuffer
from cep_manager.config import (
    AccountsConfig,
    ControlConfig,
    DatabaseConfig,
    ElectionConfig,
    ManagerConfig,
    ManagerHttpConfig,
)
from cep_manager.main import ManagerProcess
from cep_manager.monitoring.logs.model import LogQuery
from cep_manager.persistence.schema import FORMER, SCHEMA_VERSION

ELECTION = ElectionConfig(heartbeat_ms=500, retries=2, poll_ms=100)


@pytest.fixture
def managers(tmp_path: Path) -> Iterator[tuple[ManagerProcess, ManagerProcess, int]]:
    """A leader, a standby manager, and the latter's control port."""
    with ExitStack() as opened:
        made = []
        for name in ("leader", "standby"):
            config = ManagerConfig(
                control=ControlConfig(port=(port := free_port())),
                http=ManagerHttpConfig(port=free_port()),
                database=DatabaseConfig(url=f"sqlite:///{tmp_path}/manager.db"),
                election=ELECTION,
                accounts=AccountsConfig(login=False),
            )
            ring = LogBuffer(100_000)
            ring.handle(logging.makeLogRecord({"name": "m", "msg": f"of the {name}", "levelno": logging.INFO}))
            process = ManagerProcess(config, insight=Inspection(ring))
            opened.callback(process.close)
            made.append(process)
        yield made[0], made[1], port


def test_the_log_of_a_standby_is_read_at_its_door(managers: tuple[ManagerProcess, ManagerProcess, int]) -> None:
    leader, _, port = managers
    standby = f"manager:127.0.0.1:{port}"
    insights = leader.manager.insights()
    eventually(lambda: any(one.id == standby and one.readable for one in insights.processes()))
    assert [one.text for one in insights.log(standby, LogQuery()).records] == ["of the standby"]
    found = insights.search(LogQuery())
    assert {one.text for one in found.records} == {"of the leader", "of the standby"}


def test_the_list_of_managers_of_an_earlier_version_gets_its_column(tmp_path: Path) -> None:
    path = tmp_path / "manager.db"
    config = ManagerConfig(
        control=ControlConfig(port=free_port()),
        http=ManagerHttpConfig(port=free_port()),
        database=DatabaseConfig(url=f"sqlite:///{path}"),
        accounts=AccountsConfig(login=False),
    )
    ManagerProcess(config).close()
    with sqlite3.connect(path) as before:
        before.execute("ALTER TABLE cep_managers DROP COLUMN insight")
        before.execute("ALTER TABLE cep_plans DROP COLUMN restore")
        before.execute("ALTER TABLE cep_plans DROP COLUMN restore_epoch")
        before.execute("ALTER TABLE cep_plans DROP COLUMN draining")
        before.execute("DROP TABLE cep_removed_plans")
        before.execute("DROP TABLE cep_system")
        before.execute("DROP TABLE cep_nodes")
        before.execute("ALTER TABLE cep_plans DROP COLUMN plan_id")
        before.execute("ALTER TABLE cep_plans DROP COLUMN former_names")
        before.execute("ALTER TABLE cep_epochs DROP COLUMN called")
        before.execute("DROP TABLE cep_topics")
        before.execute("DROP TABLE cep_node_orders")
        for table in ("cep_plans", FORMER.name):
            before.execute(f"ALTER TABLE {table} DROP COLUMN host")
            before.execute(f"ALTER TABLE {table} DROP COLUMN instances")
        before.execute("DROP TABLE cep_scalings")
        before.execute("UPDATE cep_schema SET version = 5")
    ManagerProcess(config).close()
    with sqlite3.connect(path) as after:
        assert after.execute("SELECT version FROM cep_schema").fetchall() == [(SCHEMA_VERSION,)]
        assert after.execute("SELECT insight FROM cep_managers").fetchall() == []
