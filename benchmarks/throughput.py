"""Departures through a deployed plan as fast as it takes them, beside a bare ZeroMQ and Arrow chain of the same hops.

    .venv/bin/python -m benchmarks.throughput [--events 5000000] [--batch 4096] [--keys] [--json]

The filter lets everything pass, so that as much data leaves as enters: the hard case. Prints events/s of both, and the
ratio. With `--keys` every link of the plan is encrypted, those of the chain are not.
"""

from __future__ import annotations

import argparse
import json
import os
import tempfile
import threading
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

import pyarrow as pa

from benchmarks.bare_chain import bare_chain
from cep_cli.local_system import LocalSystem, Ports
from cep_cli.plans import wait_until_connected
from cep_common.clock import SystemClock
from cep_common.security.config import SecurityConfig
from cep_common.security.keys import write_keys
from cep_worker.client import EventSender, fetch_schema
from cep_worker.readers import read_events
from topology.event_listener import EventListener
from topology.frames import encode_batch

PLAN = """
@Plan:name('Throughput')
@Import('Departures:1.0.0')
define stream Departures (carrier string, flight int, tailnum string, origin string, dest string, dep_delay int,
  distance int);
@Export('Flown:1.0.0')
define stream Flown (carrier string, flight int, tailnum string, origin string, dest string, dep_delay int,
  distance int);
from Departures[distance > 0] select * insert into Flown;
"""
SAMPLE = Path(__file__).parent.parent / "samples" / "flights" / "departures.parquet"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--events", type=int, default=5_000_000)
    parser.add_argument("--batch", type=int, default=4_096)
    parser.add_argument("--keys", action="store_true")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    with ExitStack() as opened:
        folder = Path(opened.enter_context(tempfile.TemporaryDirectory()))
        security = SecurityConfig(str(folder / "keys") if options.keys else "")
        if options.keys:
            write_keys(Path(security.keys))
        settings = {f"CEP_{process}__SECURITY__KEYS": security.keys for process in ("MANAGER", "DRIVER", "WORKER")}
        system = opened.enter_context(LocalSystem(folder, Ports.free(), environment={**os.environ, **settings}))
        system.client.deploy(PLAN, replace=False)
        wait_until_connected(system.client, "Throughput", 60)
        schema = fetch_schema(system.worker_http, "Departures")
        events = read_events(str(SAMPLE), schema, SystemClock().now_ms, "ts", options.batch)
        batches = [one for one in events if one.num_rows == options.batch]
        with (
            EventListener(system.egress, "Flown", security=security) as listener,
            EventSender(system.ingress, schema, security=security) as sender,
            bare_chain(sender.arrow_schema) as chain,
        ):
            bodies = [encode_batch(batch) for batch in batches]

            def receive_from_plan() -> int:
                batch = listener.receive(30_000)
                if batch is None:
                    raise SystemExit("no results for 30 s")
                return batch.num_rows

            def receive_from_chain() -> int:
                return pa.ipc.read_record_batch(pa.py_buffer(chain.receive()), sender.arrow_schema).num_rows

            plan = _rate(lambda k: sender.send(batches[k % len(batches)]), receive_from_plan, options)
            bare = _rate(lambda k: chain.send(bodies[k % len(bodies)]), receive_from_chain, options)
    if options.json:
        print(json.dumps({"plan": round(plan), "bare_chain": round(bare), "ratio": round(plan / bare, 3)}))
        return
    print(f"plan         {plan / 1e6:.2f} M events/s in batches of {options.batch}")
    print(f"bare chain   {bare / 1e6:.2f} M events/s")
    print(f"the plan makes {plan / bare:.2f} of the bare chain")


def _rate(send: Callable[[int], None], receive: Callable[[], int], options: argparse.Namespace) -> float:
    """Events a second over `options.events` events, after one tenth as many to warm up."""
    _run(send, receive, options.events // 10 // options.batch + 1, options.batch)
    count = options.events // options.batch
    start = time.perf_counter()
    _run(send, receive, count, options.batch)
    return count * options.batch / (time.perf_counter() - start)


def _run(send: Callable[[int], None], receive: Callable[[], int], count: int, rows: int) -> None:
    thread = threading.Thread(target=lambda: [send(k) for k in range(count)], daemon=True)
    thread.start()
    received = 0
    while received < count * rows:
        received += receive()
    thread.join()


if __name__ == "__main__":
    main()
