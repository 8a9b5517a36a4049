"""Streams merged in event-time order, checked against a reference that keeps all rows in one list."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import msgspec
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from random_examples import examples
from topology_builders import bundle, numbers, rows_of, schema_of

from cep_common.protocol.links import StreamSchema
from topology.events.bundle import Bundle
from topology.events.frames import arrow_schema, concatenate
from topology.events.watermarks import END_OF_TIME, NO_WATERMARK
from topology.time.merger import EventTimeMerger, MergedStep

IDLE_MS = 1_000
RECEIVERS = {"EventReceiver#0": "EventReceiver", "EventReceiver#1": "EventReceiver"}


def merger_of(streams: list[str], drop_late: bool = False, now_ms: int = 0) -> EventTimeMerger:
    """Merges streams that come from two receivers."""
    return EventTimeMerger(dict.fromkeys(streams, RECEIVERS), IDLE_MS, drop_late, now_ms)


def released(step: MergedStep | None) -> list[tuple[str, int, int]]:
    """(stream, time, number) in the step's common order; checks what every step promises, and settles it."""
    if step is None:
        return []
    for one in step.finished:
        one.settle()
    placed: dict[int, tuple[str, int, int]] = {}
    for (stream, batch), order in zip(step.batches, step.orders, strict=True):
        rows = rows_of(batch)
        assert [time for time, _ in rows] == sorted(time for time, _ in rows)
        assert (order[1:] > order[:-1]).all()
        placed |= {int(place): (stream, *row) for place, row in zip(order, rows, strict=True)}
    assert sorted(placed) == list(range(len(placed)))
    return [placed[place] for place in range(len(placed))]


# ---- the reference ---------------------------------------------------------------------------------------------------


@dataclass
class Reference:
    """All rows held in one list; what the channels promise; no batches, no heaps, no arrays."""

    streams: list[str]
    held: list[tuple[int, int, int, str, int]] = field(default_factory=list)  # time, rank, arrival, stream, bundle
    promises: dict[str, tuple[int, int]] = field(default_factory=dict)  # channel → (watermark, rank)
    idle: set[str] = field(default_factory=set)
    spoken: set[str] = field(default_factory=set)
    arrivals: int = 0
    bundles: int = 0

    def push(self, pushed: Bundle) -> None:
        ranks = [self.streams.index(stream) for stream in pushed.streams]
        self.spoken |= set(pushed.streams)
        watermark = max(self.promises.get(pushed.channel, (NO_WATERMARK, 0))[0], pushed.watermark_ms)
        self.promises[pushed.channel] = (watermark, min(ranks))
        (self.idle.add if pushed.idle else self.idle.discard)(pushed.channel)
        for stream, batch in pushed.batches:
            for time, _ in rows_of(batch):
                self.held.append((time, self.streams.index(stream), self.arrivals, stream, self.bundles))
                self.arrivals += 1
        self.bundles += 1

    def bound(self) -> tuple[int, int]:
        silent = [(NO_WATERMARK, rank) for rank, stream in enumerate(self.streams) if stream not in self.spoken]
        said = [promise for channel, promise in self.promises.items() if channel not in self.idle]
        return min(silent + said, default=(END_OF_TIME, len(self.streams)))

    def release(self) -> list[tuple[str, int, int]]:
        ready = sorted(row for row in self.held if row[:2] <= self.bound())
        self.held = [row for row in self.held if row[:2] > self.bound()]
        return [(stream, time, arrival) for time, _, arrival, stream, _ in ready]

    def settled(self) -> set[int]:
        return set(range(self.bundles)) - {row[4] for row in self.held}


