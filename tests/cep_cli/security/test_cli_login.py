"""`cep login`, `cep logout`, `cep user`, against a manager where people log in."""

from __future__ import annotations

import json
import socket
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import requests
from click.testing import CliRunner, Result

from cep_cli.main import main
from cep_cli.system.local_system import Ports
from cep_common.web.client import Answer, WebClient
from cep_manager.config import ControlConfig, DatabaseConfig, ManagerConfig, ManagerHttpConfig
from cep_manager.main import ManagerProcess

CHOSEN = "staple the battery twice"


class Operator:
    """Somebody at a terminal of the manager's host."""

    def __init__(self, folder: Path, url: str) -> None:
        self.kept = folder / "home" / "cep" / "credentials.json"
        self._environment = {
            "XDG_CONFIG_HOME": str(folder / "home"),
            "CEP_MANAGER_URL": url,
            "CEP_MANAGER__DATABASE__URL": f"sqlite:///{folder}/manager.db",
            "CEP_TOKEN": None,
        }

    def cep(self, *words: str, typed: str = "") -> Result:
        return CliRunner().invoke(main, words, input=typed, env=self._environment)


def unreachable(*_: Any, **__: Any) -> Answer:
    raise requests.ConnectionError


@pytest.fixture
def operator(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> Iterator[tuple[Operator, str]]:
    """An operator, and what the manager said on standard error when it started."""
    ports = Ports.free()
    config = ManagerConfig(
        control=ControlConfig(port=ports.control),
        http=ManagerHttpConfig(port=ports.console),
        database=DatabaseConfig(url=f"sqlite:///{tmp_path}/manager.db"),
    )
    process = ManagerProcess(config)
    yield Operator(tmp_path, config.http_address()), capfd.readouterr().err
    process.close()


@pytest.mark.thorough
def test_an_operator_begins_with_the_password_that_the_manager_says_once(
    operator: tuple[Operator, str], caplog: pytest.LogCaptureFixture
) -> None:
    person, said = operator
    password = said.split("password")[1].split()[0]
    assert password not in caplog.text
    refused = person.cep("plans")
    assert refused.exit_code == 1
    assert "not-authenticated" in refused.stderr
    assert "send a token" in refused.stderr
    assert "not valid here" in person.cep("plans", "--token", "mistyped").stderr
    logged_in = person.cep("login", "admin", typed=f"{password}\n{CHOSEN}\n{CHOSEN}\n")
    assert logged_in.exit_code == 0, logged_in.stderr
    assert "as admin (admin) for 30 days" in logged_in.stderr
    assert stat.S_IMODE(person.kept.stat().st_mode) == 0o600
    assert CHOSEN not in person.kept.read_text()
    assert person.cep("plans").exit_code == 0
    assert person.cep("login", "admin", typed=f"{password}\n").exit_code == 1
    nobody_types = person.cep("login", "admin")
    assert (nobody_types.exit_code, "standard input has ended" in nobody_types.stderr) == (1, True)
    token = next(iter(json.loads(person.kept.read_text()).values()))["token"]
    assert person.cep("logout").exit_code == 0
    assert "not logged in" in person.cep("logout").stderr
    assert person.cep("plans").exit_code == 1
    assert person.cep("plans", "--token", token).exit_code == 1


@pytest.mark.thorough
def test_a_token_is_forgotten_only_when_it_is_good_no_more(
    operator: tuple[Operator, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    person, said = operator
    monkeypatch.setattr(socket, "gethostname", lambda: "host-" + "x" * 80)
    password = said.split("password")[1].split()[0]
    assert person.cep("login", "admin", typed=f"{password}\n{CHOSEN}\n{CHOSEN}\n").exit_code == 0
    assert person.cep("login", "admin", typed=f"{CHOSEN}\n").exit_code == 0, "the names differ by the time"
    first = person.kept.read_text()
    monkeypatch.setattr(WebClient, "request", staticmethod(unreachable))
    assert person.cep("logout").exit_code == 3
    assert person.kept.read_text() == first
    monkeypatch.undo()
    (kept,) = json.loads(first).values()
    url = str(person._environment["CEP_MANAGER_URL"])
    revoked = requests.delete(
        f"{url}/api/v1/account/tokens/{kept['name']}",
        headers={"Authorization": f"Bearer {kept['token']}"},
        timeout=10,
    )
    assert revoked.status_code == 204
    assert person.cep("logout").exit_code == 0, "a token that is good no more is forgotten"
    assert json.loads(person.kept.read_text()) == {}


@pytest.mark.thorough
def test_an_operator_who_is_locked_out_gets_in_at_the_managers_host(operator: tuple[Operator, str]) -> None:
    person, _ = operator
    assert "admin" in person.cep("user", "list").stdout
    first = person.cep("user", "reset-password", "admin").stdout.strip()
    assert person.cep("login", "admin", typed=f"{first}\n{CHOSEN}\n{CHOSEN}\n").exit_code == 0
    made = person.cep("user", "create", "vera", "--role", "viewer", "--tenant", "7")
    assert made.exit_code == 0
    users = {one["name"]: one for one in json.loads(person.cep("user", "list", "--json").stdout)}
    assert users["vera"] | {"created_ms": 0} == {
        "name": "vera", "role": "viewer", "tenant": 7, "disabled": False, "must_change_password": True,
        "created_ms": 0, "login_ms": 0,
    }  # fmt: skip
    assert person.cep("user", "disable", "vera").exit_code == 0
    refused = person.cep("user", "create", "tess", "--role", "viewer", "--tenant", "12345678901")
    assert (refused.exit_code, "whole number" in refused.stderr) == (1, True)
    assert "last admin" in person.cep("user", "disable", "admin").stderr
    assert "no user named otto" in person.cep("user", "disable", "otto").stderr


def test_nothing_but_health_is_told_to_somebody_who_does_not_say_who_they_are(
    operator: tuple[Operator, str],
) -> None:
    person, _ = operator
    url = str(person._environment["CEP_MANAGER_URL"])
    assert requests.get(f"{url}/api/v1/health", timeout=10).status_code == 200
    for path in ("/api/v1/plans", "/api/v1/cluster", "/metrics", "/storm/api/v1/cluster/summary"):
        assert requests.get(f"{url}{path}", timeout=10).status_code == 401, path
    asked = requests.get(f"{url}/", timeout=10, allow_redirects=False)
    assert (asked.status_code, asked.headers["Location"]) == (303, "/login?next=/")
