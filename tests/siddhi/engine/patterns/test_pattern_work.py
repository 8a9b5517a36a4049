"""The cost of an event does not grow with the number of partial matches, nor that of an alarm with other keys."""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import FrameType

import numpy as np
import pyarrow as pa
import pytest
from pattern_runs import Event, PatternRun

from siddhi.analysis.analyser import analyse
from siddhi.engine.app_runtime import AppRuntime
from siddhi.engine.operators.patterns.base.partial import Partial, PatternEvent
from siddhi.engine.operators.patterns.machine.event_machine import EventMachineOperator
from siddhi.engine.operators.patterns.machine.horizon import Horizon, is_expired
from siddhi.language.parser import parse


def calls_of(work: Callable[[], None]) -> int:
    """Return the number of function calls in `work`."""
    count = 0

    def note(_frame: FrameType, event: str, _argument: object) -> None:
        nonlocal count
        count += event == "call"

    before = sys.getprofile()
    sys.setprofile(note)
    try:
        work()
    finally:
        sys.setprofile(before)
    return count


@pytest.mark.parametrize(
    "query",
    [
        "every e1=A -> not B for 1 hour select e1.v as v",
        "every e1=A -> e2=B and e3=C select e1.v as v",
        "every e1=A -> e2=B<1:2> within {open} milliseconds select e1.v as v",
        "every e1=A -> not B for 1 hour within {open} milliseconds select e1.v as v",
        "every e1=A -> e2=B and e3=C within {open} milliseconds select e1.v as v",
    ],
)
def test_an_event_costs_the_same_however_many_partial_matches_are_open(query: str) -> None:
    def work(count: int) -> int:
        """Return the calls for 200 events, each of which opens a partial match and expires one if there is `within`."""
        run = PatternRun(query.format(open=count), EventMachineOperator)
        run.step([Event("A", 1000 + time, "a", 1) for time in range(count)])
        return calls_of(lambda: run.step([Event("A", 1000 + count + time, "a", 1) for time in range(200)]))

    assert work(2000) < 1.1 * work(200)


@pytest.mark.parametrize("begin_later", [False, True])
@pytest.mark.parametrize("seed", range(4))
def test_the_horizon_finds_those_that_a_look_at_each_finds(seed: int, begin_later: bool) -> None:
    draw = np.random.default_rng(seed)
    limits = (((0, 1), 30), ((2,), 50))
    horizon = Horizon(limits, begin_later=begin_later)
    listed: list[Partial] = []
    time = 1000
    found = 0
    for _ in range(2_000):
        time += int(draw.integers(0, 5))
        late = int(draw.integers(0, 60)) if draw.random() < 0.1 * seed else 0
        if draw.random() < 0.02:
            listed.clear()
            horizon.clear()
        chains = [[PatternEvent(time - late, ())] if draw.random() < 0.7 else None for _ in range(3)]
        listed.append(Partial([*chains]))
        horizon.note(listed[-1])
        if begin_later:
            listed[int(draw.integers(len(listed)))].put(2, PatternEvent(time, ()))
        looked = time - int(draw.integers(0, 80)) * (draw.random() < 0.05 * seed)
        expected = [partial for partial in listed if is_expired(partial, limits, looked)]
        rest = [partial for partial in listed if partial not in expected]
        assert horizon.take_expired(listed, looked) == expected
        assert listed == rest
        found += len(expected)
    assert found > 1_000


@pytest.mark.parametrize(
    ("query", "silences"),
    [("e1=A -> not A for 1 sec select e1.v as v", 1), ("every not A for 1 sec select 1 as v", 2)],
)
def test_an_alarm_costs_the_same_however_many_keys_have_one(query: str, silences: int) -> None:
    text = f"""@app:playback define stream A (k string, v int);
        partition with (k of A) begin from {query} insert into O; end;"""

    def work(count: int) -> float:
        """Return the calls for each of `count` keys when all their waiting times end in one move of the clock."""
        runtime = AppRuntime(analyse(parse(text)))
        runtime.start(0)
        found: list[int] = []
        runtime.add_stream_callback("O", lambda batch: found.append(batch.num_rows))
        columns = {
            "_timestamp": pa.array([1000] * count, pa.int64()),
            "k": pa.array([f"key{number}" for number in range(count)]),
            "v": pa.array([1] * count, pa.int32()),
        }
        runtime.send("A", pa.record_batch(columns))
        calls = calls_of(lambda: runtime.advance_time(1000 + 1000 * silences))
        assert sum(found) == silences * count
        return calls / count

    assert work(800) < 1.5 * work(80)