@st.composite
def schedules(draw: st.DrawFn) -> tuple[list[str], list[Bundle | None], bool]:
    """Streams, and bundles of several channels that all keep their promises, interleaved; None stands for a release.

    Rows are numbered in order of arrival. The last value says whether all channels opened before the first release: one
    that is not known of cannot be waited for.
    """
    streams = ["A", "B", "C"][: draw(st.integers(1, 3))]
    carried = draw(st.lists(st.sets(st.sampled_from(streams), min_size=1), min_size=1, max_size=4))
    channels = [sorted(names) for names in carried] + [[name] for name in streams if name not in set().union(*carried)]
    promised = [NO_WATERMARK] * len(channels)
    opened_first = draw(st.booleans())
    openings = [bundle(channel=f"channel {index}", streams=tuple(names)) for index, names in enumerate(channels)]
    schedule: list[Bundle | None] = [*openings] if opened_first else []
    arrivals = 0
    for index in draw(st.lists(st.integers(0, len(channels) - 1), max_size=25)):
        base = max(promised[index], 0)
        batches = []
        for stream in draw(st.lists(st.sampled_from(channels[index]), unique=True)):
            times = draw(st.lists(st.integers(base, base + 6), max_size=4))
            batches.append((stream, [(time, arrivals + place) for place, time in enumerate(times)]))
            arrivals += len(times)
        promised[index] = draw(st.sampled_from([promised[index], base, base + 1, base + 3]))
        schedule.append(
            bundle(
                *batches,
                channel=f"channel {index}",
                streams=tuple(channels[index]),
                watermark_ms=promised[index],
            )
        )
        schedule += [None] * draw(st.integers(0, 1))
    schedule += [
        bundle(channel=f"channel {index}", streams=tuple(names), idle=True) for index, names in enumerate(channels)
    ]
    return streams, [*schedule, None], opened_first


@pytest.mark.thorough
@given(schedules())
@settings(max_examples=examples(300), deadline=None)
def test_what_is_released_and_settled_is_what_the_reference_says(
    schedule: tuple[list[str], list[Bundle | None], bool],
) -> None:
    streams, turns, opened_first = schedule
    merger, reference = merger_of(streams), Reference(streams)
    settled: list[int] = []
    everything: list[tuple[str, int, int]] = []
    for turn in turns:
        if turn is not None:
            number = reference.bundles
            reference.push(turn)
            merger.push(with_receipt(turn, settled, number), now_ms=0)
            assert merger.watermark_ms() == reference.bound()[0]
        else:
            step = merger.release(now_ms=0)
            got = released(step)
            assert got == reference.release()
            assert step is None or step.watermark_ms == reference.bound()[0]
            everything += got
        assert set(settled) == reference.settled()
        assert merger.held_rows == len(reference.held)
    assert len(settled) == len(set(settled))
    assert merger.held_rows == 0
    ranked = [(time, streams.index(stream), number) for stream, time, number in everything]
    assert len(ranked) == reference.arrivals
    if opened_first:
        assert merger.late_rows == 0
        assert ranked == sorted(ranked)


def with_receipt(pushed: Bundle, settled: list[int], number: int) -> Bundle:
    carried = [(stream, rows_of(batch)) for stream, batch in pushed.batches]
    return bundle(
        *carried,
        channel=pushed.channel,
        streams=pushed.streams,
        watermark_ms=pushed.watermark_ms,
        idle=pushed.idle,
        settled=lambda: settled.append(number),
    )


# ---- order -----------------------------------------------------------------------------------------------------------


def test_at_equal_times_the_stream_defined_first_goes_first_whoever_came_first() -> None:
    merger = merger_of(["Arrivals", "Departures"])
    merger.push(bundle(("Departures", [(10, 1), (20, 2)]), channel="d", watermark_ms=20), 0)
    merger.push(bundle(("Arrivals", [(10, 3), (20, 4)]), channel="a", watermark_ms=21), 0)
    assert released(merger.release(0)) == [
        ("Arrivals", 10, 3),
        ("Departures", 10, 1),
        ("Arrivals", 20, 4),
        ("Departures", 20, 2),
    ]


def test_a_row_waits_while_an_earlier_defined_stream_may_still_bring_one_of_the_same_time() -> None:
    merger = merger_of(["Arrivals", "Departures"])
    merger.push(bundle(("Departures", [(10, 1)]), channel="d", watermark_ms=10), 0)
    merger.push(bundle(channel="a", streams=("Arrivals",), watermark_ms=10), 0)
    assert released(merger.release(0)) == []
    merger.push(bundle(channel="a", streams=("Arrivals",), watermark_ms=11), 0)
    assert released(merger.release(0)) == [("Departures", 10, 1)]


