"""How the processes refuse to start: exit code and one message, never a traceback."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

pytestmark = pytest.mark.cluster

TIMEOUT_S = 60


def cep(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(  # noqa: S603 - our own command
        [sys.executable, "-m", "cep_cli", *arguments],
        env={**os.environ, **environment}, capture_output=True, text=True, timeout=TIMEOUT_S, check=False,
    )  # fmt: skip


@pytest.fixture
def taken_port() -> Iterator[str]:
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield str(server.getsockname()[1])


@pytest.fixture
def free_port() -> str:
    with socket.create_server(("127.0.0.1", 0)) as server:
        return str(server.getsockname()[1])


@pytest.mark.parametrize("taken", ["CEP_MANAGER__CONTROL__PORT", "CEP_MANAGER__HTTP__PORT"])
def test_a_manager_whose_port_is_in_use_says_which(taken: str, taken_port: str, free_port: str, tmp_path: Path) -> None:
    ports = {"CEP_MANAGER__CONTROL__PORT": free_port, "CEP_MANAGER__HTTP__PORT": free_port, taken: taken_port}
    ended = cep("manager", **ports, CEP_MANAGER__DATABASE__URL=f"sqlite:///{tmp_path}/manager.db")

    assert ended.returncode == 1
    message = ended.stderr.splitlines()[-1]
    assert message.startswith("cep: ")
    assert taken_port in message
    assert "Traceback" not in ended.stderr


@pytest.mark.parametrize(
    ("process", "variable", "value", "named"),
    [
        ("manager", "CEP_MANAGER__CONTROL__PROT", "1", "unknown key control.prot; did you mean port?"),
        ("manager", "CEP_MANAGER__CONTROL__PORT", "many", "control.port: "),
        ("worker", "CEP_WORKER__HTTP__PORT", "70000", "http.port: "),
        ("driver", "CEP_DRIVER__MANAGERS", "[]", "managers: "),
        ("driver", "CEP_DRIVER__SPARK__MASTR", "local", "unknown key spark.mastr; did you mean master?"),
    ],
)
def test_a_wrong_key_is_named_and_the_exit_code_is_2(process: str, variable: str, value: str, named: str) -> None:
    ended = cep(process, **{variable: value})

    assert ended.returncode == 2
    assert named in ended.stderr
    assert "Traceback" not in ended.stderr


def test_a_configuration_file_that_is_not_there_is_named() -> None:
    ended = cep("worker", "--config", "no-such.yaml")

    assert ended.returncode == 2
    assert "no-such.yaml: cannot be read" in ended.stderr


@pytest.mark.parametrize("arguments", [("plans",), ("status", "P"), ("listen", "S"), ("undeploy", "P")])
def test_a_manager_that_does_not_answer_gives_exit_code_3(arguments: tuple[str, ...], free_port: str) -> None:
    url = f"http://127.0.0.1:{free_port}"
    ended = cep(*arguments, "--manager", url)

    assert ended.returncode == 3
    assert ended.stdout == ""
    assert ended.stderr.startswith(f"cep: no manager answers at {url}")
