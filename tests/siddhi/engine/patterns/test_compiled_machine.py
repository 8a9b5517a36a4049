"""The compiled state machine against the event-by-event one, on random patterns and sequences of every form.

`COMPILED_PATTERNS=2000` tests so many of them.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from pattern_runs import Event, Make, PatternRun, analysed, answers, event_by_event
from random_patterns import random_events, random_query

from siddhi.engine.columnar.batch import EventBatch
from siddhi.engine.columnar.strings import StringPool
from siddhi.engine.operators.base.operator import MergingOperator, OperatorContext
from siddhi.engine.operators.patterns.base.references import selection_references
from siddhi.engine.operators.patterns.build import build_state_machine
from siddhi.engine.operators.patterns.compiled.expressions import NotCompilableError
from siddhi.engine.operators.patterns.compiled.operator import CompiledMachineOperator
from siddhi.engine.operators.patterns.machine.event_machine import EventMachineOperator
from siddhi.errors import SiddhiError

SEEDS = int(os.environ.get("COMPILED_PATTERNS", "60"))
COUNT = 80


class LoggedRun(PatternRun):
    """Records all properties of a match, except the step."""

    log: list[tuple[Any, ...]]

    def _collect(self, batch: EventBatch) -> None:
        columns = [column.to_list() for column in batch.columns.values()]
        partitions = [None] * batch.size if batch.partitions is None else batch.partitions.tolist()
        together = range(batch.size) if batch.deliveries is None else batch.deliveries.tolist()
        lines = zip(batch.timestamps.tolist(), batch.orders.tolist(), batch.clocks.tolist(), strict=True)
        for row, line in enumerate(lines):
            values = tuple(repr(column[row]) for column in columns)
            self.log.append((*line, partitions[row], together[row] - together[0], values))


def run_of(
    make: Make, query: str, events: Sequence[Event], edges: Sequence[int], restarts: Sequence[int], *, partitioned: bool
) -> list[tuple[Any, ...]]:
    """Return the results of the operator from `make`, until all waiting times have ended."""
    run = LoggedRun(query, make, partitioned=partitioned)
    run.log = []
    for start, stop in itertools.pairwise(sorted({0, len(events), *edges, *restarts})):
        if start in restarts:
            run.restart()
        run.step(events[start:stop])
    run.step([], until=run.clock + 300)
    return run.log


@pytest.mark.thorough
@pytest.mark.parametrize("seed", range(SEEDS))
def test_a_random_pattern_answers_as_the_event_machine_however_it_is_cut_and_restored(seed: int) -> None:
    query = random_query(seed, sequence=seed % 3 == 0)
    try:
        analysed(query)
    except SiddhiError:
        return  # a form that the language does not have
    events = random_events(seed, COUNT)
    draw = np.random.default_rng(seed)
    cuts, restarts = draw.integers(0, COUNT, 10).tolist(), draw.integers(1, COUNT, 4).tolist()
    for edges, restored in (([], []), (cuts, restarts), (range(COUNT), [])):
        found, expected = (
            run_of(make, query, events, edges, restored, partitioned=seed % 2 == 1)
            for make in (CompiledMachineOperator, EventMachineOperator)
        )
        assert found == expected, query


@pytest.mark.parametrize(
    "query",
    [
        "every e1=A and e2=B select e1.v as v, e2.v as w",
        "every e1=A or e2=B -> e3=C select e1.v as v, e2.v as w, e3.v as x",
        "every e1=A<2:3> -> e2=B select e1[0].v as v, e1[last].v as w, e2.v as x",
        "every e1=A, e2=B[v > e1.v]*, e3=C select e1.v as v, e2[last].v as w, e3.v as x",
        "every e1=A -> not B[k == e1.k] for 50 milliseconds select e1.v as v",
        "every (e1=A -> e2=B[v + e1.v > 7]) -> e3=C within 100 milliseconds select e1.v as v, e3.v as w",
        "every e1=A -> not B and e2=C select e1.v as v, e2.v as w",
    ],
)
@pytest.mark.parametrize("partitioned", [False, True])
def test_each_form_is_compiled_and_takes_over_the_state_of_the_event_machine(query: str, *, partitioned: bool) -> None:
    machine = analysed(query).elements[0]
    built = build_state_machine(machine.input, selection_references(machine), OperatorContext(StringPool()))
    assert isinstance(built, CompiledMachineOperator)
    events = random_events(7, 200)
    makes = itertools.cycle((EventMachineOperator, CompiledMachineOperator))

    def in_turn(*parts: Any) -> MergingOperator:
        return next(makes)(*parts)

    found = answers(query, events, (), range(20, 200, 20), in_turn, partitioned=partitioned)
    assert found == event_by_event(query, events, partitioned=partitioned)
    assert found


@pytest.mark.parametrize(
    "query",
    [
        "every e1=A#pol2Cart(p, p)[v > 0] -> not B for 1 sec select e1.v as a",
        "every e1=A[sum(v) > 10]<2> -> e2=B select e2.v as b",
    ],
)
def test_what_the_compiled_machine_cannot_do_is_left_to_the_event_machine(query: str) -> None:
    machine = analysed(query).elements[0]
    context = OperatorContext(StringPool())
    with pytest.raises(NotCompilableError):
        CompiledMachineOperator(machine.input, selection_references(machine), context)
    built = build_state_machine(machine.input, selection_references(machine), context)
    assert isinstance(built, EventMachineOperator)


@pytest.mark.thorough
def test_many_partial_matches_that_each_collect_all_events_take_no_time() -> None:
    # 7,000 attempts collect 24 million events; each is a number in a list of numbers.
    count = 7_000
    events = [*(Event("A", 1000, "x", place % 10) for place in range(count)), Event("B", 1000, "x", 1)]
    query = "every e1=A -> e2=A<2:> -> e3=B select e1.v as v, e2[0].v as w, e2[last].v as x"
    assert len(answers(query, events)) == count - 2


def test_the_oldest_partial_matches_are_dropped_beyond_the_limit() -> None:
    query = "every e1=A -> e2=B<2:3> select e1.v as v, e2[0].v as w"
    events = [Event("A", 1000 + place, "x", place) for place in range(30)]
    run = PatternRun(query)
    run.context = OperatorContext(run.pool, playback=True, max_partial_matches=20)
    run.operator = run._build()
    run.operator.start(0)
    run.step(events)
    size = run.operator.state_size()
    assert size.dropped_partial_matches > 0
    assert size.partial_matches <= 21
    run.step([Event("B", 2000, "x", 1), Event("B", 2001, "x", 2)])
    assert [values[0] for _, values in run.answers] == list(range(30 - len(run.answers), 30))


@pytest.mark.parametrize("make", [CompiledMachineOperator, EventMachineOperator])
def test_silences_that_end_at_one_time_come_in_the_order_of_their_keys(make: Make) -> None:
    run = LoggedRun("every e1=A -> not B for 100 milliseconds select e1.k as k", make, partitioned=True)
    run.log = []
    run.context = OperatorContext(
        run.pool, playback=True, partitioned=True, instance_ranks=lambda: np.array([2, 0, 1], dtype=np.int64)
    )
    run.operator = run._build()
    run.step([Event("A", 1000, key, 1) for key in "xyz"])
    run.step([], until=2000)
    assert [partition for _, _, _, partition, _, _ in run.log] == [1, 2, 0]