def test_two_connections_of_one_stream_are_both_waited_for() -> None:
    merger = merger_of(["S"])
    merger.push(bundle(("S", [(5, 1), (9, 2)]), channel="one worker", watermark_ms=9), 0)
    assert released(merger.release(0)) == [("S", 5, 1), ("S", 9, 2)]
    merger.push(bundle(channel="another", streams=("S",)), 0)
    merger.push(bundle(("S", [(12, 3)]), channel="one worker", watermark_ms=12), 0)
    assert released(merger.release(0)) == []
    merger.push(bundle(("S", [(11, 4)]), channel="another", watermark_ms=12), 0)
    assert released(merger.release(0)) == [("S", 11, 4), ("S", 12, 3)]


def test_a_watermark_never_goes_back() -> None:
    merger = merger_of(["S"])
    merger.push(bundle(channel="c", streams=("S",), watermark_ms=10), 0)
    merger.push(bundle(("S", [(10, 1)]), channel="c", watermark_ms=NO_WATERMARK), 0)
    assert merger.watermark_ms() == 10
    assert released(merger.release(0)) == [("S", 10, 1)]


def test_streams_of_a_bundle_that_are_not_merged_here_make_no_channel() -> None:
    merger = merger_of(["S"])
    merger.push(bundle(channel="c", streams=("S",), watermark_ms=10), 0)
    merger.push(bundle(channel="d", streams=("Elsewhere",)), 0)
    merger.push(bundle(channel="", streams=()), 0)
    assert merger.watermark_ms() == 10


# ---- receipts --------------------------------------------------------------------------------------------------------


def test_a_bundle_of_two_streams_is_settled_when_the_last_of_its_rows_has_gone() -> None:
    merger, settled = merger_of(["A", "B"]), [0]
    merger.push(
        bundle(("A", [(1, 1)]), ("B", [(9, 2)]), channel="c", settled=lambda: settled.append(1), watermark_ms=5), 0
    )
    assert len(released(merger.release(0))) == 1
    assert settled == [0]
    merger.push(bundle(channel="c", streams=("A", "B"), watermark_ms=10), 0)
    assert len(released(merger.release(0))) == 1
    assert settled == [0, 1]


def test_a_connection_that_is_far_ahead_does_not_keep_anothers_frames_unsettled() -> None:
    """Otherwise the slow one's window would fill, and it could never catch up."""
    merger, settled = merger_of(["S"]), list[str]()
    ahead = bundle(("S", [(1_000, 1)]), channel="a", watermark_ms=1_000, settled=lambda: settled.append("ahead"))
    behind = bundle(("S", [(1, 2)]), channel="b", watermark_ms=1, settled=lambda: settled.append("behind"))
    merger.push(ahead, 0)
    merger.push(behind, 0)
    assert released(merger.release(0)) == [("S", 1, 2)]
    assert settled == ["behind"]


# ---- silence ---------------------------------------------------------------------------------------------------------


def test_a_stream_on_which_nobody_spoke_holds_the_others_back_for_exactly_idle_ms() -> None:
    merger = merger_of(["A", "B"], now_ms=0)
    assert merger.next_deadline_ms() is None
    merger.push(bundle(("A", [(1, 1)]), channel="a", watermark_ms=1), 500)
    assert merger.release(500) is None
    assert merger.next_deadline_ms() == 500 + IDLE_MS
    merger.on_time(499 + IDLE_MS)
    assert merger.release(499 + IDLE_MS) is None
    merger.on_time(500 + IDLE_MS)
    assert released(merger.release(500 + IDLE_MS)) == [("A", 1, 1)]
    assert merger.next_deadline_ms() is None


def test_silence_counts_from_the_last_word_of_the_channel_that_is_waited_for() -> None:
    merger = merger_of(["A", "B"])
    merger.push(bundle(channel="b", streams=("B",), watermark_ms=1), 0)
    merger.push(bundle(("A", [(5, 1)]), channel="a", watermark_ms=5), 100)
    merger.release(100)
    merger.push(bundle(channel="b", streams=("B",), watermark_ms=2), 300)
    merger.release(300)
    assert merger.next_deadline_ms() == 300 + IDLE_MS


