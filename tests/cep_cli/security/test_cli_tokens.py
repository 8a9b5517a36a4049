"""`cep token`: a token is told once, listed by name, and revoked."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from cep_cli.main import main
from cep_common.security.access import AccessRole, Principal
from cep_common.security.tokens import TokenFile
from cep_common.web.client import Answer, WebClient


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "tokens.json"


def cep(*arguments: str, path: Path) -> Result:
    return CliRunner().invoke(main, ["token", *arguments, "--file", str(path)])


def test_a_token_is_printed_once_and_alone(path: Path) -> None:
    made = cep("create", "ci", "--role", "editor", "--tenant", "7", path=path)
    assert made.exit_code == 0
    assert TokenFile(path).principal(made.stdout.strip()) == Principal("ci", AccessRole.EDITOR, 7)
    assert made.stdout.strip() not in made.stderr


def test_the_list_tells_names_and_roles_and_no_hashes(path: Path) -> None:
    cep("create", "ci", "--role", "viewer", path=path)
    assert cep("list", path=path).stdout.split()[:4] == ["ci", "viewer", "all", "tenants"]
    (shown,) = json.loads(cep("list", "--json", path=path).stdout)
    assert (shown["name"], shown["role"], shown["tenant"]) == ("ci", "viewer", None)
    assert "sha256" not in shown


def test_a_file_that_is_not_there_is_named(path: Path) -> None:
    refused = cep("list", path=path)
    assert (refused.exit_code, refused.stdout) == (1, "")
    assert str(path) in refused.stderr.replace("\n", "")


def test_what_cannot_be_done_is_said(path: Path) -> None:
    cep("create", "ci", "--role", "viewer", path=path)
    for refused in (cep("create", "ci", "--role", "admin", path=path), cep("revoke", "cd", path=path)):
        assert (refused.exit_code, refused.stdout) == (1, "")
        assert "token named c" in refused.stderr
    assert cep("revoke", "ci", path=path).exit_code == 0
    assert cep("list", path=path).stdout == ""


def test_commands_show_the_token_of_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    shown: list[str | None] = []

    def request(_method: str, _url: str, headers: dict[str, str], **_: object) -> Answer:
        shown.append(headers.get("Authorization"))
        return Answer(200, {}, "", b'{"plans": []}')

    monkeypatch.setattr(WebClient, "request", staticmethod(request))
    for environment in ({}, {"CEP_TOKEN": "cep_x"}):
        assert CliRunner(env={"CEP_TOKEN": None} | environment).invoke(main, ["plans"]).exit_code == 0
    assert shown == [None, "Bearer cep_x"]
