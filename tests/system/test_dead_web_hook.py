"""A web hook is away for a while: checkpoints continue, the plan is shown as degraded, and nothing is lost.

It is away for some seconds; with `CEP_ACCEPTANCE=1`, as `make acceptance` sets it, for three minutes.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import requests
from click.testing import CliRunner
from free_ports import free_port
from web_hook import WebHook

from cep_cli.main import main
from cep_cli.plan_commands.plans import wait_until_connected
from cep_cli.system.local_system import LocalSystem
from cep_worker.ingest.event_sender import EventSender, fetch_schema

pytestmark = pytest.mark.spark

AWAY_S = 180.0 if os.environ.get("CEP_ACCEPTANCE") == "1" else 4.0
WITHIN_S = 60.0
EVENTS_A_TURN = 50
TURN_S = 0.25
PLAN = """@Plan:name('DeadHook')
@Plan:delivery('{delivery}')
@Import('Calls:1.0.0') define stream Calls (number long);
@Export('Answers:1.0.0')
@sink(type='http', publisher.url='http://127.0.0.1:{port}/', batch.rows='500')
define stream Answers (number long);
from Calls[number >= 0] select number insert into Answers;
"""


def until(condition: Callable[[], Any], what: str, within_s: float = WITHIN_S) -> Any:
    deadline = time.monotonic() + within_s
    while not (found := condition()):
        assert time.monotonic() < deadline, what
        time.sleep(0.1)
    return found


def send(sender: EventSender, first: int) -> int:
    numbers = pa.array(np.arange(first, first + EVENTS_A_TURN))
    times = pa.array(np.full(EVENTS_A_TURN, time.time_ns() // 1_000_000))
    kinds = pa.array(np.zeros(EVENTS_A_TURN, np.int8))
    sender.send(pa.record_batch([times, kinds, numbers], schema=sender.arrow_schema))
    return first + EVENTS_A_TURN


def complete(system: LocalSystem) -> int:
    """The newest complete checkpoint of the plan."""
    told = system.client.checkpoints("DeadHook")["checkpoints"]
    return max((one["checkpoint"] for one in told if one["state"] == "complete"), default=0)


@pytest.mark.parametrize("delivery", ["at-least-once", "exactly-once"])
def test_a_web_hook_that_is_away_stops_no_checkpoint_and_loses_nothing(system: LocalSystem, delivery: str) -> None:
    client, port = system.client, free_port()
    client.deploy(PLAN.format(port=port, delivery=delivery), replace=False)
    wait_until_connected(client, "DeadHook", WITHIN_S)
    sent = 0
    with EventSender(system.ingress, fetch_schema(system.worker_http, "Calls"), sender="test") as sender:
        began = time.monotonic()
        before = complete(system)
        while time.monotonic() - began < AWAY_S:
            sent = send(sender, sent)
            time.sleep(TURN_S)
        sender.flush(10_000)
        client.take_savepoint("DeadHook", f"away-{delivery}")

        def stored() -> Any:
            states = {one["name"]: one["state"] for one in client.savepoints("DeadHook")}
            assert states.get(f"away-{delivery}") != "failed", states
            return states.get(f"away-{delivery}") == "stored"

        until(stored, "no checkpoint was taken while the web hook was away", 30.0)
        taken = complete(system) - before
        assert taken >= max(1, AWAY_S / 30), "checkpoints continued"
        told = client.checkpoints("DeadHook")["checkpoints"]
        assert not [one for one in told if one["state"] in ("failed", "abandoned")]

        status = until(lambda: degraded(system), "the plan is not shown as degraded")
        (part,) = status["degraded"]
        assert (part["kind"], part["type"], part["stream"]) == ("sink", "http", "Answers")
        assert part["since_ms"] > 0
        until(lambda: degraded(system)["degraded"][0]["waiting_events"] == sent, "all results wait for the sink")
        findings = [one for one in client.overview()["alerts"] if one["name"] == "DeadHook"]
        assert [(one["code"], one["severity"]) for one in findings] == [("connector", "critical")]
        assert "Topology : DEGRADED" in cep("status", "DeadHook", system)
        assert "degraded" in cep("status", "", system).lower()
        page = requests.get(f"{client.url}/plans/DeadHook", timeout=10).text
        assert "degraded" in page
        assert "tone-bad" in page
        assert client.overview()["metrics"]["waiting_events"] >= sent

        hook = WebHook(port)
        hook.opened.set()
        try:
            until(lambda: len(hook.numbers) == sent, "results are missing after the web hook came back")
            assert set(hook.numbers) == set(range(sent))
            sent = send(sender, sent)
            until(lambda: len(hook.numbers) == sent, "the plan does not continue")
            if delivery == "exactly-once":
                assert set(hook.numbers.values()) == {1}
            until(lambda: client.plan("DeadHook")["status"]["topology"]["state"] == "active", "it stays degraded")
            until(
                lambda: not [one for one in client.overview()["alerts"] if one["code"] == "connector"],
                "the alert does not go",
            )
        finally:
            hook.close()
    assert client.plan("DeadHook")["status"]["topology"]["restarts"] == 0


def degraded(system: LocalSystem) -> Any:
    status = system.client.plan("DeadHook")["status"]
    return status if status["topology"]["state"] == "degraded" else None


def cep(verb: str, plan: str, system: LocalSystem) -> str:
    arguments = [verb, *([plan] if plan else []), "--manager", system.client.url]
    return CliRunner().invoke(main, arguments).output