def test_a_channel_that_is_ahead_of_the_others_does_not_become_idle_however_silent_it_is() -> None:
    """Its sender may wait for room that only the others can make."""
    merger = merger_of(["A", "B"])
    merger.push(bundle(("A", [(100, 1)]), channel="a", watermark_ms=100), 0)
    for now_ms in range(0, 5 * IDLE_MS, IDLE_MS // 2):
        merger.push(bundle(channel="b", streams=("B",), watermark_ms=now_ms // 100), now_ms)
        merger.on_time(now_ms)
        assert merger.release(now_ms) is None
    now_ms = 5 * IDLE_MS
    merger.push(bundle(("B", [(120, 2)]), channel="b", watermark_ms=120), now_ms)
    assert released(merger.release(now_ms)) == [("A", 100, 1)]
    merger.on_time(now_ms + IDLE_MS - 1)
    assert merger.release(now_ms + IDLE_MS - 1) is None
    assert merger.next_deadline_ms() == now_ms + IDLE_MS


def test_an_idle_channel_does_not_hold_back_until_it_speaks_again() -> None:
    merger = merger_of(["A", "B"])
    merger.push(bundle(channel="b", streams=("B",), watermark_ms=1, idle=True), 0)
    merger.push(bundle(("A", [(5, 1)]), channel="a", watermark_ms=5), 0)
    assert released(merger.release(0)) == [("A", 5, 1)]
    merger.push(bundle(channel="b", streams=("B",), watermark_ms=6), 0)
    merger.push(bundle(("A", [(7, 2)]), channel="a", watermark_ms=7), 0)
    assert released(merger.release(0)) == []
    assert merger.watermark_ms() == 6


def test_when_every_channel_is_idle_everything_goes() -> None:
    merger = merger_of(["A"])
    merger.push(bundle(("A", [(5, 1), (3, 2)]), channel="a", idle=True), 0)
    assert released(merger.release(0)) == [("A", 3, 2), ("A", 5, 1)]
    assert merger.watermark_ms() == END_OF_TIME


# ---- late rows -------------------------------------------------------------------------------------------------------


def late_after_ten(drop_late: bool) -> tuple[EventTimeMerger, list[tuple[str, int, int]], list[int]]:
    """A row of 10 was released because the other channel was idle; then that one brings rows of 4, 9, 10 and 12."""
    settled: list[int] = []
    merger = merger_of(["A", "B"], drop_late)
    merger.push(bundle(channel="a", streams=("A",), idle=True), 0)
    merger.push(bundle(("B", [(10, 1)]), channel="b", watermark_ms=10), 0)
    assert released(merger.release(0)) == [("B", 10, 1)]
    merger.push(bundle(channel="b", streams=("B",), idle=True, watermark_ms=10), 0)
    rows = [(9, 2), (4, 3), (10, 4), (12, 5)]
    merger.push(bundle(("A", rows), channel="a", watermark_ms=12, settled=lambda: settled.append(1)), 0)
    return merger, released(merger.release(0)), settled


def test_late_rows_are_processed_in_time_order_and_counted() -> None:
    merger, rows, settled = late_after_ten(drop_late=False)
    assert rows == [("A", 4, 3), ("A", 9, 2), ("A", 10, 4), ("A", 12, 5)]
    assert (merger.late_rows, settled) == (2, [1])


def test_late_rows_are_dropped_and_counted_and_their_frame_is_settled() -> None:
    merger, rows, settled = late_after_ten(drop_late=True)
    assert rows == [("A", 10, 4), ("A", 12, 5)]
    assert (merger.late_rows, merger.held_rows, settled) == (2, 0, [1])


def test_a_release_of_nothing_but_dropped_rows_is_no_step() -> None:
    merger = merger_of(["A"], drop_late=True)
    merger.push(bundle(("A", [(10, 1)]), watermark_ms=10), 0)
    merger.release(0)
    merger.push(bundle(("A", [(9, 2)]), watermark_ms=10), 0)
    assert merger.release(0) is None
    assert merger.late_rows == 1


# ---- who is waited for -----------------------------------------------------------------------------------------------

PRODUCERS = {"M": {"totals#0": "totals#0", "totals#1": "totals#1"}}


def test_every_instance_of_a_stage_is_waited_for_before_it_has_said_a_word() -> None:
    merger = EventTimeMerger(PRODUCERS, IDLE_MS, now_ms=0)
    merger.push(bundle(("M", [(5, 1)]), origin="totals#1", watermark_ms=9), 0)
    assert released(merger.release(0)) == []
    merger.push(bundle(("M", [(4, 2)]), origin="totals#0", watermark_ms=9), 10)
    assert released(merger.release(10)) == [("M", 4, 2), ("M", 5, 1)]


def test_an_instance_that_never_says_a_word_is_waited_for_no_longer_than_one_that_falls_silent() -> None:
    merger = EventTimeMerger(PRODUCERS, IDLE_MS, now_ms=0)
    merger.push(bundle(("M", [(5, 1)]), origin="totals#1", watermark_ms=9), 100)
    merger.release(100)
    assert merger.next_deadline_ms() == 100 + IDLE_MS
    merger.on_time(100 + IDLE_MS)
    assert released(merger.release(100 + IDLE_MS)) == [("M", 5, 1)]


def test_of_receivers_one_that_speaks_is_enough() -> None:
    merger = merger_of(["S"])
    merger.push(bundle(("S", [(5, 1)]), origin="EventReceiver#1", watermark_ms=9), 0)
    assert released(merger.release(0)) == [("S", 5, 1)]


# ---- from a checkpoint -----------------------------------------------------------------------------------------------


def restored(merger: EventTimeMerger, origins: dict[str, dict[str, str]], now_ms: int = 0) -> EventTimeMerger:
    """One that continues from the state of `merger`, whose streams come from `origins` now."""
    successor = EventTimeMerger(origins, IDLE_MS, now_ms=now_ms)
    successor.restore(merger.snapshot(), {name: arrow_schema(schema_of(name)) for name in origins}, now_ms)
    return successor


def test_a_connection_that_comes_to_another_receiver_is_the_one_that_is_waited_for() -> None:
    merger = merger_of(["A", "B"])
    merger.push(bundle(channel="worker", streams=("A", "B"), watermark_ms=10), 0)
    merger.push(bundle(("A", [(20, 1)]), channel="ahead", watermark_ms=20), 0)
    assert released(merger.release(0)) == []

    merger = restored(merger, dict.fromkeys(("A", "B"), RECEIVERS))
    merger.push(bundle(channel="ahead", streams=("A",), origin="EventReceiver#1", watermark_ms=20), 0)
    assert released(merger.release(0)) == []
    merger.push(bundle(channel="worker", streams=("A", "B"), origin="EventReceiver#1", watermark_ms=NO_WATERMARK), 0)
    assert merger.watermark_ms() == 10
    merger.push(bundle(channel="worker", streams=("A", "B"), origin="EventReceiver#1", watermark_ms=25), 0)
    assert released(merger.release(0)) == [("A", 20, 1)]
    assert merger.watermark_ms() == 20


def test_the_workers_of_a_receiver_that_is_gone_are_waited_for() -> None:
    merger = merger_of(["S"])
    merger.push(bundle(channel="slow", streams=("S",), origin="EventReceiver#1", watermark_ms=5), 0)
    merger.push(bundle(("S", [(20, 1)]), channel="fast", origin="EventReceiver#1", watermark_ms=20), 0)
    merger = restored(merger, {"S": {"EventReceiver#0": "EventReceiver"}})
    merger.push(bundle(channel="fast", streams=("S",), watermark_ms=20), 0)
    assert released(merger.release(0)) == []
    merger.push(bundle(("S", [(10, 2)]), channel="slow", watermark_ms=20), 0)
    assert released(merger.release(0)) == [("S", 10, 2), ("S", 20, 1)]


def test_a_worker_that_rested_at_the_checkpoint_is_waited_for_as_it_may_have_sent_since() -> None:
    merger = merger_of(["S"])
    merger.push(bundle(channel="rested", streams=("S",), watermark_ms=5, idle=True), 0)
    merger = restored(merger, {"S": RECEIVERS})
    merger.push(bundle(("S", [(20, 1)]), channel="other", watermark_ms=20), 0)
    assert released(merger.release(0)) == []
    merger.push(bundle(("S", [(10, 2)]), channel="rested", watermark_ms=20), 0)
    assert released(merger.release(0)) == [("S", 10, 2), ("S", 20, 1)]


def test_rows_that_were_held_go_when_nobody_comes_back() -> None:
    """Where nothing is heard, only a deadline leads to a look at them."""
    merger = merger_of(["S"])
    merger.push(bundle(channel="slow", streams=("S",), watermark_ms=5), 0)
    merger.push(bundle(("S", [(20, 1)]), channel="fast", watermark_ms=20), 0)
    merger = restored(merger, {"S": RECEIVERS}, now_ms=50)
    assert merger.next_deadline_ms() == 0
    merger.on_time(60)
    assert merger.release(60) is None
    assert merger.next_deadline_ms() == 60 + IDLE_MS
    merger.on_time(60 + IDLE_MS)
    assert released(merger.release(60 + IDLE_MS)) == [("S", 20, 1)]


def test_nobody_waits_for_instances_that_a_stage_has_no_more_and_everybody_for_those_that_are_new() -> None:
    merger = EventTimeMerger(PRODUCERS, IDLE_MS)
    merger.push(bundle(("M", [(5, 1)]), origin="totals#0", watermark_ms=9), 0)
    merger.push(bundle(origin="totals#1", streams=("M",), watermark_ms=1), 0)

    fewer = restored(merger, {"M": {"totals#0": "totals#0"}})
    assert released(fewer.release(0)) == [("M", 5, 1)]

    more = restored(merger, {"M": {f"totals#{index}": f"totals#{index}" for index in range(3)}})
    more.push(bundle(origin="totals#1", streams=("M",), watermark_ms=9), 0)
    assert released(more.release(0)) == []
    more.push(bundle(origin="totals#2", streams=("M",), watermark_ms=9), 0)
    assert released(more.release(0)) == [("M", 5, 1)]


def test_a_channel_whose_own_held_rows_fill_its_window_may_send_more() -> None:
    merger, settled = merger_of(["A"]), []
    for number, time in enumerate((10, 20)):
        merger.push(
            bundle(
                ("A", [(time, number)]), channel="a", watermark_ms=5, full=time == 20,
                settled=lambda time=time: settled.append(time),
            ),
            0,
        )  # fmt: skip
    assert released(merger.release(0)) == []
    merger.settle_choked()
    assert (settled, merger.held_rows) == ([10, 20], 2)
    merger.push(bundle(("A", [(7, 3)]), channel="a", watermark_ms=15, settled=lambda: settled.append(7)), 0)
    assert released(merger.release(0)) == [("A", 7, 3), ("A", 10, 0)]
    merger.push(bundle(channel="a", streams=("A",), watermark_ms=30), 0)
    assert released(merger.release(0)) == [("A", 20, 1)]
    assert settled == [10, 20, 7]


@pytest.mark.parametrize(
    ("ahead_ms", "full", "idle"),
    [(9, True, False), (5, False, False), (4, True, True)],
    ids=["waits for another channel", "can send a later watermark", "is not waited for"],
)
def test_held_rows_stay_in_the_window_of_a_channel_that_does_not_hold_time_back(
    ahead_ms: int, full: bool, idle: bool
) -> None:
    merger, settled = merger_of(["A"]), []
    merger.push(bundle(channel="b", streams=("A",), watermark_ms=5), 0)
    merger.push(
        bundle(
            ("A", [(10, 1)]), channel="a", watermark_ms=ahead_ms, full=full, idle=idle,
            settled=lambda: settled.append(10),
        ),
        0,
    )  # fmt: skip
    assert released(merger.release(0)) == []
    merger.settle_choked()
    assert settled == []
    merger.push(bundle(channel="b", streams=("A",), watermark_ms=20), 0)
    merger.push(bundle(channel="a", streams=("A",), watermark_ms=20), 0)
    assert released(merger.release(0)) == [("A", 10, 1)]
    assert settled == [10]


def test_a_release_copies_no_rows_that_wait_however_many_there_are(monkeypatch: pytest.MonkeyPatch) -> None:
    copied = []

    def counting(batches: Sequence[pa.RecordBatch]) -> pa.RecordBatch:
        copied.append(sum(one.num_rows for one in batches))
        return concatenate(batches)

    monkeypatch.setattr("topology.time.merger.concatenate", counting)
    merger, expected = merger_of(["A"]), []
    for first in range(0, 1_000, 100):
        merger.push(bundle(("A", [(5_000 + time, time) for time in range(first, first + 100)]), channel="a"), 0)
    for first in range(0, 100, 10):
        rows = [(time, time) for time in range(first, first + 10)]
        merger.push(bundle(("A", rows), channel="a", watermark_ms=first + 9), 0)
        expected += [("A", time, number) for time, number in rows]
        assert released(merger.release(0)) == expected
        expected = []
    assert (sum(copied), merger.held_rows) == (100, 1_000)


def test_small_batches_that_wait_are_joined_in_the_order_of_their_arrival() -> None:
    merger = merger_of(["A"])
    for number in range(10_000):
        merger.push(bundle(("A", [(10 + number % 3, number)]), channel="a", watermark_ms=1), 0)
    state = msgspec.msgpack.decode(merger.snapshot())
    assert len(state[2]) < 200
    merger.push(bundle(channel="a", streams=("A",), watermark_ms=11), 0)
    first = [("A", time, number) for time in (10, 11) for number in range(10_000) if 10 + number % 3 == time]
    assert released(merger.release(0)) == first
    merger.push(bundle(channel="a", streams=("A",), watermark_ms=50), 0)
    assert released(merger.release(0)) == [("A", 12, number) for number in range(10_000) if number % 3 == 2]
    assert merger.held_rows == 0


def test_held_rows_that_were_settled_are_in_the_state() -> None:
    merger = merger_of(["A"])
    merger.push(bundle(("A", [(10, 1), (20, 2)]), channel="a", watermark_ms=5, full=True, settled=lambda: None), 0)
    merger.settle_choked()
    successor = merger_of(["A"])
    successor.restore(merger.snapshot(), {"A": numbers("A", []).schema}, 0)
    successor.push(bundle(("A", [(7, 3)]), channel="a", watermark_ms=30), 0)
    assert released(successor.release(0)) == [("A", 7, 3), ("A", 10, 1), ("A", 20, 2)]


def test_a_stream_that_nobody_fed_is_not_waited_for_anew() -> None:
    merger = merger_of(["A", "B"])
    merger.push(bundle(("A", [(1, 1)]), channel="a", watermark_ms=1), 0)
    merger.release(0)
    merger.on_time(IDLE_MS)
    assert released(merger.release(IDLE_MS)) == [("A", 1, 1)]
    merger = restored(merger, dict.fromkeys(("A", "B"), RECEIVERS))
    merger.push(bundle(("A", [(2, 2)]), channel="a", watermark_ms=2), 0)
    assert released(merger.release(0)) == [("A", 2, 2)]


def test_rows_that_were_held_when_their_stream_was_edited_have_its_new_attributes_as_far_as_they_can() -> None:
    merger = merger_of(["A", "B"])
    merger.push(bundle(("A", [(20, 1), (21, 2)]), ("B", [(30, 3)]), streams=("A", "B")), 0)
    had = schema_of("A").attributes
    wider = StreamSchema("A", (*((name, "double") for name, _ in had), ("gate", "string")))
    other = StreamSchema("B", tuple((name, "bool") for name, _ in had))
    successor = merger_of(["A", "B"])
    successor.restore(merger.snapshot(), {"A": arrow_schema(wider), "B": arrow_schema(other)}, 0)
    assert successor.held_rows == 2
    assert [part.startswith("1 events of B that waited for their turn: ") for part in successor.left] == [True]
    successor.on_time(10 * IDLE_MS)
    successor.release(0)
    successor.on_time(10 * IDLE_MS)
    step = successor.release(10 * IDLE_MS)
    assert step is not None
    ((stream, batch),) = step.batches
    assert (stream, batch.schema) == ("A", arrow_schema(wider))
    assert batch.column(2).to_pylist() == [1.0, 2.0]
    assert batch.column("gate").to_pylist() == [None, None]
