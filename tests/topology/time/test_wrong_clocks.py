"""A stage whose host's clock was wrong, for a while or when it started: windows are right within their length."""

from __future__ import annotations

import pyarrow as pa
import pytest
from topology_builders import KEY, open_links

from query_plan.builder import build
from query_plan.model import TriggerStage
from query_plan.xml import read_xml, write_xml
from siddhi.analysis.analyser import analyse
from siddhi.column_names import KIND, TIMESTAMP
from siddhi.language.parser import parse
from topology.events.bundle import Bundle
from topology.events.frames import CURRENT
from topology.model import Topology
from topology.stages.kinds.processor import Processor
from topology.stages.kinds.trigger import DUE, TriggerInstance
from topology.stages.settings import StageSettings

NOW_MS = 1_700_000_000_000
HOUR_MS = 3_600_000
JUMPS = [10 * HOUR_MS, -10 * HOUR_MS, 87_600 * HOUR_MS, -87_600 * HOUR_MS]
PLANS = {
    "time": "from A#window.time(5 sec) select n, count() as c insert into Out;",
    "batch": "from A#window.timeBatch(1 sec) select n, count() as c insert into Out;",
    "snapshot": "from A#window.time(5 sec) select n, count() as c output snapshot every 1 sec insert into Out;",
    "absent": "from every a=A -> not A[n < 0] for 2 sec select a.n as n, 1L as c insert into Out;",
}


class Stage:
    """One stage; an event comes in every 500 ms, at the time that `clock_ms` shows."""

    def __init__(self, query: str, clock_ms: int, state: dict[str, bytes] | None = None) -> None:
        text = "@Plan:name('P') @Import('A:1.0.0') define stream A (n long);"
        text += f"@Export('Out:1.0.0') define stream Out (n long, c long); {query}"
        plan = read_xml(write_xml(build(analyse(parse(text)))))
        (stage,) = plan.processors
        self.emitted: list[Bundle] = []
        self.processor = Processor("S#0", Topology(KEY, 1, plan, 1), stage, self.emitted.append, StageSettings())
        self.processor.open(clock_ms, state or {})
        open_links(self.processor, clock_ms)
        self.clock_ms = clock_ms
        self.sent = 0

    def run(self, events: int) -> list[tuple[int, int]]:
        """(seconds since now, c) of what comes out."""
        self.emitted.clear()
        for _ in range(events):
            self.clock_ms += 500
            for _ in range(200):
                due_ms = self.processor.next_deadline_ms()
                if due_ms is None or due_ms > self.clock_ms:
                    break
                self.processor.on_time(self.clock_ms)
            self.sent += 1
            columns = {
                TIMESTAMP: pa.array([self.clock_ms]), KIND: pa.array([CURRENT], pa.int8()), "n": pa.array([self.sent])
            }  # fmt: skip
            batch = pa.RecordBatch.from_pydict(columns)
            bundle = Bundle("A", "A", self.sent, "A", ("A",), self.clock_ms, idle=True, batches=(("A", batch),))
            self.processor.on_bundle(bundle, self.clock_ms)
        found = [row for one in self.emitted for _, batch in one.batches for row in batch.to_pylist()]
        return [(row[TIMESTAMP], row["c"]) for row in found]


@pytest.mark.parametrize("query", PLANS.values(), ids=PLANS)
@pytest.mark.parametrize("jump_ms", JUMPS)
@pytest.mark.parametrize("restarts", [False, True])
def test_windows_are_right_within_their_length_of_any_jump_and_back(query: str, jump_ms: int, restarts: bool) -> None:
    stage = Stage(query, NOW_MS)
    stage.run(20)
    usual = [count for _, count in stage.run(20)][-8:]
    for jump in (jump_ms, -jump_ms):
        clock_ms = stage.clock_ms + jump
        if restarts:
            stage = Stage(query, clock_ms, stage.processor.snapshot())
        stage.clock_ms = clock_ms
        stage.run(12)
        later = stage.run(20)
        assert [count for _, count in later][-8:] == usual
        assert all(clock_ms <= time <= stage.clock_ms for time, _ in later), "outside it is the time of day"
        if jump == jump_ms and abs(jump) > 10 * HOUR_MS:
            assert "a clock was wrong" in stage.processor.statistics.last_error


@pytest.mark.parametrize("jump_ms", JUMPS)
def test_a_trigger_fires_again_within_its_period(jump_ms: int) -> None:
    text = "@Plan:name('P') define trigger T at every 1 sec; @Export('O:1.0.0') define stream O (t long);"
    plan = read_xml(write_xml(build(analyse(parse(text + "from T select triggered_time as t insert into O;")))))
    (definition,) = (one for one in plan.triggers if isinstance(one, TriggerStage))
    fired: list[Bundle] = []
    trigger = TriggerInstance("T#0", definition, fired.append)
    trigger.open(NOW_MS + jump_ms)
    state = trigger.snapshot()
    assert DUE in state
    for again in (trigger, TriggerInstance("T#0", definition, fired.append)):
        if again is not trigger:
            again.open(NOW_MS, state)
        again.note_time(NOW_MS)
        due_ms = again.next_deadline_ms()
        assert due_ms is not None
        assert due_ms <= NOW_MS + 1_000
        fired.clear()
        again.on_time(NOW_MS + 1_000)
        assert 1 <= sum(one.rows() for one in fired) <= 3_601
