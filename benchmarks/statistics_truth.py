"""Check statistics against a known load: page data, /metrics and the metric tables.

    .venv/bin/python -m benchmarks.statistics_truth [--seconds 60] [--rate 1000] [--json]

Sends so many events a second through a plan in event time that also takes a tick every two seconds: events wait in the
topology until the next tick says how far time is, that is up to two seconds. How long each takes from its sending
until its result is back is measured by an outside clock. Exits with 1 when an event is not counted, a rate is off by
more than 2 % or the 99th percentile by more than 10 %.
"""

from __future__ import annotations

import argparse
import json
import os
import sqlite3
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import requests
from prometheus_client.parser import text_string_to_metric_families

from cep_cli.plan_commands.plans import wait_until_connected
from cep_cli.system.local_system import LocalSystem, Ports
from cep_worker.ingest.event_sender import EventSender, fetch_schema
from topology.links.event_listener import EventListener

PLAN = """
@Plan:name('Known') @Plan:playback
@Import('Probes:1.0.0') define stream Probes (id long, level double);
@Import('Ticks:1.0.0') define stream Ticks (number long);
@Export('Seen:1.0.0') define stream Seen (id long, level double);
@Export('Ticked:1.0.0') define stream Ticked (number long);
@dist(execGroup='all') from Probes select id, level insert into Seen;
@dist(execGroup='all') from Ticks select number insert into Ticked;
"""
PIECES_A_SECOND = 20
PIECES_A_TICK = 40
INTERVAL_MS = 5_000
RATE_OFF, LATENCY_OFF = 0.02, 0.1
COUNTED = ("page", "metrics", "tables")
METER = "org.wso2.siddhi.SiddhiApps.Known.throughput"
WARM_UP_S = 4
PATIENCE_MS = 60_000
"""Results that have not come back for so long do not come, and what is not counted by then is not counted."""
LOOK_S = 0.2


