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
    assert "manager.key: already exists; keys are not overwritten" in again.stderr


def test_a_client_gets_a_folder_of_its_own_and_workers_know_its_bounds(tmp_path: Path) -> None:
    keys, theirs, runner = tmp_path / "keys", tmp_path / "theirs", CliRunner()
    command = ["client-key", str(keys), "feeder", "--tenant", "7", "--send", "Storms/*", "--to", str(theirs)]
    early = runner.invoke(main, command)
    assert (early.exit_code, "cep keys" in early.stderr) == (2, True)
    runner.invoke(main, ["keys", str(keys)])
    done = runner.invoke(main, command)
    assert done.exit_code == 0
    file = keys / "clients" / "feeder.key"
    assert done.stdout.splitlines() == [
        str(file), *(str(theirs / name) for name in ("worker.key", "client.key", "client.key_secret"))
    ]  # fmt: skip
    holder = read_keys(theirs, Role.CLIENT)
    assert holder.secret.decode() not in done.output
    assert holder.known[Role.WORKER] == read_keys(keys, Role.WORKER).public
    worker = read_keys(keys, Role.WORKER)
    assert (worker.role_of(holder.public), worker.user_of(holder.public)) == (Role.CLIENT, "client:feeder")
    assert worker.refusal("client:feeder", "send", 7, "Storms/In") == ""
    assert "the key feeder may not listen to Storms/In" in worker.refusal("client:feeder", "listen", 7, "Storms/In")
    assert runner.invoke(main, command).exit_code == 2, "keys are not overwritten"
    nothing = runner.invoke(main, ["client-key", str(keys), "idle", "--tenant", "7"])
    assert (nothing.exit_code, "--send and --listen" in nothing.stderr) == (2, True)
