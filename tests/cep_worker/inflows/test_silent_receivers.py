"""A receiver stage that does not answer: the worker asks where another one is, and leaves it for that of a later
attempt."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, cast

import pytest
from worker_world import PLAN

from cep_common.clock import SystemClock
from cep_common.ids import Endpoint
from cep_common.protocol.registry import EndpointAssigned
from cep_worker.config import WorkerConfig
from cep_worker.inflows import receiver_link
from cep_worker.inflows.inflow import Inflow
from cep_worker.runtime.event_loop import EventLoop
from topology.links.protocol import Outbox, PendingFrame
from topology.links.sender import LinkState

FIRST, LATER = Endpoint("127.0.0.1", 15_000), Endpoint("127.0.0.1", 15_001)


class FakeLink:
    """A link that stands; whether its server answers is the test's to say."""

    sockets = ()
    position = secured = 0
    secures = silent = False

    def __init__(
        self, _context: Any, _kind: Any, endpoint: Endpoint, *_: Any, patient: bool, shared: Any = None
    ) -> None:
        assert not patient
        self.endpoint, self.state, self.outbox = endpoint, LinkState.OPEN, Outbox(window_rows=100)

    def unacknowledged(self) -> list[PendingFrame]:
        return []

    def release(self) -> None:
        """Nobody else is there."""

    def close(self) -> None:
        self.state = LinkState.CLOSED


@pytest.fixture
def inflow(monkeypatch: pytest.MonkeyPatch) -> Iterator[Inflow]:
    """Linked to the receiver of attempt 1."""
    monkeypatch.setattr(receiver_link, "LinkSender", FakeLink)
    event_loop, now_ms = EventLoop(), SystemClock().monotonic_ms()
    made = Inflow(
        event_loop,
        Any,
        PLAN,
        PLAN.imported[0],
        "worker-1",
        WorkerConfig(),
        None,
        lambda: None,
        lambda: None,
        lambda *_: 0,
        now_ms,
        SystemClock().now_ms,
    )
    made.connect(EndpointAssigned(FIRST, "receiver#0", 1), now_ms)
    yield made
    made.close()
    event_loop.close()


def link_of(inflow: Inflow) -> FakeLink:
    link = inflow._out._link
    assert isinstance(link, FakeLink)
    return link


def test_a_receiver_that_answers_is_not_left(inflow: Inflow) -> None:
    assert not inflow.asks
    inflow.connect(EndpointAssigned(LATER, "receiver#0", 2), 0)
    assert link_of(inflow).endpoint == FIRST


def test_a_receiver_that_does_not_answer_is_left_for_that_of_a_later_attempt(inflow: Inflow) -> None:
    hangs = link_of(inflow)
    hangs.silent = True
    assert inflow.asks
    assert not inflow.needs_endpoint
    inflow.connect(EndpointAssigned(LATER, "receiver#0", 2), 0)
    assert hangs.state is LinkState.CLOSED
    assert link_of(inflow).endpoint == LATER
    assert not inflow.asks


def test_a_receiver_that_is_merely_busy_keeps_its_link(inflow: Inflow) -> None:
    link_of(inflow).silent = True
    inflow.connect(EndpointAssigned(LATER, "receiver#1", 1), 0)
    assert link_of(inflow).endpoint == FIRST


def test_that_a_server_ran_in_one_silence_says_nothing_about_the_next(
    inflow: Inflow, monkeypatch: pytest.MonkeyPatch
) -> None:
    out, link = inflow._out, cast("Any", link_of(inflow))
    monkeypatch.setattr(out._greeting, "ask", lambda *_: setattr(out._greeting, "runs", True))
    for silent_ms, runs in ((receiver_link.ASK_MS, True), (0, False)):
        monkeypatch.setattr(out._backlog, "silent_ms", silent_ms, raising=False)
        out._note_silence(link, 1)
        assert out._greeting.runs is runs
