"""A small plan on the system clock, and one event's way through it."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import pyarrow as pa

from cep_cli.plan_commands.plans import wait_until_connected
from cep_cli.system.local_system import LocalSystem
from cep_worker.ingest.event_sender import EventSender, fetch_schema
from topology.links.event_listener import EventListener

PLAN = "LateFlights"
TEXT = """\
@Plan:name('LateFlights')

@Import('Departures:1.0.0')
define stream Departures (carrier string, dep_delay int);

@Export('Late:1.0.0')
define stream Late (carrier string, dep_delay int);

@info(name='late')
from Departures[dep_delay > 60]
select carrier, dep_delay
insert into Late;
"""
POLL_S = 0.05
CONNECT_TIMEOUT_S = 60.0
EVENT_TIMEOUT_MS = 10_000


def deploy_late(system: LocalSystem) -> None:
    system.client.deploy(TEXT, replace=False)
    wait_until_connected(system.client, PLAN, CONNECT_TIMEOUT_S)


def departures(sender: EventSender, *rows: tuple[str | None, int | None]) -> pa.RecordBatch:
    """A batch of (carrier, dep_delay) events of now."""
    now_ms = time.time_ns() // 1_000_000
    events = [{"_timestamp": now_ms, "_kind": 0, "carrier": carrier, "dep_delay": delay} for carrier, delay in rows]
    return pa.RecordBatch.from_pylist(events, schema=sender.arrow_schema)


def assert_events_flow(system: LocalSystem) -> None:
    """An event that is sent to the worker comes out of it, and one that the plan leaves out does not."""
    schema = fetch_schema(system.worker_http, f"{PLAN}/Departures")
    with (
        EventListener(system.egress, f"{PLAN}/Late") as listener,
        EventSender(system.ingress, schema, "test") as sender,
    ):
        sender.send(departures(sender, ("UA", 61), ("B6", 60), ("AA", 99)))
        found: list[Any] = []
        while len(found) < 2:
            batch = listener.receive(EVENT_TIMEOUT_MS)
            assert batch is not None, f"only {found} came out"
            found += batch.select(["carrier", "dep_delay"]).to_pylist()
    assert found == [{"carrier": "UA", "dep_delay": 61}, {"carrier": "AA", "dep_delay": 99}]


def status_until(
    system: LocalSystem, is_so: Callable[[Any], bool], within_s: float, plan: str = PLAN
) -> tuple[Any, float]:
    """The plan's first status for which `is_so` holds, and after how many seconds it was seen."""
    started = time.monotonic()
    while True:
        status = system.client.plan(plan)["status"]
        waited_s = time.monotonic() - started
        if is_so(status):
            return status, waited_s
        assert waited_s < within_s, f"after {waited_s:.1f} s the status is still {status}"
        time.sleep(POLL_S)
