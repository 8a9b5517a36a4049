"""A manager whose database is full says so, to people and to processes, and not that another manager leads."""

from __future__ import annotations

import sqlite3
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import requests
import zmq
from free_ports import free_port
from sqlalchemy.exc import OperationalError

from cep_common.errors import PeerError
from cep_common.ids import Endpoint
from cep_common.protocol.registry import ListPlans
from cep_common.sockets.transport import ControlClient
from cep_manager.config import (
    AccountsConfig,
    ControlConfig,
    DatabaseConfig,
    ElectionConfig,
    ManagerConfig,
    ManagerHttpConfig,
)
from cep_manager.main import ManagerProcess
from cep_manager.persistence.database import Database

pytestmark = pytest.mark.cluster

WITHIN_S = 60.0


@pytest.fixture
def config(tmp_path: Path) -> Iterator[ManagerConfig]:
    """The configuration of a manager that runs."""
    used = ManagerConfig(
        accounts=AccountsConfig(login=False),
        control=ControlConfig(port=free_port(), heartbeat_ms=100),
        http=ManagerHttpConfig(port=free_port()),
        election=ElectionConfig(heartbeat_ms=100, poll_ms=100),
        database=DatabaseConfig(url=f"sqlite:///{tmp_path / 'manager.db'}"),
    )
    process = ManagerProcess(used)
    yield used
    process.close()


def eventually(reached: Callable[[], bool]) -> None:
    deadline, pause = time.monotonic() + WITHIN_S, threading.Event()
    while not reached():
        assert time.monotonic() < deadline
        pause.wait(0.05)


def test_a_full_database_is_the_reason_that_is_given(config: ManagerConfig, monkeypatch: pytest.MonkeyPatch) -> None:
    url = f"http://127.0.0.1:{config.http.port}/api/v1/plans"

    def answer() -> Any:
        return requests.get(url, timeout=10)

    eventually(lambda: answer().status_code == 200)

    def full(self: Database, survives_power_loss: bool = True) -> Any:
        error = OperationalError("UPDATE", {}, sqlite3.OperationalError("database or disk is full"))
        raise self._explained(error)

    with monkeypatch.context() as patched:
        patched.setattr(Database, "transaction", full)
        eventually(lambda: answer().status_code == 503)
        refused = answer().json()
        assert refused["code"] == "plan-store"
        assert "database or disk is full; it is full: free space on its disk" in refused["message"]
        context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
        client = ControlClient(context, (Endpoint("127.0.0.1", config.control.port),), 2_000)
        with pytest.raises(PeerError, match="database or disk is full"):
            client.request(ListPlans())
        client.close()
        context.term()
    eventually(lambda: answer().status_code == 200)
