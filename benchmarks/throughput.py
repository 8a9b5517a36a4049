"""Departures through a deployed plan as fast as it takes them, beside a bare ZeroMQ and Arrow chain of the same hops.

    .venv/bin/python -m benchmarks.throughput [--events 5000000] [--batch 4096] [--keys] [--json]

The filter lets everything pass, so that as much data leaves as enters: the hard case. Prints events/s of both, and the
ratio. With `--keys` it runs beside the same plan on a system whose links are all encrypted, in turns.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import tempfile
import threading
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

import pyarrow as pa

from benchmarks.bare_chain import bare_chain
from cep_cli.plan_commands.plans import wait_until_connected
from cep_cli.system.local_system import LocalSystem, Ports
from cep_common.clock import SystemClock
from cep_common.security.config import SecurityConfig
from cep_common.security.keys import write_keys
from cep_worker.formats.files.event_files import read_events
from cep_worker.ingest.event_sender import EventSender, fetch_schema
from topology.events.frames import arrow_schema, encode_batch
from topology.links.event_listener import EventListener

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


ROUNDS = 5
"""How often plain and encrypted take turns."""


class RunningPlan:
    """The plan, deployed on a system of its own."""

    def __init__(self, folder: Path, keys: str, batch: int, opened: ExitStack) -> None:
        """Start the system, which runs until `opened` is closed; with `keys` every link is encrypted."""
        self._security = SecurityConfig(keys)
        settings = {f"CEP_{process}__SECURITY__KEYS": keys for process in ("MANAGER", "DRIVER", "WORKER")}
        self._system = system = opened.enter_context(
            LocalSystem(folder, Ports.free(), environment={**os.environ, **settings})
        )
        system.client.deploy(PLAN, replace=False)
        wait_until_connected(system.client, "Throughput", 60)
        self._schema = fetch_schema(system.worker_http, "Departures")
        self.schema = arrow_schema(self._schema)
        events = read_events(str(SAMPLE), self._schema, SystemClock().now_ms, "ts", batch)
        self.batches = [one for one in events if one.num_rows == batch]

    def events_per_s(self, options: argparse.Namespace) -> float:
        """Return how many events a second go through."""
        with (
            EventListener(self._system.egress, "Flown", security=self._security) as listener,
            EventSender(self._system.ingress, self._schema, security=self._security) as sender,
        ):

            def receive() -> int:
                batch = listener.receive(30_000)
                if batch is None:
                    raise SystemExit("no results for 30 s")
                return batch.num_rows

            return _rate(lambda k: sender.send(self.batches[k % len(self.batches)]), receive, options)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--events", type=int, default=5_000_000)
    parser.add_argument("--batch", type=int, default=4_096)
    parser.add_argument("--keys", action="store_true")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    with ExitStack() as opened:
        folder = Path(opened.enter_context(tempfile.TemporaryDirectory()))
        plan = RunningPlan(folder / "plain", "", options.batch, opened)
        if options.keys:
            write_keys(folder / "keys")
            secured = RunningPlan(folder / "secured", str(folder / "keys"), options.batch, opened)
            _compare_keys(plan, secured, options)
        else:
            _compare_chain(plan, opened, options)


def _compare_chain(plan: RunningPlan, opened: ExitStack, options: argparse.Namespace) -> None:
    schema = plan.schema
    bodies = [encode_batch(batch) for batch in plan.batches]
    chain = opened.enter_context(bare_chain(schema))

    def receive_from_chain() -> int:
        return pa.ipc.read_record_batch(pa.py_buffer(chain.receive()), schema).num_rows

    through_plan = plan.events_per_s(options)
    bare = _rate(lambda k: chain.send(bodies[k % len(bodies)]), receive_from_chain, options)
    if options.json:
        ratio = round(through_plan / bare, 3)
        print(json.dumps({"plan": round(through_plan), "bare_chain": round(bare), "ratio": ratio}))
        return
    print(f"plan         {through_plan / 1e6:.2f} M events/s in batches of {options.batch}")
    print(f"bare chain   {bare / 1e6:.2f} M events/s")
    print(f"the plan makes {through_plan / bare:.2f} of the bare chain")


def _compare_keys(plain: RunningPlan, secured: RunningPlan, options: argparse.Namespace) -> None:
    pairs = [(plain.events_per_s(options), secured.events_per_s(options)) for _ in range(ROUNDS)]
    best = [max(rates) for rates in zip(*pairs, strict=True)]
    ratio = round(statistics.median(encrypted / plain for plain, encrypted in pairs), 3)
    if options.json:
        told = {"plain": round(best[0]), "keys": round(best[1]), "best_ratio": round(best[1] / best[0], 3)}
        print(json.dumps({**told, "median_ratio": ratio}))
        return
    print(f"plain        {best[0] / 1e6:.2f} M events/s in batches of {options.batch}, the best of {ROUNDS}")
    print(f"with keys    {best[1] / 1e6:.2f} M events/s")
    print(f"with keys it makes {ratio:.2f} of that (median of {ROUNDS} turns)")


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
