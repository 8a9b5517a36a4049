"""Calls of the client library that hang: with producers whose calls never return."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest
import zmq
from worker_world import sink_context, until

from cep_common.ids import SUPER_TENANT, PlanKey
from cep_common.protocol.registry import Connector
from cep_worker.kafka import bounded_calls, sink, transactions
from cep_worker.kafka.bounded_calls import BoundedCalls, StuckCallError
from cep_worker.kafka.client import Errors, library
from cep_worker.kafka.targets import Target
from cep_worker.kafka.transactions import MOST_STUCK, NotNowError, Refusals, Transactions
from cep_worker.outflows.consumers import FrameId, GroupId
from cep_worker.runtime.event_loop import EventLoop

GROUP = GroupId(PlanKey(SUPER_TENANT, "P"), "publisher#0", 7, 0, 1, "log")


class Hanging:
    """A producer whose call `which` returns when `release` is set."""

    def __init__(self, which: str, release: threading.Event, destroyed: list[str]) -> None:
        self.which, self.release, self.destroyed = which, release, destroyed
        self.called: list[str] = []
        self.waiting: list[Any] = []

    def __getattr__(self, name: str) -> Any:
        def call(*_: Any) -> None:
            self.called.append(name)
            if name == self.which:
                assert self.release.wait(60)

        return call

    def produce(self, *_: Any, on_delivery: Any, **__: Any) -> None:
        self.waiting.append(on_delivery)

    def poll(self, _: float) -> None:
        while self.waiting:
            self.waiting.pop()(None, None)

    def __del__(self) -> None:
        self.destroyed.append(threading.current_thread().name)


class Tried:
    """The transactions of a sink whose producers hang in `which`."""

    def __init__(self, which: str, monkeypatch: pytest.MonkeyPatch) -> None:
        self.release, self.destroyed = threading.Event(), list[str]()
        self.calls: list[list[str]] = []

        def made(*_: Any) -> Hanging:
            producer = Hanging(which, self.release, self.destroyed)
            self.calls.append(producer.called)
            return producer

        monkeypatch.setattr(transactions, "made", made)
        monkeypatch.setattr(transactions, "STUCK_S", 0.05)
        monkeypatch.setattr(Transactions, "_read_marker", lambda *_: (0, 0, 0))
        monkeypatch.setattr(Transactions, "_member", lambda *_: None)
        self.transactions = Transactions(library(), "cep/test", {}, {}, Errors(), "sink")

    def deliver(self, refuses: str = "") -> None:
        never = threading.Event()
        assert not self.transactions.has(GROUP, never)
        frames = iter([(FrameId(GROUP, 1), pa.record_batch({"late": [1]}))])
        self.transactions.deliver(
            GROUP, frames, lambda _batch, _frame: iter([(Target("events", -1, None), b"1", [])]), lambda _: refuses,
            Refusals(), never,
        )  # fmt: skip


@pytest.fixture
def context() -> Iterator[zmq.Context[Any]]:
    with zmq.Context() as made:
        yield made


@pytest.mark.parametrize(
    ("which", "in_doubt"),
    [
        ("init_transactions", False),
        ("begin_transaction", False),
        ("send_offsets_to_transaction", False),
        ("commit_transaction", True),
    ],
)
def test_a_producer_that_hangs_is_left_alone(which: str, in_doubt: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    tried = Tried(which, monkeypatch)
    with pytest.raises(NotNowError, match=f"hangs: {which} has not returned within 0.05 s"):
        tried.deliver()
    found = tried.transactions
    assert (found.producer, found.in_doubt, found.stuck, tried.destroyed) == (None, in_doubt, 1, [])
    tried.release.set()
    until(lambda: tried.destroyed == [f"kafka {which}"])
    until(lambda: found.stuck == 0)
    assert which != "send_offsets_to_transaction" or "commit_transaction" not in tried.calls[0]
    tried.deliver()
    assert (len(tried.calls), found.committed, found.in_doubt) == (2, 1, False)


@pytest.mark.parametrize("which", ["purge", "abort_transaction"])
def test_what_hangs_while_it_aborts_does_not_hide_why(which: str, monkeypatch: pytest.MonkeyPatch) -> None:
    tried = Tried(which, monkeypatch)
    with pytest.raises(NotNowError, match=r"^no such topic$"):
        tried.deliver("no such topic")
    assert (tried.transactions.producer, tried.transactions.stuck) == (None, 1)
    tried.release.set()
    until(lambda: tried.destroyed == [f"kafka {which}"])


def test_a_producer_is_destroyed_on_a_thread_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    tried = Tried("purge", monkeypatch)
    monkeypatch.setattr(bounded_calls, "DESTROY_S", 0.0)
    tried.deliver()
    tried.transactions.give_up()
    assert (tried.destroyed, tried.transactions.stuck) == ([], 1)
    tried.release.set()
    until(lambda: tried.destroyed == ["kafka discarded producer"])


def test_what_a_call_raises_comes_as_it_is_and_keeps_no_client() -> None:
    class Client:
        def fail(self) -> None:
            raise ValueError("no")

        def __del__(self) -> None:
            gone.set()

    gone = threading.Event()
    with pytest.raises(ValueError, match=r"^no$") as raised:
        BoundedCalls().make("it", Client().fail, 10)
    assert gone.is_set(), raised
    assert BoundedCalls().make("it", lambda: 7, 10) == 7


def test_the_worker_ends_when_too_many_calls_of_a_sink_hang(
    context: zmq.Context[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    class Producer:
        purge = poll = staticmethod(lambda *_: None)

    class Hung:
        stuck, in_doubt, committed, aborted, checkpoint = MOST_STUCK - 1, False, 0, 0, 0
        give_up = staticmethod(lambda: None)

    def fails(*_: Any) -> None:
        ended.set()
        raise NotNowError("hangs")

    ended, loop = threading.Event(), EventLoop()
    monkeypatch.setattr(sink, "made", lambda *_: Producer())
    connector = Connector("Alerts", "kafka", {"bootstrap.servers": "b:1", "topic": "t"}, "json", {})
    writer = sink.kafka_sink(sink_context(connector, loop, context))._writer  # type: ignore[attr-defined]
    monkeypatch.setattr(writer, "_require_brokers", lambda _: None)
    monkeypatch.setattr(writer, "_deliver", fails)
    monkeypatch.setattr(writer._staged, "batches", lambda _: iter([(FrameId(GROUP, 1), pa.record_batch({"a": [1]}))]))
    writer._transactions = Hung()
    with pytest.raises(sink.WriteError):
        writer.commit(GROUP, ended)
    loop.turn(0, lambda: 0)
    Hung.stuck = MOST_STUCK
    with pytest.raises(sink.WriteError):
        writer.commit(GROUP, ended)
    with pytest.raises(StuckCallError, match=rf"of stream Alerts: {MOST_STUCK} calls of Kafka's client library hang"):
        loop.turn(0, lambda: 0)
