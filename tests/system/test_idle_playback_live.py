"""Event time goes on by itself while nothing comes, and events that come behind it afterwards are counted."""

from __future__ import annotations

import time
from typing import Any

import pytest
import requests
from late_plan import status_until

from cep_cli.plan_commands.plans import wait_until_connected
from cep_cli.system.local_system import LocalSystem
from topology.links.event_listener import EventListener

pytestmark = [pytest.mark.spark, pytest.mark.cluster]

PLAN = "Quiet"
BODY = """@Import('Orders:1.0.0') define stream Orders (id long, paid bool);
@Import('Returns:1.0.0') define stream Returns (id long);
@Export('Unpaid:1.0.0') define stream Unpaid (id long);
@Export('Paid:1.0.0') define stream Paid (id long);
@Export('Returned:1.0.0') define stream Returned (id long);
from every o=Orders[not paid] -> not Orders[paid and id == o.id] for 10 sec select o.id as id insert into Unpaid;
from every o=Orders[not paid] -> Orders[paid and id == o.id] within 10 sec select o.id as id insert into Paid;
from Returns select id insert into Returned;
"""
HEADS = {
    "event-processor": "@Plan:name('Quiet') @Plan:playback(idleTime='200 millisec', increment='1 sec')\n",
    "siddhi-5": "@app:name('Quiet') @app:playback(idle.time='200 millisec', increment='1 sec')\n",
}
START_MS = 1_700_000_000_000
HOUR_MS = 3_600_000
FOUND_S = 60.0


def send(system: LocalSystem, stream: str, *events: tuple[int, dict[str, Any]]) -> None:
    """Sends (time in ms after the start, event) in one request."""
    body = [{"event": {"_timestamp": START_MS + time_ms, **event}} for time_ms, event in events]
    requests.post(f"{system.worker_http}/events/{PLAN}/{stream}", json=body, timeout=10).raise_for_status()


def results(listener: EventListener, count: int) -> list[tuple[int, int]]:
    """Waits for so many results: (time in ms after the start, id)."""
    began = time.monotonic()
    found: list[tuple[int, int]] = []
    while len(found) < count:
        assert time.monotonic() - began < FOUND_S, f"only {found} came"
        batch = listener.receive(100)
        if batch is not None:
            found += [(row["_timestamp"] - START_MS, row["id"]) for row in batch.to_pylist()]
    return found


@pytest.mark.parametrize("head", HEADS.values(), ids=HEADS)
def test_a_stream_that_falls_idle_and_resumes_gets_the_defined_answers(system: LocalSystem, head: str) -> None:
    system.client.deploy(head + BODY, replace=False)
    wait_until_connected(system.client, PLAN, FOUND_S)
    with (
        EventListener(system.egress, f"{PLAN}/Unpaid") as unpaid,
        EventListener(system.egress, f"{PLAN}/Paid") as paid,
        EventListener(system.egress, f"{PLAN}/Returned") as returned,
    ):
        # Returns has no event yet, and is waited for no longer than the idle time.
        send(system, "Orders", (0, {"id": 1, "paid": False}))
        assert results(unpaid, 1) == [(10_000, 1)], "the clock reached 10 s although nothing came"

        # An hour later by its own time, far ahead of a clock that went on by seconds, the stream resumes.
        orders = [(HOUR_MS, {"id": one, "paid": False}) for one in (2, 3)]
        send(system, "Orders", *orders, (HOUR_MS + 9_000, {"id": 2, "paid": True}))
        assert results(paid, 1) == [(HOUR_MS + 9_000, 2)]
        assert results(unpaid, 1) == [(HOUR_MS + 10_000, 3)]
        assert not system.client.plan(PLAN)["status"]["topology"]["late"]

        # The clock went on to at least 10 s after that: these are behind it, come out with their own times, and count.
        send(system, "Returns", (5_000, {"id": 4}), (HOUR_MS + 9_500, {"id": 5}))
        assert results(returned, 2) == [(5_000, 4), (HOUR_MS + 9_500, 5)]
        status, _ = status_until(system, lambda now: bool(now["topology"]["late"]), FOUND_S, PLAN)
        assert status["topology"]["late"] == [{"stream": "Returns", "events": 2}]
