"""The commands that speak to a running system."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from late_plan import PLAN, TEXT, deploy_late

from cep_cli.main import main
from cep_cli.system.local_system import LocalSystem

pytestmark = [pytest.mark.spark, pytest.mark.cluster]

EVENTS = [
    {"carrier": "UA", "dep_delay": 61},
    {"carrier": "B6", "dep_delay": 5},
    {"carrier": None, "dep_delay": 62},
    {"carrier": "AA", "dep_delay": None},
]
STAMPED = """@Plan:name('Stamped')
@Import('S:1.0.0') define stream S (_timestamp long, a int);
@Export('O:1.0.0') define stream O (_timestamp long, a int, at long);
@name('kept') from S[a > 1] select _timestamp, a insert into Kept;
@name('keyed') partition with (_timestamp of Kept) begin
from Kept select _timestamp, a, eventTimestamp() as at insert into O; end;
"""


def cep(system: LocalSystem, *arguments: str, stdin: str | None = None) -> Result:
    return CliRunner().invoke(main, [*arguments, "--manager", system.client.url], input=stdin)


@pytest.fixture
def plan_file(tmp_path: Path) -> str:
    file = tmp_path / "late.siddhiql"
    file.write_text(TEXT, encoding="utf-8")
    return str(file)


def test_a_plan_is_deployed_listed_shown_and_undeployed(system: LocalSystem, plan_file: str) -> None:
    deployed = cep(system, "deploy", plan_file, "--wait", "60")
    listed = cep(system, "plans")
    shown = cep(system, "status", PLAN)
    as_json = cep(system, "status", "--json")
    removed = cep(system, "undeploy", PLAN)
    after = cep(system, "plans", "--json")

    assert [one.exit_code for one in (deployed, listed, shown, as_json, removed, after)] == [0] * 6
    assert deployed.stdout == f"{PLAN}[-1234]: {PLAN} was deployed\n"
    assert listed.stdout.split(maxsplit=1) == [f"{PLAN}[-1234]", "active, all connected\n"]
    assert "Topology : ACTIVE" in shown.stdout
    assert [plan["status"]["connected"] for plan in json.loads(as_json.stdout)] == [True]
    assert json.loads(after.stdout) == []


def test_events_from_a_file_and_from_standard_input_come_out_of_listen(system: LocalSystem, tmp_path: Path) -> None:
    deploy_late(system)
    file = tmp_path / "events.ndjson"
    file.write_text("".join(json.dumps(event) + "\n" for event in EVENTS), encoding="utf-8")
    before = _subscriptions(system)
    command = [sys.executable, "-m", "cep_cli", "listen", f"{PLAN}/Late", "--count", "4", "--timeout", "20"]
    listener = subprocess.Popen(  # noqa: S603 - our own command
        [*command, "--manager", system.client.url], stdout=subprocess.PIPE, text=True
    )
    try:
        _until_subscribed(system, before)
        from_file = cep(system, "send", f"{PLAN}/Departures", str(file))
        from_stdin = cep(system, "send", f"{PLAN}/Departures", "-", "--json", stdin=file.read_text(encoding="utf-8"))
        printed, _ = listener.communicate(timeout=30)
    finally:
        listener.kill()
        listener.wait()

    assert (from_file.exit_code, from_stdin.exit_code) == (0, 0), from_file.stderr + from_stdin.stderr
    assert listener.returncode == 0
    assert from_file.stdout == f"{PLAN}/Departures: 4 events sent\n"
    assert json.loads(from_stdin.stdout) == {"stream": f"{PLAN}/Departures", "sent": 4}
    heard = [json.loads(line) for line in printed.splitlines()]
    assert [(event["carrier"], event["dep_delay"]) for event in heard] == [("UA", 61), (None, 62)] * 2
    assert all(isinstance(event["_timestamp"], int) for event in heard)


def test_events_of_a_plan_with_an_attribute_timestamp_come_out_with_it(system: LocalSystem, tmp_path: Path) -> None:
    (tmp_path / "stamped.siddhiql").write_text(STAMPED, encoding="utf-8")
    (tmp_path / "events.csv").write_text("a,_timestamp\n1,1000\n2,2000\n3,3000\n", encoding="utf-8")
    deployed = cep(system, "deploy", str(tmp_path / "stamped.siddhiql"), "--wait", "60")
    assert deployed.exit_code == 0, deployed.stderr
    command = [sys.executable, "-m", "cep_cli", "listen", "Stamped/O", "--count", "2", "--timeout", "20"]
    listener = subprocess.Popen(  # noqa: S603 - our own command
        [*command, "--manager", system.client.url], stdout=subprocess.PIPE, text=True
    )
    try:
        _until_subscribed(system, 0, "Stamped/O")
        sent = cep(system, "send", "S", str(tmp_path / "events.csv"))
        printed, _ = listener.communicate(timeout=30)
    finally:
        listener.kill()
        listener.wait()

    assert sent.exit_code == 0, sent.stderr
    heard = [json.loads(line) for line in printed.splitlines()]
    assert heard == [{"_timestamp": at, "a": at // 1000, "at": at} for at in (2000, 3000)]


def test_a_file_with_a_wrong_line_is_refused_by_line_and_attribute(system: LocalSystem, tmp_path: Path) -> None:
    deploy_late(system)
    file = tmp_path / "events.ndjson"
    file.write_text('{"carrier": "UA", "dep_delay": 1}\n\n{"carrier": "UA", "dep_delay": "x"}\n', encoding="utf-8")

    result = cep(system, "send", f"{PLAN}/Departures", str(file))

    assert result.exit_code == 1
    assert "line 3" in result.stderr
    assert "dep_delay" in result.stderr


@pytest.mark.parametrize("verb", ["send", "listen"])
def test_an_unknown_stream_is_refused_with_its_name(system: LocalSystem, plan_file: str, verb: str) -> None:
    deploy_late(system)

    result = cep(system, verb, f"{PLAN}/Nowhere", *([plan_file] if verb == "send" else []))

    assert result.exit_code == 1
    assert "Nowhere" in result.stderr


def test_a_second_plan_of_the_same_name_needs_replace(system: LocalSystem, tmp_path: Path) -> None:
    deploy_late(system)
    other = tmp_path / "other.siddhiql"
    other.write_text(TEXT.replace("> 60", "> 90"), encoding="utf-8")

    refused = cep(system, "deploy", str(other))
    replaced = cep(system, "deploy", str(other), "--replace")

    assert refused.exit_code == 1
    assert f"a plan named {PLAN} is deployed with another text" in refused.stderr
    assert replaced.exit_code == 0, replaced.stderr


def test_a_plan_with_errors_is_refused_with_their_places(system: LocalSystem, tmp_path: Path) -> None:
    wrong = tmp_path / "wrong.siddhiql"
    wrong.write_text(TEXT.replace("dep_delay > 60", "dep_delai > 60"), encoding="utf-8")

    result = cep(system, "deploy", str(wrong))

    assert result.exit_code == 1
    assert "line 10, column" in result.stderr
    assert "did you mean 'dep_delay'?" in result.stderr
    assert system.client.plans() == []


def test_what_is_not_there_is_said(system: LocalSystem) -> None:
    assert cep(system, "plans").stdout == ""
    assert cep(system, "status").stdout == "no plan is deployed\n"
    for verb in ("status", "undeploy"):
        result = cep(system, verb, "Nothing")
        assert result.exit_code == 1
        assert "no plan named Nothing" in result.stderr


def _until_subscribed(system: LocalSystem, before: int, stream: str = f"{PLAN}/Late") -> None:
    deadline = time.monotonic() + 20
    while _subscriptions(system, stream) == before:
        assert time.monotonic() < deadline, "the listener did not subscribe"
        time.sleep(0.05)


def _subscriptions(system: LocalSystem, stream: str = f"{PLAN}/Late") -> int:
    """How many listeners of the stream the worker's log tells of."""
    log = (system.folder / "worker.log").read_text(encoding="utf-8")
    return log.count(f"listener subscribed: stream={stream}")