class Load:
    """Pieces of events at a steady pace, and when the results of each were back."""

    def __init__(self, system: LocalSystem, rate: int) -> None:
        self._system = system
        self._rows = rate // PIECES_A_SECOND
        self._schema = fetch_schema(system.worker_http, "Probes")
        self._ticks = fetch_schema(system.worker_http, "Ticks")
        self.latencies_ms: list[float] = []
        self.sent_per_s = 0.0
        """Of the last run, as its pieces and ticks were sent: a machine that pauses slows the load too."""

    def run(self, seconds: float) -> int:
        """Return how many events, ticks too, were sent in that time. Raise SystemExit unless all came back."""
        pieces = round(seconds * PIECES_A_SECOND) // PIECES_A_TICK * PIECES_A_TICK
        sent_at: list[float] = []
        before = len(self.latencies_ms)
        with (
            EventListener(self._system.egress, "Seen") as listener,
            EventSender(self._system.ingress, self._schema) as sender,
            EventSender(self._system.ingress, self._ticks) as ticker,
        ):
            receiving = threading.Thread(target=self._receive, args=(listener, sent_at, pieces))
            receiving.start()
            began = time.perf_counter()
            for piece in range(pieces):
                time.sleep(max(0.0, began + piece / PIECES_A_SECOND - time.perf_counter()))
                batch = self._piece(piece, sender.arrow_schema)
                sent_at.append(time.perf_counter())
                sender.send(batch)
                if piece % PIECES_A_TICK == PIECES_A_TICK - 1:
                    self._tick(ticker, piece)
            # The last piece came with a tick, so nothing waits for more.
            receiving.join()
        self.sent_per_s = float(np.polyfit(sent_at, np.arange(pieces), 1)[0]) * (self._rows + 1 / PIECES_A_TICK)
        came = len(self.latencies_ms) - before
        if came != pieces * self._rows:
            raise SystemExit(f"{pieces * self._rows:,} events were sent, and {came:,} came back")
        return pieces * self._rows + pieces // PIECES_A_TICK

    def _tick(self, ticker: EventSender, number: int) -> None:
        columns = [pa.array([_now_ms()]), pa.array([0], pa.int8()), pa.array([number])]
        ticker.send(pa.record_batch(columns, schema=ticker.arrow_schema))

    def _piece(self, piece: int, schema: pa.Schema) -> pa.RecordBatch:
        ids = np.arange(piece * self._rows, (piece + 1) * self._rows)
        columns = [np.full(self._rows, _now_ms()), np.zeros(self._rows, np.int8), ids, np.full(self._rows, 0.5)]
        return pa.record_batch([pa.array(column) for column in columns], schema=schema)

    def _receive(self, listener: EventListener, sent_at: list[float], pieces: int) -> None:
        came = 0
        while came < pieces * self._rows:
            batch = listener.receive(PATIENCE_MS)
            if batch is None:
                return  # `run` counts what is missing: an error of a thread ends the thread alone
            now = time.perf_counter()
            for place in range(came, came + batch.num_rows):
                self.latencies_ms.append((now - sent_at[min(place // self._rows, pieces - 1)]) * 1_000)
            came += batch.num_rows


def _now_ms() -> int:
    return time.time_ns() // 1_000_000


@contextmanager
def known_system() -> Iterator[tuple[LocalSystem, Path]]:
    """Start a system with metric tables, and yield it with the plan."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        tables = {"URL": f"sqlite:///{folder}/metrics.db", "INTERVAL_MS": str(INTERVAL_MS)}
        settings = {f"CEP_MANAGER__METRICS__TABLES__{key}": value for key, value in tables.items()}
        with LocalSystem(folder, Ports.free(), environment={**os.environ, **settings}) as system:
            system.client.deploy(PLAN, replace=False)
            wait_until_connected(system.client, "Known", 60)
            yield system, folder / "metrics.db"


def scraped(system: LocalSystem) -> float:
    """Return the number of events received, from the manager's metrics."""
    text = requests.get(f"http://127.0.0.1:{system.ports.console}/metrics", timeout=10).text
    families = {family.name: family for family in text_string_to_metric_families(text)}
    samples = families["cep_component_received_events"].samples
    return sum(one.value for one in samples if one.labels["kind"] == "receiver")


def page(system: LocalSystem, what: str, **parameters: Any) -> Any:
    """Page data of the plan."""
    address = f"http://127.0.0.1:{system.ports.console}/api/v1/plans/Known/{what}"
    return requests.get(address, params=parameters, timeout=10).json()


def awaited(count: Callable[[], float], events: float) -> float:
    """Return what `count` says once it is at least `events`, or after PATIENCE_MS."""
    deadline = time.monotonic() + PATIENCE_MS / 1_000
    while (counted := count()) < events and time.monotonic() < deadline:
        time.sleep(LOOK_S)
    return counted


def _page_count(system: LocalSystem) -> float:
    """Return the number of events received, from page data."""
    return float(page(system, "statistics")["windows"][-1]["received"])


def measure(system: LocalSystem, tables: Path, seconds: int, rate: int, interval_ms: int) -> dict[str, Any]:
    """Compare an external clock, page data, metrics and tables, written every `interval_ms`, under the same load."""
    load = Load(system, rate)
    warmed = load.run(WARM_UP_S)
    before = awaited(lambda: _page_count(system), warmed)
    scrapes: list[tuple[float, float]] = []
    stop = threading.Event()

    def scrape() -> None:
        while not stop.wait(1.0):
            scrapes.append((time.perf_counter(), scraped(system)))

    scraping = threading.Thread(target=scrape)
    scraping.start()
    began_ms = _now_ms()
    try:
        events = load.run(seconds)
    finally:
        ended_ms = _now_ms()
        stop.set()
        scraping.join()
    time.sleep(1 + 2 * interval_ms / 1_000)
    on_page = awaited(lambda: _page_count(system), before + events)
    in_metrics = awaited(lambda: scraped(system), warmed + events)
    in_tables = awaited(lambda: _table_counts(tables, 0, _now_ms())[-1][1], warmed + events)
    after = page(system, "statistics")["windows"][-1]
    history = page(
        system, "history", metric="received", step=interval_ms, **{"from": began_ms + interval_ms, "to": ended_ms}
    )
    moments, counted = zip(*scrapes[3:-2], strict=True)
    return {
        "sent": events,
        "sent_per_s": load.sent_per_s,
        "page_events": round(on_page - before),
        "metrics_events": round(in_metrics) - warmed,
        "tables_events": round(in_tables) - warmed,
        "page_per_s": _mean([value for _, value in history["points"] if value is not None]),
        "metrics_per_s": float(np.polyfit(moments, counted, 1)[0]),
        "tables_per_s": _from_tables(tables, began_ms + interval_ms, ended_ms),
        "outside_p99_ms": float(np.percentile(load.latencies_ms, 99)),
        "outside_p50_ms": float(np.percentile(load.latencies_ms, 50)),
        "page_p99_ms": after["latency"]["p99_ms"],
        "page_p50_ms": after["latency"]["p50_ms"],
    }


def _table_counts(path: Path, since_ms: int, until_ms: int) -> list[tuple[int, float]]:
    """Rows (time in ms, events so far) of that time, oldest first."""
    with closing(sqlite3.connect(path)) as database:
        return database.execute(
            "SELECT TIMESTAMP, COUNT FROM METRIC_METER WHERE NAME = ? AND TIMESTAMP BETWEEN ? AND ? ORDER BY TIMESTAMP",
            (METER, since_ms, until_ms),
        ).fetchall()


def _from_tables(path: Path, since_ms: int, until_ms: int) -> float:
    """Events a second, by the rows of that time."""
    moments, counted = zip(*_table_counts(path, since_ms, until_ms), strict=True)
    return float(np.polyfit(np.array(moments) / 1_000, counted, 1)[0])


def _mean(values: list[float]) -> float:
    return sum(values) / len(values)


def judged(measured: dict[str, Any]) -> dict[str, float]:
    """Return the relative error of each figure: the greatest of rates and of counts, and that of the percentile."""
    counts = [measured[f"{name}_events"] / measured["sent"] - 1 for name in COUNTED]
    rates = [measured[f"{name}_per_s"] / measured["sent_per_s"] - 1 for name in COUNTED]
    return {
        "counts_off": max(map(abs, counts)),
        "rates_off": max(map(abs, rates)),
        "p99_off": abs(measured["page_p99_ms"] / measured["outside_p99_ms"] - 1),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=int, default=60)
    parser.add_argument("--rate", type=int, default=1_000)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    with known_system() as (system, tables):
        measured = measure(system, tables, options.seconds, options.rate, INTERVAL_MS)
    off = judged(measured)
    if options.json:
        print(json.dumps({**measured, **off}))
    else:
        for name, value in {**measured, **off}.items():
            print(f"{name:<16} {value:,.4f}" if isinstance(value, float) else f"{name:<16} {value:,}")
    true = off["counts_off"] == 0 and off["rates_off"] <= RATE_OFF and off["p99_off"] <= LATENCY_OFF
    sys.exit(0 if true else 1)


if __name__ == "__main__":
    main()
