"""The file of tokens: told once, kept as hashes, seen by its readers as soon as it changes."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest

from cep_common.errors import ConfigError, InputError
from cep_common.security.access import AccessRole, Principal
from cep_common.security.tokens import TokenFile


@pytest.fixture
def file(tmp_path: Path) -> TokenFile:
    return TokenFile(tmp_path / "var" / "tokens.json")


def test_a_token_names_its_owner_and_the_file_does_not_hold_it(file: TokenFile, tmp_path: Path) -> None:
    token = file.create("ci", AccessRole.EDITOR, 7, now_ms=5)
    assert file.principal(token) == Principal("ci", AccessRole.EDITOR, 7)
    kept = tmp_path / "var" / "tokens.json"
    assert token.removeprefix("cep_") not in kept.read_text()
    assert stat.S_IMODE(kept.stat().st_mode) == 0o600


def test_two_tokens_are_never_the_same(file: TokenFile) -> None:
    tokens = {file.create(f"t{number}", AccessRole.VIEWER, None, 0) for number in range(5)}
    assert len(tokens) == 5
    assert all(len(token) > 40 for token in tokens)


def test_a_revoked_token_is_nobodys_at_once_and_the_others_stay(file: TokenFile) -> None:
    first, second = (file.create(name, AccessRole.VIEWER, None, 0) for name in ("first", "second"))
    assert file.principal(first) is not None
    file.revoke("first")
    assert file.principal(first) is None
    assert file.principal(second) == Principal("second", AccessRole.VIEWER)


@pytest.mark.parametrize("shown", ["", "cep_", "cep_" + "A" * 43, "ci"])
def test_what_is_no_token_is_nobodys(file: TokenFile, shown: str) -> None:
    file.create("ci", AccessRole.ADMIN, None, 0)
    assert file.principal(shown) is None


def test_when_the_file_breaks_nobody_is_let_in_until_it_is_mended(file: TokenFile, tmp_path: Path) -> None:
    token = file.create("ci", AccessRole.ADMIN, None, 0)
    assert file.principal(token) is not None
    kept = tmp_path / "var" / "tokens.json"
    whole = kept.read_bytes()
    kept.write_bytes(whole[:-20])
    assert file.principal(token) is None
    kept.write_bytes(whole)
    assert file.principal(token) is not None
    kept.unlink()
    assert file.principal(token) is None


def test_names_are_taken_once_and_unknown_ones_refused(file: TokenFile) -> None:
    file.create("ci", AccessRole.VIEWER, None, 0)
    with pytest.raises(InputError, match="there is a token named ci"):
        file.create("ci", AccessRole.ADMIN, None, 0)
    with pytest.raises(InputError, match="no token named cd; there are: ci"):
        file.revoke("cd")


def test_a_file_of_something_else_is_named(file: TokenFile, tmp_path: Path) -> None:
    (tmp_path / "var").mkdir()
    (tmp_path / "var" / "tokens.json").write_text('{"tokens": [{"name": "x"}]}')
    with pytest.raises(ConfigError, match=r"tokens\.json: is not a file of tokens"):
        file.tokens()
