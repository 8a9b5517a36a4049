"""What a link carries from a log: what follows the position that its server names, once, in order, whatever broke."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path
from zlib import crc32

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from random_examples import examples
from worker_world import DEPARTURES, departures, values

from cep_common.ids import PlanKey
from cep_common.protocol.links import Data, StreamSchema
from cep_common.protocol.registry import StreamBinding
from cep_worker.inflows.batching import QueuedBatch, ReadyFrame
from cep_worker.inflows.logged_backlog import LoggedBacklog
from cep_worker.inflows.poison_pills import FIRST_FRAMES, GROUP_RECORDS
from cep_worker.inflows.wal.errors import WalFullError
from cep_worker.inflows.wal.identity import new_identity, read_identity
from cep_worker.inflows.wal.log import LogLimits, StreamLog
from cep_worker.inflows.wal.row_counts import ACCEPTED_FILE, SECURED_FILE, UNKNOWN, PositionCount, RowCounts
from cep_worker.storage.group_commit import DiskSync
from topology.events.conversion import Attributes
from topology.events.frames import arrow_schema, decode_batch
from topology.links.protocol import PendingFrame

SCHEMA = arrow_schema(StreamSchema("Departures", DEPARTURES))
IDENTITY = new_identity(PlanKey(-1234, "Delays"), StreamBinding("Departures", "Departures:1.0.0", DEPARTURES))
MOST_ROWS = 6
BATCH_ROWS = 4


class Desk:
    """A backlog, a link played by the test, and everything that was ever accepted."""

    def __init__(self, folder: Path, maximum_bytes: int = 10_000_000) -> None:
        self.folder = folder
        self.limits = LogLimits(maximum_bytes, 2_000)
        self.accepted: list[int] = []
        self.failed: list[tuple[int, str]] = []
        self.ends: dict[int, int] = {0: 0}
        """For each position, how many rows were accepted up to there."""
        self.linked = False
        self.open()

    def open(self) -> None:
        self.log = StreamLog(self.folder, IDENTITY, self.limits, DiskSync())
        self.backlog = LoggedBacklog(self.log, MOST_ROWS, self.fail)
        self.break_link()

    def fail(self, events: pa.RecordBatch, reason: str) -> int:
        self.failed.append((events.num_rows, reason))
        return 0

    def offer(self, rows: int) -> bool:
        """A source has something: accepted if there is room."""
        if not self.backlog.has_room(self.linked):
            return False
        first = len(self.accepted)
        batch = departures(*[(number, "UA", number, None) for number in range(first, first + rows)])
        body = self.backlog.prepare(batch, None)
        self.backlog.append(QueuedBatch(batch, body, first + rows))
        self.accepted += range(first, first + rows)
        self.ends[self.log.last_position] = len(self.accepted)
        return True

    def link(self, position: int, secures: bool = True) -> None:
        """A server names `position`: what follows it must come."""
        self.give_back()
        self.backlog.resume(position, secures)
        self.linked = True
        self.next_row = self.ends[max(position, self.log.secured)]

    def send(self) -> ReadyFrame | None:
        frame = self.backlog.take(BATCH_ROWS)
        if frame is None:
            return None
        self.sequence += 1
        self.backlog.sent(self.sequence, frame)
        self.pending.append((self.sequence, frame))
        rows = [row[0] for row in values(decode_batch(frame.body, SCHEMA, frame.rows))]
        assert rows == self.accepted[self.next_row : self.next_row + len(rows)], "once, in order"
        self.next_row += len(rows)
        assert self.ends[frame.position] == self.next_row, "a frame ends where a batch ends"
        assert frame.watermark_ms == self.next_row
        return frame

    def acknowledge(self, count: int) -> None:
        for sequence, frame in self.pending[:count]:
            self.backlog.acknowledged(sequence + 1)
            self.taken.append(frame.position)
        del self.pending[:count]

    def give_back(self) -> None:
        self.backlog.give_back([
            PendingFrame(sequence, frame.rows, data(sequence, frame), (frame.body,)) for sequence, frame in self.pending
        ])  # fmt: skip
        self.break_link()

    def break_link(self) -> None:
        self.linked = False
        self.sequence = 0
        self.next_row = 0
        self.pending: list[tuple[int, ReadyFrame]] = []
        self.taken: list[int] = []

    def waiting(self) -> int:
        return len(self.accepted) - self.next_row


def data(sequence: int, frame: ReadyFrame) -> Data:
    return Data("Departures", sequence, frame.rows, frame.watermark_ms, 0, frame.position)


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[Desk]:
    made = Desk(tmp_path / "log")
    yield made
    made.backlog.close()


STEPS = st.one_of(
    st.tuples(st.just("offer"), st.integers(1, 9)),
    st.tuples(st.just("send"), st.integers(1, 5)),
    st.tuples(st.just("acknowledge"), st.integers(1, 5)),
    st.tuples(st.just("secure"), st.integers(0, 100)),
    st.tuples(st.just("link"), st.integers(0, 100)),
    st.tuples(st.just("lose"), st.just(0)),
    st.tuples(st.just("restart"), st.just(0)),
)


@settings(max_examples=examples(60), deadline=None)
@given(st.lists(STEPS, max_size=40), st.booleans())
def test_every_link_carries_what_follows_the_position_that_its_server_names(
    steps: list[tuple[str, int]], secures: bool
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        desk = Desk(Path(folder) / "log")
        sent = [0]  # positions that a server may have seen
        for step, number in steps:
            match step:
                case "offer":
                    desk.offer(number)
                case "send" if desk.linked:
                    sent += [frame.position for _ in range(number) if (frame := desk.send()) is not None]
                case "acknowledge":
                    desk.acknowledge(number)
                case "secure" if secures and desk.taken:
                    secured = desk.taken[number % len(desk.taken)]
                    desk.backlog.secure(secured, secured)
                case "link":
                    desk.link(sent[number % len(sent)], secures)
                case "lose" if desk.linked:
                    desk.give_back()
                case "restart":
                    desk.backlog.close()
                    desk.open()
        desk.link(0, secures)
        assert desk.backlog.rows == desk.waiting()
        while desk.send() is not None:
            assert desk.backlog.rows == desk.waiting()
        assert desk.waiting() == 0, "nothing that was accepted is missing"
        desk.backlog.close()


def test_while_no_link_stands_more_is_accepted_than_fits_into_memory(desk: Desk) -> None:
    for _ in range(30):
        assert desk.offer(1)
    assert desk.backlog.rows == 30
    desk.link(0)
    while desk.send() is not None:
        pass
    assert desk.waiting() == 0


def test_while_it_catches_up_sources_are_slowed_and_not_stopped(desk: Desk) -> None:
    for _ in range(200):
        desk.offer(1)
    desk.link(0)
    accepted_meanwhile = 0
    while desk.waiting() > MOST_ROWS:
        before = desk.waiting()
        assert desk.send() is not None
        accepted_meanwhile += sum(desk.offer(1) for _ in range(50))
        assert desk.waiting() < before
    assert 150 <= accepted_meanwhile <= 250, "about one for two that left"


def test_what_is_acknowledged_is_forgotten_when_the_server_does_not_secure(desk: Desk) -> None:
    for _ in range(8):
        desk.offer(1)
    desk.link(0, secures=False)
    desk.send()
    desk.send()
    desk.acknowledge(1)
    desk.backlog.close()
    desk.open()
    assert desk.backlog.rows == 4
    desk.link(0, secures=False)
    assert desk.next_row == 4


def test_events_whose_file_is_gone_are_counted_and_those_behind_them_come(
    desk: Desk, caplog: pytest.LogCaptureFixture
) -> None:
    for _ in range(20):
        desk.offer(1)
    desk.backlog.close()
    files = sorted(desk.folder.glob("*.segment"))
    assert len(files) > 3
    files[1].unlink()
    desk.open()
    desk.offer(1)
    desk.linked = True
    desk.backlog.resume(0, secures=True)
    came = []
    while (frame := desk.backlog.take(BATCH_ROWS)) is not None:
        came += [row[0] for row in values(decode_batch(frame.body, SCHEMA, frame.rows))]
    assert came == sorted(set(came))
    assert came[-1] == 20
    assert desk.backlog.rows == 0
    assert "accepted events lost" in caplog.text
    assert len(came) + desk.log.lost_rows == 21


def test_a_full_log_is_told_before_a_batch_is_accepted(tmp_path: Path) -> None:
    desk = Desk(tmp_path / "log", maximum_bytes=4_000)
    while desk.log.size_bytes < 4_000:
        desk.offer(1)
    accepted = len(desk.accepted)
    with pytest.raises(WalFullError):
        desk.offer(1)
    assert not desk.offer(1)
    assert "wal.maximum_bytes is 4000" in desk.backlog.problem
    desk.link(0)
    for _ in range(8):
        desk.send()
    desk.acknowledge(8)
    desk.backlog.secure(desk.taken[-1], desk.taken[-1])
    while desk.send() is not None:
        pass
    assert desk.offer(1)
    assert len(desk.accepted) == accepted + 1
    desk.backlog.close()


def edited(desk: Desk, attributes: Attributes) -> None:
    """The plan gives its stream other attributes, and the worker opens the log again."""
    desk.backlog.close()
    desk.log = StreamLog(desk.folder, read_identity(desk.folder) or IDENTITY, desk.limits, DiskSync())
    desk.log.define(attributes)
    desk.backlog = LoggedBacklog(desk.log, MOST_ROWS, desk.fail)


def taken(desk: Desk, position: int = 0) -> list[pa.RecordBatch]:
    desk.backlog.resume(position, secures=True)
    found = []
    schema = arrow_schema(StreamSchema("Departures", desk.log.identity.attributes))
    while (frame := desk.backlog.take(BATCH_ROWS)) is not None:
        found.append((frame.position, decode_batch(frame.body, schema, frame.rows)))
    return [batch for _, batch in sorted(found, key=lambda one: one[0])]


def test_events_that_waited_when_their_stream_was_edited_go_on_with_its_new_attributes(tmp_path: Path) -> None:
    desk = Desk(tmp_path / "log")
    for _ in range(5):
        desk.offer(2)
    edited(desk, (("dep_delay", "long"), ("gate", "string")))
    edited(desk, (("dep_delay", "double"), ("carrier", "string")))
    found = pa.Table.from_batches(taken(desk))
    assert found.column("dep_delay").to_pylist() == [float(number) for number in range(10)]
    assert found.column("carrier").to_pylist() == ["UA"] * 10
    assert (desk.failed, desk.log.lost_rows) == ([], 0)


def test_what_the_topology_has_taken_is_not_sent_again_after_an_edit(tmp_path: Path) -> None:
    desk = Desk(tmp_path / "log")
    for _ in range(5):
        desk.offer(2)
    edited(desk, (*DEPARTURES, ("gate", "string")))
    found = pa.Table.from_batches(taken(desk, position=3))
    assert found.column("dep_delay").to_pylist() == [6, 7, 8, 9]
    assert found.column("gate").to_pylist() == [None] * 4


def test_events_that_cannot_have_the_new_attributes_are_kept_as_failed_once(tmp_path: Path) -> None:
    desk = Desk(tmp_path / "log")
    for _ in range(5):
        desk.offer(2)
    text = (("carrier", "string"), ("dep_delay", "string"), ("price", "double"))
    for _ in range(2):
        edited(desk, text)
        desk.backlog.resume(1, secures=True)
        positions = []
        while desk.backlog:
            frame = desk.backlog.take(BATCH_ROWS)
            if frame is not None:
                assert frame.rows == 0
                positions.append(frame.position)
        assert positions[-1] == 5, "a checkpoint secures what was handled"
    assert sum(rows for rows, _ in desk.failed) == 8
    assert {reason for _, reason in desk.failed} == {"its stream was edited: dep_delay was int and is string now"}


def test_what_waits_for_a_stream_that_is_gone_is_given_out_whole(tmp_path: Path) -> None:
    desk = Desk(tmp_path / "log")
    for _ in range(5):
        desk.offer(2)
    edited(desk, (*DEPARTURES, ("gate", "string")))
    desk.backlog.resume(2, secures=True)
    found = desk.backlog.take_out()
    assert sum(batch.num_rows for batch in found) == 6
    assert (desk.backlog.rows, desk.log.rows_waiting()) == (0, 0)


@pytest.mark.parametrize("reopened", [False, True])
@pytest.mark.parametrize("back_to", [0, 1, 3])
def test_a_topology_that_goes_back_gets_again_what_older_checkpoints_do_not_hold(
    tmp_path: Path, back_to: int, reopened: bool
) -> None:
    desk = Desk(tmp_path)
    desk.link(0)
    for _ in range(5):
        desk.offer(2)
        assert desk.send()
    desk.acknowledge(5)
    positions = [0, *desk.taken]
    desk.backlog.secure(positions[4], 0)
    if reopened:
        desk.log.close()
        desk.open()
    desk.backlog.resume(positions[back_to], secures=True, goes_back=True)
    desk.linked, desk.next_row = True, 2 * back_to
    while desk.send():
        pass
    assert desk.next_row == 10, "nothing is missing"
    assert desk.log.lost_rows == 0
    desk.link(positions[back_to])
    assert desk.next_row == 8, "a server that continues gets only what no checkpoint holds"


def test_what_no_checkpoint_holds_any_more_is_counted_as_lost(tmp_path: Path) -> None:
    desk = Desk(tmp_path)
    desk.link(0)
    for _ in range(4):
        desk.offer(2)
        assert desk.send()
    desk.acknowledge(4)
    desk.backlog.secure(desk.taken[3], desk.taken[2])
    desk.backlog.resume(desk.taken[0], secures=True, goes_back=True)
    desk.linked, desk.next_row = True, 6
    assert desk.send()
    assert desk.log.lost_rows > 0


def test_a_mark_of_an_earlier_version_is_read(tmp_path: Path) -> None:
    (tmp_path / SECURED_FILE).write_bytes(
        (7).to_bytes(8, "little") + crc32((7).to_bytes(8, "little")).to_bytes(4, "little")
    )
    tally = RowCounts(tmp_path)
    tally.read()
    assert (tally.secured, tally.unneeded) == ((7, UNKNOWN), 7)
    tally.accepted = PositionCount(12, 30)
    tally.secure(9, unneeded=4, at_least=20)
    tally.close()
    data = (tmp_path / SECURED_FILE).read_bytes()
    (tmp_path / ACCEPTED_FILE).unlink()
    for place in range(len(data)):
        (tmp_path / SECURED_FILE).write_bytes(data[:place] + bytes([data[place] ^ 1]) + data[place + 1 :])
        again = RowCounts(tmp_path)
        again.read()
        assert (again.accepted, again.secured, again.unneeded) == ((12, 30), (9, 20), 4), "it is defined twice"
    (tmp_path / SECURED_FILE).write_bytes(bytes(byte ^ 1 for byte in data))
    again = RowCounts(tmp_path)
    again.read()
    assert again.secured == (0, UNKNOWN), "damaged: read again from the segments"


class Topology:
    """Takes what a backlog sends, and ends whenever an event in `poison` is among it. `checkpoint_at` is what it begins
    from; `rows` is what it has worked on since then."""

    def __init__(
        self, desk: Desk, poison: set[int], *, runs: bool = True, at_once: int = 3, batch_rows: int = BATCH_ROWS
    ) -> None:
        self.desk, self.poison, self.runs, self.at_once, self.batch_rows = desk, poison, runs, at_once, batch_rows
        self.frames = 0
        self.cleared: tuple[int, ...] = ()
        self.doubtful: tuple[int, ...] = ()
        self.now_ms = 1_000
        self.attempt, self.checkpoint_at = 0, 0
        self.before: list[int] = []
        self.rows: list[int] = []

    def run(self) -> bool:
        """Work until everything is done (True), or an event ends the topology."""
        backlog, self.rows = self.desk.backlog, list(self.before)
        backlog.resume(
            self.checkpoint_at, secures=True, goes_back=True, attempt=self.attempt, cleared=self.cleared,
            doubtful=self.doubtful,
        )  # fmt: skip
        pending: list[PendingFrame] = []
        sequence = 0
        while True:
            frame = None if backlog.is_isolated and pending else backlog.take(self.batch_rows)
            if frame is not None:
                self.frames += 1
                sequence += 1
                backlog.sent(sequence, frame)
                pending.append(PendingFrame(sequence, frame.rows, data(sequence, frame), (frame.body,)))
                if not backlog.is_isolated and len(pending) < self.at_once:
                    continue
            if not pending:
                return True
            first = pending[0]
            found = [row[0] for row in values(decode_batch(first.bodies[0], SCHEMA, first.rows))]
            self.now_ms += 10
            backlog.tick(self.now_ms)
            if self.poison.intersection(found):
                backlog.give_back(pending, self.runs)
                self.attempt += 1
                return False
            self.rows += found
            backlog.acknowledged(first.sequence + 1)
            del pending[0]


@settings(max_examples=examples(40), deadline=None)
@given(sizes=st.lists(st.integers(1, 3), min_size=1, max_size=9), chosen=st.sets(st.integers(0, 26), max_size=2))
def test_a_poison_event_alone_fails_and_ends_its_topology_a_few_times(sizes: list[int], chosen: set[int]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        desk = Desk(Path(folder))
        for rows in sizes:
            assert desk.offer(rows)
        poison = chosen & set(desk.accepted)
        topology = Topology(desk, poison)
        restarts = 0
        while not topology.run():
            restarts += 1
            assert restarts <= 5 * len(poison)
        assert sorted(topology.rows) == sorted(set(desk.accepted) - poison), "each of the others once"
        assert sum(count for count, _ in desk.failed) == len(poison)
        assert all(reason.startswith("poison: ") for _, reason in desk.failed)
        desk.log.close()
        desk.open()
        topology.desk, topology.attempt = desk, 0
        assert topology.run(), "the next process of the worker knows it, too"


@pytest.mark.parametrize(("sizes", "most"), [([1] * 20, 3), ([1, 3, 1, 5, 1], 5)])
@pytest.mark.parametrize("poison", [0, 2, 7])
def test_no_event_ends_its_topology_more_than_three_times(
    tmp_path: Path, sizes: list[int], most: int, poison: int
) -> None:
    desk = Desk(tmp_path)
    for rows in sizes:
        assert desk.offer(rows)
    topology = Topology(desk, {poison})
    ends = 0
    while not topology.run():
        ends += 1
    assert ends <= most, "two more where events came together: each of them is tried alone"
    assert sorted(topology.rows) == sorted(set(desk.accepted) - {poison})
    assert [count for count, _ in desk.failed] == [1]


@pytest.mark.thorough
@pytest.mark.parametrize("poison", [0, 63, 64, 700, 999])
@pytest.mark.parametrize("runs", [True, False])
def test_many_records_go_in_groups_until_one_of_these_ends_the_topology(
    tmp_path: Path, poison: int, *, runs: bool
) -> None:
    """One by one, a topology that was merely killed under load would take minutes to catch up."""
    desk = Desk(tmp_path)
    for _ in range(1_000):
        assert desk.offer(1)
    topology = Topology(desk, {poison}, runs=runs, at_once=50, batch_rows=100)
    ends = 0
    while not topology.run():
        ends += 1
    assert ends <= (4 if runs else 8)
    assert topology.frames <= (ends + 1) * (1_000 // GROUP_RECORDS + GROUP_RECORDS + 10)
    assert sorted(topology.rows) == sorted(set(desk.accepted) - {poison})
    assert [count for count, _ in desk.failed] == [1]


def test_a_topology_that_ends_among_other_frames_gives_nothing_up(tmp_path: Path) -> None:
    """It is killed there, whatever comes: not among the first frames that were under way when it ended first."""
    desk = Desk(tmp_path)
    for _ in range(60):
        desk.offer(1)
    topology = Topology(desk, set(), at_once=20)
    for killed_at in (4, *range(4 + FIRST_FRAMES * BATCH_ROWS, 60)):
        topology.poison = {killed_at}
        assert not topology.run()
    topology.poison = set()
    assert topology.run()
    assert topology.rows == desk.accepted
    assert desk.failed == []


def test_two_kills_of_a_stage_give_nothing_up_even_at_the_same_event(tmp_path: Path) -> None:
    """`kill -9` of a stage looks like an event that ends it: it takes three, all at the very same event."""
    desk = Desk(tmp_path)
    for _ in range(20):
        desk.offer(1)
    topology = Topology(desk, {7})
    for _ in range(2):
        assert not topology.run()
    topology.poison = set()
    assert topology.run()
    assert topology.rows == desk.accepted
    assert desk.failed == []


@pytest.mark.parametrize("cleared", [True, False])
def test_ends_that_no_event_has_caused_give_nothing_up_however_many_they_are(tmp_path: Path, *, cleared: bool) -> None:
    """The driver moves the topology, or loses an executor, each time that the same event is under way."""
    desk = Desk(tmp_path)
    for _ in range(20):
        desk.offer(1)
    topology = Topology(desk, {7})
    for attempt in range(8):
        topology.cleared = tuple(range(attempt)) if cleared else ()
        if topology.run():
            break
    topology.poison = set()
    topology.cleared = tuple(range(8)) if cleared else ()
    assert topology.run()
    assert topology.rows == (desk.accepted if cleared else [one for one in desk.accepted if one != 7])
    assert desk.failed == [] if cleared else len(desk.failed) == 1


def test_links_to_a_topology_that_has_ended_do_not_hide_what_was_under_way(tmp_path: Path) -> None:
    """The manager assigns it until it knows of its end; such links are lost before they are open."""
    desk = Desk(tmp_path)
    for _ in range(20):
        desk.offer(1)
    topology = Topology(desk, {7})
    for _ in range(3):
        assert not topology.run()
        for _ in range(2):
            desk.backlog.give_back([])
    assert topology.run()
    assert topology.rows == [one for one in desk.accepted if one != 7]
    assert [count for count, _ in desk.failed] == [1]


@pytest.mark.parametrize("poison", [0, 7])
def test_an_event_with_which_executors_are_killed_is_given_up_after_six_of_them(tmp_path: Path, poison: int) -> None:
    """Three until events go one by one, and three while it is the only one under way; five give nothing up."""
    desk = Desk(tmp_path)
    for _ in range(20):
        desk.offer(1)
    topology = Topology(desk, {poison})
    for attempt in range(5):
        topology.doubtful = tuple(range(attempt))
        assert not topology.run()
    assert desk.failed == []
    topology.doubtful = tuple(range(5))
    assert not topology.run()
    topology.doubtful = tuple(range(6))
    assert topology.run()
    assert topology.rows == [one for one in desk.accepted if one != poison]
    assert [count for count, _ in desk.failed] == [1]


def test_five_killed_executors_give_nothing_up_even_at_the_same_event(tmp_path: Path) -> None:
    """Another plan, or another program, has taken the memory of their machine each time."""
    desk = Desk(tmp_path)
    for _ in range(20):
        desk.offer(1)
    topology = Topology(desk, {7})
    for attempt in range(5):
        topology.doubtful = tuple(range(attempt))
        assert not topology.run()
    topology.poison, topology.doubtful = set(), tuple(range(5))
    assert topology.run()
    assert topology.rows == desk.accepted
    assert desk.failed == []


def test_what_a_frozen_host_had_is_not_given_up(tmp_path: Path) -> None:
    """Its processes are stopped where they are, twice at the same event, and others start again elsewhere."""
    desk = Desk(tmp_path)
    for _ in range(20):
        desk.offer(1)
    topology = Topology(desk, {7}, runs=False)
    for _ in range(2):
        assert not topology.run()
    topology.runs, topology.poison = True, {9}  # and then something else ends it
    assert not topology.run()
    topology.poison = set()
    assert topology.run()
    assert topology.rows == desk.accepted
    assert desk.failed == []


def test_silence_is_time_with_frames_under_way_and_nothing_acknowledged(tmp_path: Path) -> None:
    """A link's answers to other things, and wake-ups without any, are no acknowledgements; nor is rest silence."""
    desk = Desk(tmp_path)
    desk.offer(1)
    backlog = desk.backlog
    backlog.resume(0, secures=True)
    for now_ms in (100, 200):
        backlog.tick(now_ms)
    assert backlog.silent_ms == 0
    frame = backlog.take(1)
    assert frame is not None
    backlog.sent(1, frame)
    for now_ms in (300, 400):
        backlog.tick(now_ms)
        backlog.acknowledged(1)
    assert backlog.silent_ms == 200
    backlog.acknowledged(2)
    assert backlog.silent_ms == 0
