"""Event time waits for a stream that has never had an event; and continues by itself where the plan says so."""

from __future__ import annotations

import itertools

import pyarrow as pa
import pytest
from topology_builders import KEY, bundle, schema_of

from query_plan.builder import build
from query_plan.xml import read_xml, write_xml
from siddhi.analysis.analyser import analyse
from siddhi.column_names import KIND, TIMESTAMP
from siddhi.language.parser import parse
from topology.events.bundle import Bundle
from topology.events.frames import CURRENT, arrow_schema
from topology.events.watermarks import END_OF_TIME, HEARD_OF
from topology.model import Topology
from topology.stages.kinds.processor import Processor
from topology.stages.settings import StageSettings
from topology.time.merger import EventTimeMerger

IDLE_MS = 1_000
ORIGINS = {name: {"EventReceiver#0": "EventReceiver"} for name in "AB"}
START_MS = 1_700_000_000_000
SCHEMAS = {name: arrow_schema(schema_of(name)) for name in "AB"}


def merger(now_ms: int = 0) -> EventTimeMerger:
    return EventTimeMerger(ORIGINS, IDLE_MS, now_ms=now_ms, first=("A", "B"))


def waiting() -> EventTimeMerger:
    """An hour after A had an event, B has said nothing but that it is idle."""
    made = merger()
    made.push(bundle(("A", [(10, 1)]), channel="a", watermark_ms=10), 0)
    made.push(bundle(channel="b", streams=("B",), idle=True), 0)
    made.push(bundle(channel="a", streams=("A",), watermark_ms=10, idle=True), 0)
    made.release(0)
    made.on_time(3_600_000)
    assert made.release(3_600_000) is None
    assert made.channels.awaited() == ("B",)
    return made


def test_a_stream_that_had_no_event_is_waited_for_however_long() -> None:
    made = waiting()
    made.push(bundle(("B", [(5, 2)]), channel="b", watermark_ms=5, idle=True), 3_600_000)
    step = made.release(3_600_000)
    assert step is not None
    assert [(stream, batch.num_rows) for stream, batch in step.batches] == [("A", 1), ("B", 1)]
    assert not made.late


def test_somebody_may_say_that_it_is_not_waited_for() -> None:
    made = waiting()
    made.channels.begin(("B",))
    assert made.release(3_600_000) is not None


def test_a_sender_that_is_through_without_an_event_has_begun() -> None:
    made = waiting()
    made.push(bundle(channel="b", streams=("B",), watermark_ms=HEARD_OF, idle=True), 3_600_000)
    assert made.release(3_600_000) is not None


def test_what_has_begun_is_part_of_the_state_and_what_has_not_is_waited_for_again() -> None:
    made = waiting()
    again = merger()
    again.restore(made.snapshot(), SCHEMAS, 0)
    assert again.channels.awaited() == ("B",)
    made.channels.begin(("B",))
    again = merger()
    again.restore(made.snapshot(), SCHEMAS, 0)
    assert again.channels.awaited() == ()


def test_events_behind_what_was_released_are_counted_by_stream() -> None:
    made = merger()
    for name in "AB":
        made.push(bundle((name, [(10, 1)]), channel=name, watermark_ms=10, idle=True), 0)
    assert made.watermark_ms() == END_OF_TIME
    made.release(0)
    made.push(bundle(("B", [(9, 1), (11, 2)]), channel="B", watermark_ms=11, idle=True), 1)
    made.release(1)
    assert made.late == {"B": 1}


PLAN = """@Plan:name('P') @Plan:playback(idleTime='5 sec', increment='1 sec')
@Import('A:1.0.0') define stream A (number long);
@Import('B:1.0.0') define stream B (number long);
@Export('Out:1.0.0') define stream Out (number long);
from A#window.delay(1500 millisec) select number insert into Out;
from B select number insert into Out;
"""


@pytest.mark.parametrize("first_ms", [START_MS, 0])
def test_event_time_goes_on_by_the_increment_after_each_idle_time(first_ms: int) -> None:
    plan = read_xml(write_xml(build(analyse(parse(PLAN)))))
    (stage,) = plan.processors
    out: list[Bundle] = []
    processor = Processor(f"{stage.name}#0", Topology(KEY, 1, plan, 1), stage, out.append, StageSettings())
    now_ms = 1_000_000
    processor.open(now_ms)
    assert processor.next_deadline_ms() is None, "nothing continues before the first event"
    columns = {TIMESTAMP: pa.array([first_ms]), KIND: pa.array([CURRENT], pa.int8()), "number": pa.array([7])}
    batches = (("A", pa.RecordBatch.from_pydict(columns)),)
    receiver = "EventReceiver#0"
    processor.on_bundle(Bundle(receiver, receiver, 0, "a", ("A",), first_ms, idle=True, batches=batches), now_ms)

    def rows() -> int:
        return sum(one.rows() for one in out)

    passed = []
    for _ in range(4):
        due_ms = processor.next_deadline_ms()
        assert due_ms is not None
        processor.on_time(due_ms)
        passed.append((due_ms - now_ms, rows()))
    # B, which said nothing, is waited for as long as the plan is idle; then 1 s of event time comes every 5 s.
    assert [count for _, count in passed][-1] == 1
    assert passed[0][0] == 5_000
    assert [late - soon for (soon, _), (late, _) in itertools.pairwise(passed[1:])] == [5_000, 5_000]
