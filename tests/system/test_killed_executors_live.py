"""An event that takes its whole executor along, as by its memory, is given up, and the others have their results."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner
from late_plan import CONNECT_TIMEOUT_S, POLL_S
from standalone_cluster import StandaloneCluster

from cep_cli.main import main
from cep_cli.plan_commands.plans import wait_until_connected
from cep_cli.system.local_system import LocalSystem, Ports

pytestmark = [pytest.mark.spark, pytest.mark.cluster]

DEADLY = 13
GIVEN_UP_S = 240.0
TEXT = """\
@Plan:name('Deadly') @Plan:host('own')
@Import('Orders:1.0.0') define stream Orders (number int);
@sink(type='file', file.uri='{out}', @map(type='json'))
define stream Taken (number int);
@info(name='take') from Orders select deadly:take(number) as number insert into Taken;
"""
DECLARED = """
from siddhi.extensions.declaring import function
from siddhi.language.ast import AttributeType
from siddhi.parameters import INT, takes, value
from siddhi.plugins.extension import Extension

DEADLY = Extension(
    "deadly", (function("deadly", "take", "the number", AttributeType.INT, takes(value("number", INT))),),
    ("deadly_engine",),
)
"""
IMPLEMENTED = """
import os
import signal
from pathlib import Path

from siddhi.engine.operators.functions.rows import row_function


def parent_of(process_id):
    lines = Path(f"/proc/{process_id}/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("PPid:"))


def take(number):
    if number == 13:  # as the kernel does when the memory of a container has run out
        daemon = os.getppid()
        os.kill(parent_of(daemon), signal.SIGKILL)
        os.kill(os.getpid(), signal.SIGKILL)
    return number


row_function("deadly", "take", take)
"""


@pytest.fixture
def deadly_system(tmp_path: Path) -> Iterator[LocalSystem]:
    """A system on a cluster of one executor, with a function that kills this for one number."""
    packages = tmp_path / "packages"
    described = packages / "deadly-1.0.dist-info"
    described.mkdir(parents=True)
    (described / "METADATA").write_text("Metadata-Version: 2.1\nName: deadly\nVersion: 1.0\n")
    (described / "entry_points.txt").write_text("[cep.siddhi.extensions]\ndeadly = deadly:DEADLY\n")
    (packages / "deadly.py").write_text(DECLARED)
    (packages / "deadly_engine.py").write_text(IMPLEMENTED)
    paths = os.pathsep.join(filter(None, [str(packages), os.environ.get("PYTHONPATH", "")]))
    environment = {**os.environ, "PYTHONPATH": paths}
    with StandaloneCluster(tmp_path, workers=1, cores_each=2, environment=environment) as cluster:
        settings = {
            **environment,
            **cluster.driver_settings(),
            "CEP_WORKER__SINKS__FOLDERS": json.dumps([str(tmp_path)]),
        }
        with LocalSystem(tmp_path / "system", Ports.free(), environment=settings) as started:
            yield started


def cep(system: LocalSystem, *arguments: str, stdin: str | None = None) -> str:
    answer = CliRunner().invoke(main, [*arguments, "--manager", system.client.url], input=stdin)
    assert answer.exit_code == 0, answer.output
    return answer.stdout


def test_an_event_with_which_executors_are_killed_is_given_up(deadly_system: LocalSystem, tmp_path: Path) -> None:
    system, out = deadly_system, tmp_path / "taken.ndjson"
    system.client.deploy(TEXT.format(out=out), replace=False)
    wait_until_connected(system.client, "Deadly", CONNECT_TIMEOUT_S)
    for number in (11, 12, DEADLY, 14, 15):
        cep(system, "send", "Deadly/Orders", "-", stdin=json.dumps({"number": number}) + "\n")
    deadline = time.monotonic() + GIVEN_UP_S
    while not (found := json.loads(cep(system, "errors", "Deadly", "--json"))["entries"]):
        assert time.monotonic() < deadline, system.client.plan("Deadly")["status"]
        time.sleep(POLL_S)
    assert [event["number"] for entry in found for event in entry["events"]] == [DEADLY]
    assert found[0]["reason"].startswith("poison: ")
    while set(taken(out)) != {11, 12, 14, 15}:
        assert time.monotonic() < deadline, taken(out)
        time.sleep(POLL_S)
    assert "executor-killed" in json.dumps(system.client.exceptions("Deadly"))


def taken(out: Path) -> list[int]:
    if not out.exists():
        return []
    return [json.loads(line)["event"]["number"] for line in out.read_text().splitlines()]
