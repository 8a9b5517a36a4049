"""Every socket on which the default system listens is in docs/listening-sockets.md, and on loopback."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from late_plan import deploy_late

from cep_cli.doctor.checks import findings_of
from cep_cli.doctor.security import gather
from cep_cli.doctor.sockets import ListeningSocket, listening_sockets
from cep_cli.system.local_system import LocalSystem

pytestmark = [pytest.mark.spark, pytest.mark.cluster]

PAGE = Path(__file__).parents[2] / "docs" / "listening-sockets.md"
LOGS, CHECKPOINTS, OUTFLOWS, STAGES = (
    range(13_000, 14_000),
    range(14_000, 15_000),
    range(15_000, 18_000),
    range(15_000, 18_000),
)
NOT_AS_SHIPPED = {("driver", "metrics"), ("driver's Java", "Spark's web page")}
OF_TWO_NODES = {
    ("worker of a passive node", "events of the active node"),
    ("`cep node`", "guard: open while a process of the node lives, answers nothing"),
}
BY_PLANS = {("worker", "source `http` or `zeromq` with an address of its own")}


def documented() -> set[tuple[str, str]]:
    rows = re.findall(r"^\| ([^|]+) \| ([^|]+) \| [^|]+ \| [^|]+ \|", PAGE.read_text(), re.MULTILINE)
    return {(process, socket) for process, socket in rows if process != "process"}


def named(system: LocalSystem, one: ListeningSocket) -> set[tuple[str, str]]:
    """The rows of the page that the socket may be."""
    ports = system.ports
    if "java" in one.command.partition(" ")[0]:
        return {("driver's Java", "driver, block manager"), ("driver's Java", "gateway, tasks' Python")}
    if "pyspark.worker" in one.command or "topology.spark.executor_side.daemon" in one.command:
        if one.port in LOGS:
            return {("task", "log")}
        return {("task", "stages and exchange")} if one.port in STAGES else {("Python daemon", "daemon")}
    process = next(name for name in ("manager", "driver", "worker") if one.process_id == system.pid(name))
    if one.port in LOGS:
        return {(process, "log")}
    fixed = {
        "manager": {ports.control: "control plane", ports.console: "console and REST API"},
        "worker": {ports.http: "HTTP", ports.ingress: "events in", ports.egress: "events out"}
        | dict.fromkeys(OUTFLOWS, "results of a plan"),
        "driver": dict.fromkeys(CHECKPOINTS, "checkpoints"),
    }
    if process == "driver" and one.port not in fixed[process]:
        metrics = system.environment["CEP_DRIVER__METRICS__PORT"]
        return {("driver", "metrics" if str(one.port) == metrics else "accumulators")}
    return {(process, fixed[process][one.port])}


def test_the_default_system_listens_where_the_page_says_and_nowhere_else(system: LocalSystem) -> None:
    deploy_late(system)
    found = listening_sockets(system.pid(name) for name in ("manager", "driver", "worker"))

    assert {one.protocol for one in found} == {"tcp"}
    assert [one for one in found if not one.is_loopback()] == []
    rows = set().union(*(named(system, one) for one in found))
    assert rows | NOT_AS_SHIPPED == documented() - BY_PLANS - OF_TWO_NODES
    assert system.client.cluster()["driver"]["web_url"] == ""


def test_the_doctor_finds_what_is_open_in_a_system_of_one_user(system: LocalSystem) -> None:
    deploy_late(system)
    facts = gather(system.client)
    found = [(one.where.partition(":")[0], one.problem) for one in findings_of(facts)]

    assert {one.kind: one.unseen for one in facts.processes} == dict.fromkeys(
        ("manager", "driver", "worker", "task"), ""
    )
    assert ("driver", "lets plans use any database") in found
    assert ("worker", "lets plans use files in /") in found
    assert ("manager", "does not require a login") in found
    assert [problem for _, problem in found if "listens" in problem or "mode" in problem or "Spark" in problem] == []
