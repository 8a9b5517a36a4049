"""One event at a time, from client to client through a deployed plan, beside a bare ZeroMQ chain of the same hops.

    .venv/bin/python benchmarks/latency.py [--events 2000] [--json]

Prints the median and the 99th percentile of both in milliseconds, and the ratio of the medians.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa

from benchmarks.bare_chain import bare_chain
from cep_cli.plan_commands.plans import wait_until_connected
from cep_cli.system.local_system import LocalSystem, Ports
from cep_worker.ingest.event_sender import EventSender, fetch_schema
from topology.events.frames import encode_batch
from topology.links.event_listener import EventListener

PLAN = """
@Plan:name('Latency')
@Import('Probes:1.0.0') define stream Probes (id long, level double);
@Export('Alerts:1.0.0') define stream Alerts (id long, level double);
from Probes[level > 0.5] select id, level insert into Alerts;
"""
WARM_UP = 200
TURN = 100


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--events", type=int, default=2_000)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder, LocalSystem(Path(folder), Ports.free()) as system:
        system.client.deploy(PLAN, replace=False)
        wait_until_connected(system.client, "Latency", 60)
        schema = fetch_schema(system.worker_http, "Probes")
        with (
            EventListener(system.egress, "Alerts") as listener,
            EventSender(system.ingress, schema) as sender,
            bare_chain(sender.arrow_schema) as chain,
        ):
            probe = pa.record_batch([[0], pa.array([0], pa.int8()), [1], [0.9]], schema=sender.arrow_schema)
            body = encode_batch(probe)

            def through_the_plan() -> None:
                sender.send(probe)
                if listener.receive(5_000) is None:
                    raise SystemExit("an event did not come back within 5 s")

            def through_the_chain() -> None:
                chain.send(body)
                chain.receive()

            times = _round_trips({"plan": through_the_plan, "bare chain": through_the_chain}, options.events)
    measured = {name: _percentiles(one) for name, one in times.items()}
    ratio = measured["plan"]["p50_ms"] / measured["bare chain"]["p50_ms"]
    if options.json:
        print(json.dumps({**measured, "p50_ratio": round(ratio, 2)}))
        return
    for name, value in measured.items():
        print(f"{name:<12} p50 {value['p50_ms']:.3f} ms   p99 {value['p99_ms']:.3f} ms")
    print(f"p50 of the plan is {ratio:.2f} times that of the bare chain")


def _round_trips(trips: dict[str, Callable[[], None]], count: int) -> dict[str, list[float]]:
    """Seconds of `count` round trips of each kind, taken in turns so that noise of the machine meets all alike."""
    times: dict[str, list[float]] = {name: [] for name in trips}
    for trip in trips.values():
        for _ in range(WARM_UP):
            trip()
    while min(map(len, times.values())) < count:
        for name, trip in trips.items():
            for _ in range(TURN):
                start = time.perf_counter()
                trip()
                times[name].append(time.perf_counter() - start)
    return times


def _percentiles(times: list[float]) -> dict[str, float]:
    p50, p99 = np.percentile(np.array(times) * 1000, [50, 99])
    return {"p50_ms": round(float(p50), 3), "p99_ms": round(float(p99), 3)}


if __name__ == "__main__":
    main()
