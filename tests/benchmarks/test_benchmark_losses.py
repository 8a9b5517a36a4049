"""Benchmarks tell of what was lost, refused or never answered, and do not take it for fast."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import SimpleNamespace
from typing import Any, ClassVar, Self

import pyarrow as pa
import pytest

from benchmarks import checkpoint_cost, console, statistics_truth

WITHIN_S = 20.0
PIECES = 40
ROWS = 3
NUMBERS = pa.schema([("_timestamp", pa.int64()), ("_kind", pa.int8()), ("id", pa.int64())])


class Link:
    """A link to a worker that takes what is sent, and then gives `results` back, batch by batch; or fails."""

    results: tuple[int, ...] = ()
    fails_after = 1_000_000
    all_sent: threading.Event

    def __init__(self, endpoint: object, what: str) -> None:
        self._left = list(self.results)
        self._sent = 0
        self.all_sent.clear()
        self.arrow_schema = NUMBERS.append(pa.field("level", pa.float64())) if what == "Probes" else NUMBERS

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        return

    def send(self, batch: object) -> None:
        self._sent += 1
        if self._sent > self.fails_after:
            raise ConnectionError("the worker has gone")
        if self._sent == PIECES:
            self.all_sent.set()

    def receive(self, within_ms: int) -> pa.RecordBatch | None:
        if not self._left:
            return None
        assert self.all_sent.wait(WITHIN_S)
        return pa.record_batch({"id": range(self._left.pop(0))})


@pytest.fixture
def link(monkeypatch: pytest.MonkeyPatch) -> type[Link]:
    class Links(Link):
        all_sent = threading.Event()

    for module in (statistics_truth, checkpoint_cost):
        monkeypatch.setattr(module, "EventSender", Links)
        monkeypatch.setattr(module, "EventListener", Links)
    monkeypatch.setattr(statistics_truth, "fetch_schema", lambda _, stream: stream)
    monkeypatch.setattr(statistics_truth, "PIECES_A_SECOND", 100 * PIECES)
    return Links


SYSTEM: Any = SimpleNamespace(egress=None, ingress=None, worker_http="")


@pytest.mark.parametrize("came", [(PIECES * ROWS - 1,), (), (PIECES * ROWS - 1, 2)])
def test_statistics_are_not_judged_when_events_are_lost_or_come_twice(link: type[Link], came: tuple[int, ...]) -> None:
    link.results = came
    load = statistics_truth.Load(SYSTEM, ROWS * 100 * PIECES)
    with pytest.raises(SystemExit, match=f"{PIECES * ROWS} events were sent, and {sum(came)} came back"):
        load.run(1 / 100)


def test_statistics_are_judged_when_all_have_come_back(link: type[Link]) -> None:
    link.results = (PIECES, PIECES * (ROWS - 1))
    load = statistics_truth.Load(SYSTEM, ROWS * 100 * PIECES)
    assert [load.run(1 / 100) for _ in range(2)] == [PIECES * ROWS + 1] * 2
    assert len(load.latencies_ms) == 2 * PIECES * ROWS


def side(client: object = None) -> checkpoint_cost.CostSide:
    made = object.__new__(checkpoint_cost.CostSide)
    made.__dict__.update(
        _system=SimpleNamespace(egress=None, ingress=None, client=client), _schema=None, _batches=[None] * 64
    )
    return made


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_a_worker_that_goes_while_events_are_sent_ends_the_benchmark(link: type[Link]) -> None:
    link.fails_after = 2
    with pytest.raises(SystemExit, match=f"after {2 * checkpoint_cost.BATCH_ROWS:,} events no more could be sent"):
        side()._through(lambda _: False)


class SlowSavepoints:
    """A manager that stores a savepoint a while after it was asked for, or cannot."""

    def __init__(self, end: str) -> None:
        self._end = end
        self._told: Iterator[list[dict[str, Any]]] = iter(())
        self.last = [self._one("stored", 1)]

    def _one(self, state: str, checkpoint: int) -> dict[str, Any]:
        error = "the disk is full" if state == "failed" else ""
        return {"name": checkpoint_cost.SAVEPOINT, "state": state, "checkpoint": checkpoint, "error": error}

    def take_savepoint(self, plan: str, name: str) -> None:
        self._told = iter([self.last, [self._one("taking", 0)], [self._one("taking", 0)], [self._one(self._end, 2)]])

    def savepoints(self, plan: str) -> list[dict[str, Any]]:
        self.last = next(self._told, self.last)
        return self.last


def test_the_other_side_waits_until_the_savepoint_is_stored(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checkpoint_cost, "LOOK_S", 0)
    client = SlowSavepoints("stored")
    side(client)._take_savepoint()
    assert (client.last[0]["state"], client.last[0]["checkpoint"]) == ("stored", 2)
    with pytest.raises(SystemExit, match="the savepoint between turns failed: the disk is full"):
        side(SlowSavepoints("failed"))._take_savepoint()


class Ailing(BaseHTTPRequestHandler):
    """Breaks the first connection of each path off, answers the second with an error, and then all is well."""

    asked: ClassVar[Counter[str]] = Counter()
    well: ClassVar[dict[str, threading.Event]] = {}

    def do_GET(self) -> None:
        self.asked[self.path] += 1
        number = self.asked[self.path]
        self.close_connection = True
        if number == 1:
            return
        self.send_response(500 if number == 2 else 200)
        self.end_headers()
        self.wfile.write(b"event: change\n\n" * 2)
        if number == (3 if "fragments" in self.path else 5):
            self.well[self.path].set()

    def log_message(self, *_: object) -> None:
        return


def test_requests_and_streams_that_break_off_are_counted_and_asked_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also that of a page itself, which is opened time and again."""
    paths = ("/", "/api/v1/overview/live", "/fragments/overview", "/api/v1/health")
    Ailing.asked.clear()
    Ailing.well.update({path: threading.Event() for path in paths})
    monkeypatch.setattr(console, "AGAIN_S", 0.01)
    monkeypatch.setattr(console, "PAGE_EVERY_S", 0.01)
    with ThreadingHTTPServer(("127.0.0.1", 0), Ailing) as server:
        serving = threading.Thread(target=server.serve_forever)
        serving.start()
        pages = console.Pages(f"http://127.0.0.1:{server.server_port}", ["P"], 1, poll=False)
        assert all(Ailing.well[path].wait(WITHIN_S) for path in paths)
        failed = Counter(pages.failed)
        pages.close()
        server.shutdown()
        serving.join()
    assert [failed[path] for path in ("/", "/fragments/overview", "/api/v1/health")] == [2, 2, 2]
    assert failed["/api/v1/overview/live"] >= 4, "each of these answers ends"
    assert pages.gaps_ms
    assert {"the page itself", console.YARDSTICK} <= set(pages.told_ms)


def test_counts_of_a_slow_machine_are_awaited_and_what_is_not_counted_is_missing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(statistics_truth, "LOOK_S", 0.001)
    assert statistics_truth.awaited(iter((7, 9, 10, 11)).__next__, 10) == 10
    monkeypatch.setattr(statistics_truth, "PATIENCE_MS", 5)
    assert statistics_truth.awaited(lambda: 9, 10) == 9
