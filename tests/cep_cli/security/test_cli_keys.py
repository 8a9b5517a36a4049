"""`cep keys`: what it writes, says, and refuses."""

from __future__ import annotations

from pathlib import Path

from click.testing import CliRunner

from cep_cli.main import main
from cep_common.security.keys import read_keys
from cep_common.security.roles import Role


def test_keys_of_all_roles_are_made_and_told_by_their_files_only(tmp_path: Path) -> None:
    folder = tmp_path / "keys"
    done = CliRunner().invoke(main, ["keys", str(folder)])
    assert done.exit_code == 0
    assert done.stdout.splitlines() == [
        str(folder / f"{role.value}.{kind}") for role in Role for kind in ("key", "key_secret")
    ]
    assert "security.keys" in done.stderr
    secrets = [read_keys(folder, role).secret.decode() for role in Role]
    assert not [secret for secret in secrets if secret in done.output]


def test_keys_that_are_there_end_the_command_as_a_usage_error(tmp_path: Path) -> None:
    runner = CliRunner()
    runner.invoke(main, ["keys", str(tmp_path)])
    again = runner.invoke(main, ["keys", str(tmp_path)])
    assert (again.exit_code, again.stdout) == (2, "")
    assert "manager.key: is there already; keys are not overwritten" in again.stderr
