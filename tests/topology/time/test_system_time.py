"""Processing time follows what was accepted: an interruption of any length changes no answer."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from unittest import mock

import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st
from random_examples import examples
from topology_builders import KEY

from query_plan.builder import build
from query_plan.xml import read_xml, write_xml
from siddhi.analysis.analyser import analyse
from siddhi.column_names import KIND, TIMESTAMP
from siddhi.language.parser import parse
from topology.events.bundle import Bundle
from topology.events.frames import CURRENT, with_clocks
from topology.model import Topology
from topology.stages.kinds.processor import Processor
from topology.stages.settings import StageSettings
from topology.time.system_time import MOST_PIECES, MOST_ROWS, SystemTime

START_MS = 1_700_000_000_000
IDLE_MS = 5_000
RECEIVER = "EventReceiver#0"
PLAN = """@Plan:name('P')
@Import('A:1.0.0') define stream A (n long);
@Import('B:1.0.0') define stream B (n long);
@Export('Out:1.0.0') define stream Out (what string, n long);
from every a=A -> not B[n == a.n] for 200 millisec select 'absent' as what, a.n as n insert into Out;
from A#window.time(150 millisec) as a join B#window.time(150 millisec) as b on a.n == b.n
select 'joined' as what, a.n as n insert into Out;
from A#window.time(100 millisec) select 'counted' as what, count() as n insert into Out;
from A#window.delay(120 millisec) select 'delayed' as what, n insert into Out;
"""

QUERY_PLAN = read_xml(write_xml(build(analyse(parse(PLAN)))))


@dataclass(frozen=True)
class Event:
    at_ms: int
    stream: str
    number: int


class Stage:
    """The plan's stage, with a link for each stream over which nothing waits."""

    def __init__(self, state: dict[str, bytes] | None = None, now_ms: int = START_MS) -> None:
        plan, (stage,) = QUERY_PLAN, QUERY_PLAN.processors
        self.emitted: list[Bundle] = []
        topology = Topology(KEY, 1, plan, 1)
        self.processor = Processor(
            f"{stage.name}#0", topology, stage, self.emitted.append, StageSettings(idle_ms=IDLE_MS)
        )
        self.processor.open(now_ms, state or {})
        self._tickets = 0

    def say(
        self,
        stream: str,
        now_ms: int,
        served_ms: int = 0,
        *,
        caught_up: bool,
        events: Sequence[Event] = (),
        stamp_ms: int | None = None,
        step: bool = True,
    ) -> None:
        """A frame of the stream's link; its events have the time `stamp_ms` instead of that at which they came."""
        batches = ()
        if events:
            columns = {
                TIMESTAMP: pa.array([one.at_ms if stamp_ms is None else stamp_ms for one in events]),
                KIND: pa.array([CURRENT] * len(events), pa.int8()),
                "n": pa.array([one.number for one in events]),
            }
            batch = pa.RecordBatch.from_pydict(columns)
            batches = ((stream, with_clocks(batch, pa.array([one.at_ms for one in events]))),)
        told = Bundle(RECEIVER, RECEIVER, self._tickets, f"w/{stream}", (stream,), served_ms, caught_up, batches)
        self._tickets += 1
        if step:
            self.advance(now_ms)
        self.processor.on_bundle(told, now_ms)

    def advance(self, now_ms: int) -> None:
        """The time of day advances to `now_ms`."""
        while (due := self.processor.next_deadline_ms()) is not None and due <= now_ms:
            self.processor.on_time(due)

    def answers(self) -> Counter[tuple[str, int]]:
        rows = [row for one in self.emitted for _, batch in one.batches for row in batch.to_pylist()]
        return Counter((row["what"], row["n"]) for row in rows)


def undisturbed(events: list[Event], until_ms: int) -> Counter[tuple[str, int]]:
    stage = Stage()
    for stream in ("A", "B"):
        stage.say(stream, START_MS, caught_up=True)
    for one in events:
        stage.say(one.stream, one.at_ms, one.at_ms, caught_up=True, events=[one])
    stage.advance(until_ms)
    return stage.answers()


@st.composite
def lives(draw: st.DrawFn) -> list[Event]:
    """Events at different times: nobody knows which of two at the same time on different links was first."""
    gaps = draw(st.lists(st.integers(1, 130), min_size=1, max_size=14))
    at_ms, events = START_MS, []
    for gap in gaps:
        at_ms += gap
        events.append(Event(at_ms, draw(st.sampled_from("AB")), draw(st.integers(0, 2))))
    return events


@given(lives(), st.integers(0, 2**32))
@settings(max_examples=examples(15), deadline=None)
def test_what_was_accepted_during_an_outage_gives_the_answers_of_an_undisturbed_run(
    events: list[Event], seed: int
) -> None:
    chance = random.Random(seed)  # noqa: S311 - a schedule
    end_ms = events[-1].at_ms + 60_000
    began = chance.randint(0, len(events))
    expected = undisturbed(events, end_ms)

    stage = Stage()
    for stream in ("A", "B"):
        stage.say(stream, START_MS, caught_up=True)
    for one in events[:began]:
        stage.say(one.stream, one.at_ms, one.at_ms, caught_up=True, events=[one])
    answers = stage.answers()
    state = stage.processor.snapshot()

    now_ms = (events[began - 1].at_ms if began else START_MS) + 50_000
    again = Stage(dict(state), now_ms)
    waiting = {stream: [one for one in events[began:] if one.stream == stream] for stream in "AB"}
    behind = {"A", "B"}
    while behind:
        stream = chance.choice(sorted(behind))
        count = chance.randint(0, 3)
        sent, waiting[stream] = waiting[stream][:count], waiting[stream][count:]
        if not waiting[stream]:
            behind.discard(stream)
        now_ms += chance.randint(0, 300)
        served_ms = sent[-1].at_ms if sent else START_MS
        again.say(stream, now_ms, served_ms, caught_up=stream not in behind, events=sent)
    again.advance(end_ms)
    assert answers + again.answers() == expected


