"""Key files: made once, readable by their owner only, refused by name when something is wrong with them."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest

from cep_common.errors import ConfigError
from cep_common.security.keys import read_keys, secret_file, write_keys
from cep_common.security.roles import Role


def test_each_role_has_a_pair_and_nobody_else_can_read_the_secret_one(tmp_path: Path) -> None:
    write_keys(tmp_path / "keys")
    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in (tmp_path / "keys").iterdir()}
    assert modes == {f"{role.value}.key": 0o644 for role in Role} | {f"{role.value}.key_secret": 0o600 for role in Role}
    assert stat.S_IMODE((tmp_path / "keys").stat().st_mode) == 0o700


def test_keys_are_not_overwritten_not_even_one_of_them(tmp_path: Path) -> None:
    secret_file(tmp_path, Role.CLIENT).write_text("kept")
    with pytest.raises(ConfigError, match=r"client\.key_secret: already exists"):
        write_keys(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["client.key_secret"]


def test_a_ring_knows_whose_each_key_is(tmp_path: Path) -> None:
    write_keys(tmp_path)
    rings = {role: read_keys(tmp_path, role) for role in Role}
    for role, ring in rings.items():
        assert {one: ring.role_of(other.public) for one, other in rings.items()} == {one: one for one in Role}
        assert ring.role is role
    assert rings[Role.WORKER].role_of(b"0" * 40) is None


def test_a_ring_shows_no_key_when_it_is_printed(tmp_path: Path) -> None:
    write_keys(tmp_path)
    ring = read_keys(tmp_path, Role.WORKER)
    assert ring.secret.decode() not in repr(ring)


def test_a_secret_that_others_can_read_is_refused(tmp_path: Path) -> None:
    write_keys(tmp_path)
    secret_file(tmp_path, Role.WORKER).chmod(0o644)
    with pytest.raises(ConfigError, match=r"worker\.key_secret: every user of this host can read it; chmod 600"):
        read_keys(tmp_path, Role.WORKER)


@pytest.mark.parametrize("content", ["", "public-key = short", 'public-key = "' + "x" * 40 + '"'])
def test_a_file_that_holds_no_secret_key_is_named(tmp_path: Path, content: str) -> None:
    secret_file(tmp_path, Role.WORKER).write_text(content)
    with pytest.raises(ConfigError, match=r"worker\.key_secret: (cannot be read|holds)"):
        read_keys(tmp_path, Role.WORKER)


def test_a_folder_without_keys_is_named_with_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(
        ConfigError, match=r"worker\.key_secret: cannot be read as a key; make keys with `cep keys DIR`"
    ):
        read_keys(tmp_path, Role.WORKER)
