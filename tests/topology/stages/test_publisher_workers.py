"""When a publisher turns to another worker, and to which one when it delivers exactly once."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from topology_builders import bundle, plan_of, topology_of

from cep_common.ids import Endpoint
from cep_common.protocol.links import OpenLink
from cep_common.protocol.registry import Rejected
from topology.errors import TopologyError
from topology.events.resequencer import Resequencer
from topology.links.protocol import Outbox, PendingFrame
from topology.links.sender import LinkState
from topology.stages.kinds import publisher as publisher_module
from topology.stages.kinds.publisher import Publisher

ONE, OTHER = (Endpoint("127.0.0.1", 15_000), "worker-1"), (Endpoint("127.0.0.1", 15_001), "worker-2")


class FakeLink:
    """A link that stands, over which nothing goes."""

    silent = False

    def __init__(
        self, _context: Any, _kind: Any, endpoint: Endpoint, opening: OpenLink, *_: Any, patient: bool, shared: Any
    ) -> None:
        assert not patient
        self.opening = opening
        self.endpoint = endpoint
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


class Calls(list[None]):
    """How often a publisher said that it has lost its worker."""

    def note(self) -> None:
        self.append(None)


@pytest.fixture
def lost() -> Calls:
    return Calls()


@pytest.fixture
def publisher(monkeypatch: pytest.MonkeyPatch, lost: Calls) -> Publisher:
    """Delivers exactly once, and serves `ONE`, which has acknowledged a result."""
    monkeypatch.setattr(publisher_module, "LinkSender", FakeLink)
    topology = topology_of(plan_of(["Out"], [], ["Out"]))
    made = Publisher("publisher#0", topology, Any, 100, Resequencer({}), lost.note, exactly_once=True)
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


def test_each_run_of_a_publisher_has_an_identity_that_all_its_links_tell(publisher: Publisher) -> None:
    assert publisher.link is not None
    first = publisher.link.opening
    lose_worker(publisher)
    publisher.assign(*ONE, 0)
    assert publisher.link.opening.log == first.log != ""
    another = Publisher("publisher#0", publisher._topology, Any, 100, Resequencer({}), Calls().note, exactly_once=True)
    another.assign(*ONE, 0)
    assert another.link is not None
    assert another.link.opening.log not in (first.log, "")


def test_results_that_no_complete_checkpoint_holds_must_not_be_followed_by_others_at_another_worker(
    publisher: Publisher,
) -> None:
    """Nobody could tell that they are lost when the worker does not come back, or without its disk."""
    lose_worker(publisher)
    with pytest.raises(TopologyError, match="worker-1 is gone"):
        publisher.assign(*OTHER, 0)
    publisher.assign(*ONE, 0)
    publisher.mark(1)
    acknowledge(publisher, 1)
    assert publisher.flushed == [1]
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


def test_behind_a_complete_checkpoint_any_worker_may_follow(publisher: Publisher) -> None:
    publisher.mark(1)
    acknowledge(publisher, 2)
    publisher.complete(1)
    lose_worker(publisher)
    publisher.assign(*OTHER, 0)
    assert publisher.worker == "worker-2"
    assert position(publisher) == 0, "what the former one has is not its business"


def test_results_that_the_worker_may_have_without_having_said_so_keep_it(publisher: Publisher) -> None:
    publisher.mark(1)
    acknowledge(publisher, 2)
    publisher.complete(1)
    publisher.on_bundle(bundle(("Out", [(2, 2)])), 0)
    lose_worker(publisher)
    with pytest.raises(TopologyError, match="worker-1 is gone"):
        publisher.assign(*OTHER, 0)


def position(publisher: Publisher) -> int:
    """How far the worker has acknowledged results that it must have, as the link to it says."""
    assert isinstance(publisher.link, FakeLink)
    return publisher.link.opening.position


def opened(publisher: Publisher) -> int:
    """As `position`, of a new link."""
    lose_worker(publisher)
    publisher.assign(*ONE, 0)
    return position(publisher)


def test_a_worker_is_told_how_many_results_it_must_have_until_their_checkpoint_is_complete(
    publisher: Publisher,
) -> None:
    assert [opened(publisher), opened(publisher)] == [1, 1]
    publisher.on_bundle(bundle(("Out", [(2, 2), (3, 3)])), 0)
    assert opened(publisher) == 1, "the others were not acknowledged"
    publisher.pump()
    acknowledge(publisher, 1)
    assert opened(publisher) == 3
    publisher.mark(1)
    acknowledge(publisher, 1)
    assert publisher.flushed == [1]
    assert opened(publisher) == 3, "with its disk they would be lost, though the marker was acknowledged"
    publisher.complete(1)
    assert opened(publisher) == 0
    publisher.on_bundle(bundle(("Out", [(4, 4)])), 0)
    assert opened(publisher) == 0
    publisher.pump()
    acknowledge(publisher, 1)
    assert opened(publisher) == 4


def test_a_checkpoint_that_comes_to_nothing_holds_no_results_and_a_later_one_those_before_it(
    publisher: Publisher,
) -> None:
    publisher.mark(1)
    acknowledge(publisher, 2)
    publisher.abandon(1)
    publisher.complete(1)
    assert opened(publisher) == 1
    publisher.on_bundle(bundle(("Out", [(2, 2)])), 0)
    publisher.mark(2)
    acknowledge(publisher, 2)
    publisher.on_bundle(bundle(("Out", [(3, 3)])), 0)
    acknowledge(publisher, 3)
    publisher.complete(2)
    assert opened(publisher) == 3
    publisher.mark(3)
    acknowledge(publisher, 1)
    publisher.complete(3)
    assert opened(publisher) == 0


def test_a_worker_that_has_lost_results_ends_the_topology_which_goes_back_to_its_checkpoint(
    publisher: Publisher,
) -> None:
    lose_worker(publisher)
    publisher.assign(*ONE, 0)
    assert publisher.link is not None
    publisher.link.refusals.append(Rejected("results-missing", "results behind 0 are not there"))
    publisher.link.state = LinkState.REFUSED
    with pytest.raises(TopologyError, match="worker worker-1 has lost results"):
        publisher.on_readable(0)


def test_a_worker_that_knows_a_later_start_of_the_topology_makes_it_start_as_a_later_one(publisher: Publisher) -> None:
    """To let go of that worker would not help: the manager names it again, as it is there and was served before."""
    lose_worker(publisher)
    publisher.assign(*ONE, 0)
    assert publisher.link is not None
    publisher.link.refusals.append(Rejected("stale-attempt", "attempt 0 where 1 has begun"))
    publisher.link.state = LinkState.REFUSED
    with pytest.raises(TopologyError, match="worker worker-1 knows a later start: attempt 0 where 1 has begun"):
        publisher.on_readable(0)


def test_another_worker_is_asked_for_at_once_when_a_link_breaks_and_not_for_each_that_never_stood(
    publisher: Publisher, lost: Calls
) -> None:
    """The manager takes a worker that was killed for alive for a while, and names it again and again."""
    lose_worker(publisher)
    assert len(lost) == 1
    publisher.assign(*ONE, 0)
    assert publisher.link is not None
    publisher.link.outbox.window_rows = None
    lose_worker(publisher)
    assert len(lost) == 1


def test_a_worker_that_does_not_answer_is_kept_as_long_as_the_manager_names_it(publisher: Publisher) -> None:
    link = publisher.link
    assert isinstance(link, FakeLink)
    assert not publisher.needs_worker()
    link.silent = True
    assert publisher.needs_worker()
    publisher.assign(*ONE, 0)
    assert publisher.link is link


def test_a_worker_that_does_not_answer_is_left_for_another_with_what_it_has_not_acknowledged(
    publisher: Publisher,
) -> None:
    publisher.mark(1)
    acknowledge(publisher, 2)
    publisher.complete(1)
    publisher.mark(2)
    link = publisher.link
    assert isinstance(link, FakeLink)
    link.silent = True
    publisher.assign(*OTHER, 0)
    assert (publisher.worker, link.state) == ("worker-2", LinkState.CLOSED)
    publisher.pump()
    assert publisher.link is not None
    assert len(publisher.link.outbox.pending) == 1


def test_no_part_of_several_rows_is_too_large_for_a_frame(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(publisher_module, "MAXIMUM_FRAME_BYTES", 1_000)
    batch = pa.RecordBatch.from_pydict({"n": list(range(9)), "text": ["x" * 300] * 8 + ["x" * 5_000]})
    parts = list(publisher_module._parts(batch))
    assert [row for part in parts for row in part.to_pylist()] == batch.to_pylist()
    assert all(part.num_rows == 1 or part.nbytes <= 1_000 for part in parts)