@given(lives(), st.lists(st.integers(-300, 60), min_size=14, max_size=14), st.integers(2, 6))
@settings(max_examples=examples(25), deadline=None)
def test_a_backlog_at_one_go_gives_what_it_gives_time_by_time(
    events: list[Event], offsets: list[int], most: int
) -> None:
    """Events may have times of their own, before or after they were accepted."""

    def answers(*, by_pieces: bool, most_rows: int) -> Counter[tuple[str, int]]:
        stage, end_ms = Stage(), events[-1].at_ms
        with (
            mock.patch.object(SystemTime, "_by_pieces", property(lambda _: by_pieces)),
            mock.patch("topology.time.system_time.MOST_ROWS", most_rows),
        ):
            stage.say("A", START_MS, caught_up=False)
            stage.say("B", START_MS, caught_up=False)
            for one, offset in zip(events, offsets, strict=False):
                stage.say(one.stream, START_MS, one.at_ms, caught_up=False, events=[one], stamp_ms=one.at_ms + offset)
            for stream in "AB":
                stage.say(stream, end_ms + 1, end_ms + 1, caught_up=True)
            stage.advance(end_ms + 10_000)
        return stage.answers()

    expected = answers(by_pieces=True, most_rows=10_000)
    assert answers(by_pieces=False, most_rows=10_000) == expected
    assert answers(by_pieces=False, most_rows=most) == expected


def test_links_are_served_while_a_long_backlog_is_worked_off() -> None:
    """Each call processes a part, and the next one is due at once."""
    stage = Stage()
    for stream in "AB":
        stage.say(stream, START_MS, caught_up=False)
    count, end_ms = 3 * MOST_ROWS, START_MS + 60_000
    backlog = [Event(START_MS + number * 60_000 // count, "A", number) for number in range(count)]
    stage.say("A", end_ms, end_ms, caught_up=False, events=backlog)
    stage.say("A", end_ms, end_ms, caught_up=True)
    stage.say("B", end_ms, end_ms, caught_up=True, step=False)
    calls = 0
    while stage.processor.statistics.queued_events:
        before = stage.processor.statistics.queued_events
        assert stage.processor.next_deadline_ms() == end_ms
        stage.processor.on_time(end_ms)
        assert before - stage.processor.statistics.queued_events < 2 * MOST_ROWS
        calls += 1
    assert calls >= 2


def test_links_are_served_while_a_large_bundle_goes_row_by_row() -> None:
    """Also where nothing waits: rows that go by themselves may take long."""
    with mock.patch.object(SystemTime, "_by_pieces", property(lambda _: True)):
        stage, now_ms = Stage(), START_MS + 1_000
        for stream in "AB":
            stage.say(stream, START_MS, caught_up=True)
        events = [Event(now_ms + number, "A", number) for number in range(3 * MOST_PIECES)]
        end_ms = events[-1].at_ms
        stage.say("A", end_ms, end_ms, caught_up=True, events=events)
        assert stage.processor.statistics.queued_events >= MOST_PIECES
        assert stage.processor.next_deadline_ms() == end_ms
        stage.advance(end_ms)
        assert stage.processor.statistics.queued_events == 0


def test_timers_wait_for_a_link_that_is_behind_and_for_a_lost_one_no_longer_than_told() -> None:
    stage = Stage()
    for stream in ("A", "B"):
        stage.say(stream, START_MS, caught_up=True)
    stage.say("A", START_MS + 10, START_MS + 10, caught_up=True, events=[Event(START_MS + 10, "A", 1)])
    stage.say("B", START_MS + 50, START_MS + 50, caught_up=False)
    stage.advance(START_MS + 2_000)
    assert ("absent", 1) not in stage.answers()
    assert stage.processor.statistics.behind_ms > 0
    stage.advance(START_MS + 3 * IDLE_MS)
    assert stage.answers()["absent", 1] == 1
    (failure,) = stage.processor.statistics.failures.records()
    assert failure.code == "channel-silent"
    assert "w/B" in failure.text


def test_events_behind_a_clock_that_did_not_wait_are_counted() -> None:
    stage = Stage()
    for stream in ("A", "B"):
        stage.say(stream, START_MS, caught_up=True)
    now_ms = START_MS + 60_000
    stage.say("A", now_ms, now_ms, caught_up=True, events=[Event(now_ms, "A", 1)])
    stage.say("B", now_ms + 1, now_ms - 5_000, caught_up=True, events=[Event(now_ms - 5_000, "B", 1)])
    assert stage.processor.statistics.late == {"B": 1}


def test_a_state_goes_on_at_its_own_time() -> None:
    stage = Stage()
    for stream in ("A", "B"):
        stage.say(stream, START_MS, caught_up=True)
    stage.say("A", START_MS + 10, START_MS + 10, caught_up=True, events=[Event(START_MS + 10, "A", 1)])
    state = dict(stage.processor.snapshot())
    again = Stage(state, START_MS + 60_000)
    again.say("A", START_MS + 60_000, caught_up=True)
    assert not again.answers(), "B may have had its event in time"
    paid = Event(START_MS + 100, "B", 1)
    again.say("B", START_MS + 60_001, paid.at_ms, caught_up=True, events=[paid])
    assert again.answers()["joined", 1] == 1
    assert again.answers()["absent", 1] == 0
