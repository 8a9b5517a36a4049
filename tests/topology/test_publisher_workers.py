"""Which worker a publisher that delivers exactly once may turn to when it has lost the one that it served."""

from __future__ import annotations

from typing import Any

import pytest
from topology_builders import bundle, plan_of, topology_of

from cep_common.ids import Endpoint
from topology.errors import TopologyError
from topology.link import Outbox, PendingFrame
from topology.link_sender import LinkState
from topology.resequencer import Resequencer
from topology.stages import publisher as publisher_module
from topology.stages.publisher import Publisher

ONE, OTHER = (Endpoint("127.0.0.1", 15_000), "worker-1"), (Endpoint("127.0.0.1", 15_001), "worker-2")


class FakeLink:
    """A link that stands, over which nothing goes."""

    def __init__(self, *arguments: Any) -> None:
        self.outbox = Outbox(window_rows=100)
        self.state = LinkState.OPEN
        self.refusals: list[Any] = []

    def has_room(self) -> bool:
        return self.outbox.has_room()

    def send(self, stream: str, body: Any, rows: int, watermark_ms: int, position: int) -> int:
        return self.send_frame(publisher_module.Data(stream, self.outbox.next_sequence, rows, 0, 0, position),
                               self.outbox.next_sequence, rows, (body,))  # fmt: skip

    def send_frame(self, message: Any, sequence: int, rows: int, bodies: tuple[Any, ...]) -> int:
        self.outbox.sent(PendingFrame(sequence, rows, message, bodies))
        return sequence

    def handle(self) -> None:
        """Acknowledgements are the test's to give."""

    def unacknowledged(self) -> list[PendingFrame]:
        return list(self.outbox.pending)

    def close(self) -> None:
        self.state = LinkState.CLOSED


@pytest.fixture
def publisher(monkeypatch: pytest.MonkeyPatch) -> Publisher:
    """Serves `ONE`, which has acknowledged a result."""
    monkeypatch.setattr(publisher_module, "LinkSender", FakeLink)
    made = Publisher("publisher#0", topology_of(plan_of(["Out"], [], ["Out"])), Any, 100, Resequencer({}), True)  # noqa: FBT003
    made.assign(*ONE, 0)
    made.on_bundle(bundle(("Out", [(1, 1)])), 0)
    acknowledge(made, 1)
    return made


def acknowledge(publisher: Publisher, sequence: int) -> None:
    assert publisher.link is not None
    publisher.link.outbox.acknowledged(sequence)
    publisher.on_readable(0)


def lose_worker(publisher: Publisher) -> None:
    assert publisher.link is not None
    publisher.link.state = LinkState.LOST
    publisher.on_readable(0)
    assert publisher.needs_worker()


def test_results_whose_marker_their_worker_has_not_got_must_not_be_followed_by_that_at_another_one(
    publisher: Publisher,
) -> None:
    """The worker would drop them: it never learns to which checkpoint they belong."""
    lose_worker(publisher)
    with pytest.raises(TopologyError, match="worker-1 is gone"):
        publisher.assign(*OTHER, 0)


def test_a_marker_that_was_not_acknowledged_goes_to_the_worker_that_has_the_results(publisher: Publisher) -> None:
    publisher.mark(1)
    lose_worker(publisher)
    publisher.assign(*ONE, 0)
    lose_worker(publisher)
    with pytest.raises(TopologyError, match="worker-1 is gone"):
        publisher.assign(*OTHER, 0)


def test_behind_a_marker_that_was_acknowledged_any_worker_may_follow(publisher: Publisher) -> None:
    publisher.mark(1)
    acknowledge(publisher, 2)
    assert publisher.flushed == [1]
    lose_worker(publisher)
    publisher.assign(*OTHER, 0)
    assert publisher.worker == "worker-2"
