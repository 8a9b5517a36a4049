"""What a system on one machine refuses before it starts anything."""

from __future__ import annotations

import fcntl
import os
import socket
from pathlib import Path

import msgspec
import pytest

from cep_cli.system.local_system import LOCK, OPEN, PORT_VARIABLES, LocalSystem, LocalSystemError, Ports
from cep_common.errors import ConfigError


@pytest.mark.parametrize("name", PORT_VARIABLES)
def test_a_port_that_somebody_listens_on_is_named_and_nothing_is_started(name: str, tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        ports = msgspec.structs.replace(Ports.free(), **{name: port})
        with pytest.raises(LocalSystemError, match=f"127.0.0.1:{port}.*{PORT_VARIABLES[name]}"):
            LocalSystem(tmp_path, ports).__enter__()
    assert [path.name for path in tmp_path.iterdir()] == [LOCK]
    with (tmp_path / LOCK).open() as lock:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)  # it lets go of the folder


def test_two_ports_that_are_the_same_are_noticed(tmp_path: Path) -> None:
    free = Ports.free()
    with pytest.raises(LocalSystemError, match=f"127.0.0.1:{free.console}.*CEP_WORKER__HTTP__PORT"):
        LocalSystem(tmp_path, msgspec.structs.replace(free, http=free.console)).__enter__()


def test_what_is_no_folder_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(LocalSystemError, match=r"file: cannot be used: "):
        LocalSystem(tmp_path / "file", Ports.free()).__enter__()


def test_a_folder_in_which_a_system_runs_is_left_alone(tmp_path: Path) -> None:
    with (tmp_path / LOCK).open("a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        with pytest.raises(LocalSystemError, match=str(tmp_path)):
            LocalSystem(tmp_path, Ports.free()).__enter__()
    assert os.listdir(tmp_path) == [LOCK]


def test_the_variables_of_the_processes_set_their_ports() -> None:
    assert Ports.of({}) == Ports()
    set_ports = {variable: str(20_000 + place) for place, variable in enumerate(PORT_VARIABLES.values())}
    assert Ports.of(set_ports) == Ports(20_000, 20_001, 20_002, 20_003, 20_004)
    assert Ports.of({"CEP_WORKER__HTTP__PORT": "8111"}) == Ports(http=8111)


@pytest.mark.parametrize("text", ["", "0", "65536", "-1", "http", "80.5", pytest.param("9" * 5_000, id="endless")])
def test_what_is_no_port_is_refused_by_its_variable(text: str) -> None:
    with pytest.raises(ConfigError, match="CEP_MANAGER__HTTP__PORT"):
        Ports.of({"CEP_MANAGER__HTTP__PORT": text})


def test_what_plans_may_reach_is_opened_for_one_user_unless_that_is_settled(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    nobody: dict[str, str] = {}
    assert LocalSystem(tmp_path, environment=nobody)._allowed() == OPEN
    assert "login is off" in LocalSystem(tmp_path, environment=nobody).allowance()
    assert LocalSystem(tmp_path, environment=nobody, login=True)._allowed() == {}
    assert LocalSystem(tmp_path, environment=nobody, login=True).allowance() == ""
    own = LocalSystem(tmp_path, environment={"CEP_WORKER__SINKS__URLS": "[]"})
    assert "CEP_WORKER__SINKS__URLS" not in own._allowed()
    (tmp_path / "conf").mkdir()
    (tmp_path / "conf" / "worker.yaml").write_text("sinks: {folders: [/srv/out]}\n")
    by_file = LocalSystem(tmp_path, environment=nobody)
    assert "CEP_WORKER__SINKS__FOLDERS" not in by_file._allowed()
    assert "sinks.urls, sources.urls" in by_file.allowance()
    assert "sinks.folders" not in by_file.allowance()
