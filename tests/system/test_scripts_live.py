"""A script that does not end, in a plan on a running cluster: its event fails, and everything else continues."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner
from late_plan import POLL_S
from standalone_cluster import StandaloneCluster

from cep_cli.main import main
from cep_cli.plan_commands.plans import wait_until_connected
from cep_cli.system.local_system import LocalSystem, Ports

pytestmark = [pytest.mark.spark, pytest.mark.cluster]

ENDLESS = 13
CONNECT_S, DONE_S = 180.0, 120.0
SCRIPTED = """\
@Plan:name('Scripted') @Plan:delivery('exactly-once')
@Import('Orders:1.0.0') @OnError(action='STORE') define stream Orders (number long);
@sink(type='file', file.uri='{out}', @map(type='json')) define stream Taken (number long);
define function same[python] return long {{
    while data[0] == 13:
        pass
    return data[0]
}};
@info(name='take') from Orders select same(number) as number insert into Taken;
"""
PLAIN = """\
@Plan:name('Plain')
@Import('Orders:1.0.0') define stream Orders (number long);
@sink(type='file', file.uri='{out}', @map(type='json')) define stream Taken (number long);
@info(name='take') from Orders select number insert into Taken;
"""


@pytest.fixture
def scripted_system(tmp_path: Path) -> Iterator[LocalSystem]:
    """A system on a cluster that allows scripts in Python."""
    with StandaloneCluster(tmp_path, workers=1, cores_each=4) as cluster:
        settings = {
            **os.environ,
            **cluster.driver_settings(),
            "CEP_WORKER__SINKS__FOLDERS": json.dumps([str(tmp_path)]),
            "CEP_MANAGER__SCRIPT__PYTHON": "true",
            "CEP_DRIVER__STAGES__SCRIPT__PYTHON": "true",
        }
        with LocalSystem(tmp_path / "system", Ports.free(), environment=settings) as started:
            yield started


def cep(system: LocalSystem, *arguments: str, stdin: str | None = None) -> str:
    answer = CliRunner().invoke(main, [*arguments, "--manager", system.client.url], input=stdin)
    assert answer.exit_code == 0, answer.output
    return answer.stdout


def until(reached: Callable[[], object], what: Callable[[], object]) -> None:
    deadline = time.monotonic() + DONE_S
    while not reached():
        assert time.monotonic() < deadline, what()
        time.sleep(POLL_S)


def taken(out: Path) -> list[int]:
    if not out.exists():
        return []
    return [json.loads(line)["event"]["number"] for line in out.read_text().splitlines()]


def send(system: LocalSystem, plan: str, numbers: list[int]) -> None:
    cep(system, "send", f"{plan}/Orders", "-", stdin="".join(json.dumps({"number": one}) + "\n" for one in numbers))


def test_a_script_without_end_fails_its_event_and_everything_else_continues(
    scripted_system: LocalSystem, tmp_path: Path
) -> None:
    system, out, plain = scripted_system, tmp_path / "scripted.ndjson", tmp_path / "plain.ndjson"
    system.client.deploy(SCRIPTED.format(out=out), replace=False)
    system.client.deploy(PLAIN.format(out=plain), replace=False)
    for plan in ("Scripted", "Plain"):
        wait_until_connected(system.client, plan, CONNECT_S)
    numbers = list(range(ENDLESS + 7))
    send(system, "Scripted", numbers)
    send(system, "Plain", numbers)
    until(lambda: taken(plain) == numbers, lambda: taken(plain))
    others = [one for one in numbers if one != ENDLESS]
    until(lambda: taken(out) == others, lambda: (taken(out), system.client.plan("Scripted")["status"]))
    (failed,) = json.loads(cep(system, "errors", "Scripted", "--json"))["entries"]
    assert [event["number"] for event in failed["events"]] == [ENDLESS]
    assert "'same': it took more than 500 ms of processor time" in json.dumps(failed)

    def alerts() -> list[str]:
        return [one["code"] for one in system.client.overview()["alerts"] if one["name"] == "Scripted"]

    until(lambda: "script-stopped" in alerts(), lambda: system.client.overview()["alerts"])
    send(system, "Scripted", [100])
    until(lambda: taken(out) == [*others, 100], lambda: taken(out))
    assert system.client.plan("Scripted")["status"]["topology"]["restarts"] == 0
