"""A plan is undeployed while accepted events wait: they are processed first, or dropped and counted."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from click.testing import CliRunner, Result
from late_plan import CONNECT_TIMEOUT_S, status_until
from web_hook import WebHook

from cep_cli.main import main
from cep_cli.plan_commands.plans import wait_until_connected
from cep_cli.system.local_system import LocalSystem
from cep_worker.ingest.event_sender import EventSender, fetch_schema

pytestmark = [pytest.mark.spark, pytest.mark.cluster]

PLAN = "Waits"
TEXT = """\
@Plan:name('Waits')
@Import('Numbers:1.0.0') define stream Numbers (number long);
@sink(type='http', publisher.url='http://127.0.0.1:{port}/', batch.rows='5000', timeout.ms='600000')
@Export('Passed:1.0.0') define stream Passed (number long);
from Numbers select number insert into Passed;
"""
EVENTS = 200_000
"""More than a blocked sink, the worker's log of results and the topology take together."""
BATCH_ROWS = 2_000
DRAINED_S = 90.0
POLL_S, SAME_IN_A_ROW = 0.5, 6
"""Workers report once a second."""


@pytest.fixture
def hook() -> Iterator[WebHook]:
    made = WebHook()
    yield made
    made.close()


def send(system: LocalSystem, count: int) -> None:
    """All events are accepted when this returns."""
    with EventSender(system.ingress, fetch_schema(system.worker_http, f"{PLAN}/Numbers"), "test") as sender:
        for first in range(0, count, BATCH_ROWS):
            numbers = pa.array(np.arange(first, first + BATCH_ROWS))
            times = pa.array(np.full(BATCH_ROWS, time.time_ns() // 1_000_000))
            kinds = pa.array(np.zeros(BATCH_ROWS, np.int8))
            sender.send(pa.record_batch([times, kinds, numbers], schema=sender.arrow_schema))
        sender.flush(int(DRAINED_S * 1_000))


def cep(system: LocalSystem, *arguments: str) -> Result:
    result = CliRunner().invoke(main, [*arguments, "--manager", system.client.url])
    assert "Traceback" not in result.output
    return result


def _until_nothing_moves(system: LocalSystem) -> int:
    """Return how many events wait once topology and sink take no more of them."""
    counts: list[int] = []

    def is_settled(status: dict[str, Any]) -> bool:
        time.sleep(POLL_S)
        counts.append(status["unprocessed"]["events"])
        return counts[-1] > 0 and counts[-SAME_IN_A_ROW:] == [counts[-1]] * SAME_IN_A_ROW

    status_until(system, is_settled, DRAINED_S, PLAN)
    return counts[-1]


def begin(system: LocalSystem, hook: WebHook) -> None:
    system.client.deploy(TEXT.format(port=hook.server.server_port), replace=False)
    wait_until_connected(system.client, PLAN, CONNECT_TIMEOUT_S)


def test_what_was_accepted_is_worked_off_though_the_worker_is_killed(system: LocalSystem, hook: WebHook) -> None:
    begin(system, hook)
    send(system, EVENTS)
    told = cep(system, "undeploy", PLAN, "--wait", "2")
    assert told.exit_code == 0
    assert "is still being undeployed" in told.output
    status = system.client.plan(PLAN)["status"]
    assert status["topology"]["state"] == "draining"
    counted = re.compile(r"[\d,]+ (accepted events|results) wait for ")
    status_until(system, lambda now: counted.search(now["topology"]["undeploying"]), DRAINED_S, PLAN)
    refused = cep(system, "rebalance", PLAN, "--workers", "2")
    assert "is being undeployed" in refused.output

    system.kill("worker")
    try:
        status_until(system, lambda now: not now["inflow"], DRAINED_S, PLAN)
        hook.opened.set()
    finally:
        system.start("worker")
    assert "undeployed" in cep(system, "undeploy", PLAN, "--wait", str(DRAINED_S)).output
    assert system.client.plans() == []
    assert set(hook.numbers) == set(range(EVENTS))
    # The system is shared, and other plans are dropped on demand: their lines are theirs.
    dropped = re.compile(rf"accepted events are dropped.*/{PLAN}/")
    assert dropped.search((system.folder / "worker.log").read_text()) is None


def test_what_waits_is_dropped_on_demand_and_counted(system: LocalSystem, hook: WebHook) -> None:
    begin(system, hook)
    send(system, 4 * EVENTS)  # more than stages and sink take over
    waiting = _until_nothing_moves(system)
    told = cep(system, "undeploy", PLAN, "--discard")
    assert f"Waits: undeployed; {waiting:,} accepted events were dropped" in told.output
    assert system.client.plans() == []
