"""A sink that takes nothing slows its source down: no process holds more and more, and nothing is lost.

`BLOCKED_S=60` blocks it for a minute.
"""

from __future__ import annotations

import json
import os
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from soak_growth import descendants, holding

from cep_cli.plan_commands.plans import wait_until_connected
from cep_cli.system.local_system import LocalSystem, Ports
from cep_worker.ingest.event_sender import EventSender, fetch_schema

pytestmark = pytest.mark.spark

BLOCKED_S = float(os.environ.get("BLOCKED_S", "8"))
STILL_S, SETTLES_S = 12.0, 90.0
"""The source stands still when it has sent nothing for so long, which it must within that time."""
DELIVER_S = 90.0
LOG_BYTES = 8 * 2**20
SEGMENT_BYTES = 2**20
BATCH_ROWS = 2_048
MEMORY = "400m"
"""What the plan's task may hold: the system itself ends one that holds more."""
MOST_GROWTH_BYTES = 32 * 2**20
"""Once everything that may wait does, no process grows by more."""

PLAN = """@Plan:name('Blocked')
@Plan:resources(memory='{memory}')
@Import('Floods:1.0.0') define stream Floods (number long, text string);
@Export('Drops:1.0.0')
@sink(type='http', publisher.url='http://127.0.0.1:{port}/', batch.rows='5000', timeout.ms='600000')
define stream Drops (number long, text string);
from Floods[number >= 0] select number, text insert into Drops;
"""


class WebHook:
    """A web hook that keeps its callers waiting until it is opened."""

    def __init__(self) -> None:
        self.opened = threading.Event()
        self.numbers: set[int] = set()
        hook = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                hook.opened.wait()
                hook.numbers.update(event["event"]["number"] for event in json.loads(body))
                self.send_response(200)
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - so it is called there
                """Nobody reads it."""

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        threading.Thread(target=self.server.serve_forever, daemon=True).start()


class Flood(threading.Thread):
    """Sends as fast as the worker takes it, until `close`; `rows` have been sent."""

    def __init__(self, system: LocalSystem) -> None:
        super().__init__(name="flood", daemon=True)
        self.rows = 0
        self._system = system
        self._closing = threading.Event()

    def run(self) -> None:
        schema = fetch_schema(self._system.worker_http, "Floods")
        texts = pa.array(["some words that are always the same"] * BATCH_ROWS)
        with EventSender(self._system.ingress, schema) as sender:
            while not self._closing.is_set():
                numbers = pa.array(np.arange(self.rows, self.rows + BATCH_ROWS))
                times = pa.array(np.full(BATCH_ROWS, time.time_ns() // 1_000_000))
                kinds = pa.array(np.zeros(BATCH_ROWS, np.int8))
                sender.send(pa.record_batch([times, kinds, numbers, texts], schema=sender.arrow_schema))
                self.rows += BATCH_ROWS

    def close(self) -> None:
        """No more is sent; returns when all is taken over."""
        self._closing.set()
        self.join()


@pytest.fixture
def small_log_system(tmp_path: Path) -> Iterator[LocalSystem]:
    limits = {"MAXIMUM_BYTES": str(LOG_BYTES), "SEGMENT_BYTES": str(SEGMENT_BYTES)}
    environment = {**os.environ, **{f"CEP_WORKER__WAL__{name}": limit for name, limit in limits.items()}}
    environment["CEP_WORKER__RESULTS__MAX_UNDELIVERED_BYTES"] = str(LOG_BYTES)
    with LocalSystem(tmp_path, Ports.free(), environment=environment) as started:
        yield started


def test_a_blocked_sink_slows_its_source_and_memory_stays_where_it_was(small_log_system: LocalSystem) -> None:
    system, hook = small_log_system, WebHook()
    system.client.deploy(PLAN.format(port=hook.server.server_port, memory=MEMORY), replace=False)
    wait_until_connected(system.client, "Blocked", 60)
    flood = Flood(system)
    flood.start()
    _wait_until_it_stands_still(flood)
    before, sent_before = _memory(system), flood.rows
    time.sleep(BLOCKED_S)
    after, sent_after = _memory(system), flood.rows
    assert hook.numbers == set()
    assert sent_after - sent_before < 10 * BATCH_ROWS, "the source was not slowed down"
    grown = {name: after[name] - before[name] for name in before if name in after}
    assert grown
    assert max(grown.values()) < MOST_GROWTH_BYTES, grown
    assert system.client.plan("Blocked")["status"]["topology"]["restarts"] == 0

    hook.opened.set()
    flood.close()
    deadline_s = time.monotonic() + DELIVER_S
    while len(hook.numbers) < flood.rows and time.monotonic() < deadline_s:
        time.sleep(0.2)
    assert hook.numbers == set(range(flood.rows))


def _wait_until_it_stands_still(flood: Flood) -> None:
    """Everything that may wait does: the results that the sink does not take, and events in front of them."""
    deadline_s = time.monotonic() + SETTLES_S
    rows, since_s = flood.rows, time.monotonic()
    while time.monotonic() - since_s < STILL_S:
        assert time.monotonic() < deadline_s, "the source was not slowed down"
        time.sleep(0.1)
        if flood.rows != rows:
            rows, since_s = flood.rows, time.monotonic()


def _memory(system: LocalSystem) -> dict[tuple[str, int], int]:
    """What each process of the system holds, but for Java's heap, which is bounded by its own setting."""
    found = {}
    for name in ("manager", "driver", "worker"):
        for process_id in descendants(system.pid(name)):
            held = holding(process_id, 0.0)
            if held is not None and Path(f"/proc/{process_id}/comm").read_text(encoding="utf-8") != "java\n":
                found[name, process_id] = held.memory_bytes
    return found
