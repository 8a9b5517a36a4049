"""A stage that continues with another number of instances gives what one engine gives that never was cut."""

from __future__ import annotations

import random
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from topology_builders import EPOCH, KEY

from query_plan.builder import build
from query_plan.model import GroupingKind, ProcessingStage, QueryPlan, instance_stage, stage_app
from siddhi.analysis.analyser import analyse
from siddhi.analysis.model import AnalysedApp
from siddhi.engine.app_runtime import AppRuntime
from siddhi.engine.migration.rescale import redistribute
from siddhi.language.parser import parse
from siddhi.scripts.language import ScriptPolicy
from topology.grouping import key_hashes
from topology.model import Topology
from topology.stages.kinds.processor import ENGINE
from topology.stages.routes.partition_keys import ComputedKeys
from topology.stages.state.key_shares import key_shares
from topology.stages.state.rescaling import rescaled

HEAD = """@Plan:name('P') @Plan:playback
@Import('S:1.0.0') define stream S (k string, v int, d double, b bool, n long);
@Import('R:1.0.0') define stream R (k string, v int, d double, b bool, n long);
@Import('B:1.0.0') define stream B (v int);
@Export('Out:1.0.0') define stream Out (k string, x double, y long);
"""
OUT = "insert into Out;"
DIST = "@dist(execGroup='g', parallel='2')"
X, Y = "convert({}, 'double') as x", "convert({}, 'long') as y"


def selected(x: str, y: str, k: str = "k") -> str:
    return f"select {k} as k, {X.format(x)}, {Y.format(y)}"


def within(*queries: str, keys: str = "k of S", purge: str = "") -> str:
    return f"{DIST} {purge} partition with ({keys}) begin {' '.join(queries)} end;"


QUERIES = {
    "length": within(f"from S#window.length(3) {selected('sum(d)', 'max(n)')} {OUT}"),
    "extremes": within(f"from S#window.length(7) {selected('min(d)', 'minForever(n)')} group by v {OUT}"),
    "one operator": within(f"from S#window.length(3) select k, sum(d) as x, max(n) as y {OUT}"),
    "one operator, groups": within(
        f"from S#window.length(5) select k, min(d) as x, distinctCount(k) as y group by v, k {OUT}"
    ),
    "one operator, time": within(
        f"from S#window.time(3000) select k, maxForever(d) as x, count() as y group by b {OUT}"
    ),
    "time": within(f"from S#window.time(3000) {selected('avg(d)', 'distinctCount(v)')} insert all events into Out;"),
    "batches": within(f"from S#window.lengthBatch(4) {selected('stdDev(d)', 'count()')} group by b {OUT}"),
    "time batches": within(f"from S#window.timeBatch(2000) {selected('sum(d)', 'count()')} {OUT}"),
    "session": within(f"from S#window.session(1500 millisec) {selected('d', 'count()')} insert all events into Out;"),
    "sort": within(f"from S#window.sort(3, n) {selected('d', 'n')} insert all events into Out;"),
    "by expression": within(
        f"from S#window.expression('last.n - first.n < 30 and v < 9') {selected('sum(d)', 'count()')} group by b {OUT}"
    ),
    "forever": within(f"from S {selected('sum(d)', 'count()')} group by v {OUT}"),
    "truths": within(f"from S select k, ifThenElse(and(b), 1.0, 0.0) as x, {Y.format('count()')} {OUT}"),
    "sets": within(
        "from S#window.length(4) select k, createSet(v) as s, d insert into #I;",
        f"from #I select k, d as x, {Y.format('sizeOfSet(unionSet(s))')} {OUT}"
    ),
    "inner streams": within(
        "from S#window.length(2) select k, sum(v) as t insert into #I;",
        f"from #I#window.length(3) {selected('sum(t)', 't')} {OUT}",
    ),
    "pattern": within(
        f"from every e1=S[v > 5] -> e2=S[v < e1.v] within 5 sec {selected('e1.d', 'e2.n', 'e1.k')} {OUT}"
    ),
    "strings in pattern": within(
        f"from every e1=S -> e2=R[e1.b == b] {selected('e1.d', 'e2.n', 'e1.k')} {OUT}",
        keys="k of S, k of R",
    ),
    "sequence": within(
        f"from every e1=S[v > 2], e2=S[v > e1.v]+, e3=S[v < 9] {selected('e1.d', 'e2[last].n', 'e1.k')} {OUT}"
    ),
    "silence": within(f"from every e1=S -> not S[v > 5] for 1200 millisec {selected('e1.d', 'e1.n', 'e1.k')} {OUT}"),
    "counted": within(
        f"from every e1=S[v > 2]<2:3> -> e2=R {selected('e1[0].d', 'e2.n', 'e2.k')} {OUT}", keys="k of S, k of R"
    ),
    "join": within(
        f"from S#window.length(3) as l join R#window.time(4000) as r on l.v > r.v {selected('l.d', 'r.n', 'l.k')}",
        OUT,
        keys="k of S, k of R",
    ),
    "broadcast": within(
        "from S#window.length(3) select k, sum(v) as t insert into #I;",
        f"from every e1=#I -> e2=B[v > e1.t] {selected('e1.t', 'e2.v', 'e1.k')} {OUT}",
    ),
    "first of events": within(f"from S {selected('d', 'count()')} group by v output first every 3 events {OUT}"),
    "last of events": within(f"from S {selected('sum(d)', 'n')} group by b output last every 4 events {OUT}"),
    "last in time": within(f"from S {selected('sum(d)', 'n')} group by b output last every 1500 milliseconds {OUT}"),
    "first in time": within(f"from S {selected('sum(d)', 'n')} group by b output first every 1500 milliseconds {OUT}"),
    "snapshots": within(
        f"from S#window.length(3) {selected('sum(d)', 'v')} group by v output snapshot every 2500 milliseconds {OUT}"
    ),
    "expression key": within(f"from S#window.length(3) {selected('sum(d)', 'n')} {OUT}", keys="v % 3 of S"),
    "real key": within(f"from S#window.length(3) {selected('sum(d)', 'n')} {OUT}", keys="d of S"),
    "int key": within(f"from S#window.length(3) {selected('sum(d)', 'n')} {OUT}", keys="v of S"),
    "ranges": within(
        f"from S#window.length(3) {selected('sum(d)', 'n')} {OUT}",
        keys="v < 3 as 'low' or v >= 3 and v < 6 as 'middle' or v >= 5 as 'high' of S",
    ),
    "purge": within(
        f"from S#window.length(3) {selected('sum(d)', 'n')} {OUT}",
        f"from every e1=S[v > 5] -> e2=S[v < e1.v] {selected('e1.d', 'e2.n', 'e1.k')} {OUT}",
        purge="@purge(enable='true', interval='1 sec', idle.period='2 sec')",
    ),
    "groups beside a partition": within(f"from S#window.length(3) {selected('sum(d)', 'n')} {OUT}")
    + f"{DIST} from S[v > 1] {selected('sum(d)', 'distinctCount(v)')} group by k {OUT}"
    + f"{DIST} from S {selected('max(d)', 'min(n)')} group by k, b having y > 0l {OUT}"
    + f"{DIST} from S[v > 1] {selected('d', 'n')} {OUT}",
}  # fmt: skip


EVENTS = 44


def plan_of(text: str) -> QueryPlan:
    return build(analyse(parse(HEAD + text)))


def apps_of(plan: QueryPlan, stage: ProcessingStage) -> list[AnalysedApp]:
    return [analyse(stage_app(plan, instance_stage(stage, index))) for index in range(stage.parallel)]


class Instances:
    """The instances of a stage, each with the events that are routed to it."""

    def __init__(self, plan: QueryPlan, parallel: int, states: list[bytes] | None = None) -> None:
        (stage,) = plan.processors
        self.plan, self.stage = plan, replace(stage, parallel=parallel)
        self.rows: list[tuple[Any, ...]] = []
        self.runtimes = [AppRuntime(app) for app in apps_of(plan, self.stage)]
        for index, runtime in enumerate(self.runtimes):
            if states is None:
                runtime.start(0)
            else:
                runtime.restore(states[index])
            runtime.add_stream_callback("Out", self._take)
        self._computed = {
            one.stream.id: ComputedKeys(plan, self.stage, one, ScriptPolicy())
            for one in self.stage.inputs
            if one.grouping.kind in (GroupingKind.EXPRESSION, GroupingKind.RANGES)
        }

    def _take(self, batch: pa.RecordBatch) -> None:
        self.rows.extend((row["_timestamp"], row["k"], row["x"], row["y"]) for row in batch.to_pylist())

    def send(self, time_ms: int, stream: str, batch: pa.RecordBatch) -> None:
        for runtime in self.runtimes:
            runtime.advance_time(time_ms)
        for index, part in self._shares(stream, batch):
            self.runtimes[index].send(stream, part)

    def _shares(self, stream: str, batch: pa.RecordBatch) -> Iterator[tuple[int, pa.RecordBatch]]:
        inputs = {one.stream.id: one.grouping for one in self.stage.inputs}
        if stream not in inputs:
            return
        count, grouping = self.stage.parallel, inputs[stream]
        if stream in self._computed and count > 1:
            yield from ((index, batch.filter(pa.array(mask))) for index, mask in self._computed[stream](batch, count))
        elif grouping.kind is GroupingKind.FIELDS:
            owners = key_hashes(batch.column(grouping.key)) % count
            yield from ((index, batch.filter(pa.array(owners == index))) for index in np.unique(owners).tolist())
        else:
            yield from ((index, batch) for index in range(count))

    def moved(self, parallel: int) -> Instances:
        """The same with another number of instances."""
        (stage,) = self.plan.processors
        stage = replace(stage, parallel=parallel)
        states = [runtime.snapshot() for runtime in self.runtimes]
        return Instances(self.plan, parallel, redistribute(states, apps_of(self.plan, stage), key_shares(stage)))


def events(generator: random.Random, count: int) -> Iterator[tuple[int, str, pa.RecordBatch]]:
    """Batches of up to five rows at growing times."""
    time_ms = 1_000
    for _ in range(count):
        time_ms += generator.choice([0, 10, 70, 400, 1_100])
        stream, rows = generator.choice("SSSRB"), generator.choice([1, 3, 5])
        columns: dict[str, pa.Array] = {"_timestamp": pa.array([time_ms] * rows, pa.int64())}
        if stream != "B":
            keys = [*"abcdefg", None]
            columns["k"] = pa.array([generator.choice(keys) for _ in range(rows)], pa.utf8())
            columns["d"] = pa.array(
                [generator.choice([0.5, -0.0, 0.0, 1e10, 3.25, None]) for _ in range(rows)], pa.float64()
            )
            columns["b"] = pa.array([generator.random() < 0.8 for _ in range(rows)])
            columns["n"] = pa.array([generator.choice([1, 2**40, -7]) for _ in range(rows)], pa.int64())
        columns["v"] = pa.array([generator.randrange(10) for _ in range(rows)], pa.int32())
        yield time_ms, stream, pa.record_batch(columns)


def by_key(rows: list[tuple[Any, ...]]) -> dict[Any, list[tuple[Any, ...]]]:
    found = defaultdict(list)
    for row in rows:
        found[row[1]].append(row)
    return found


@pytest.mark.thorough
@pytest.mark.parametrize("name", QUERIES)
def test_scaling_a_stage_anywhere_changes_no_answer(name: str) -> None:
    plan = plan_of(QUERIES[name])
    generator = random.Random(name)  # noqa: S311 - no secret
    whole, parts = Instances(plan, 1), Instances(plan, 2)
    rows: list[tuple[Any, ...]] = []
    counts = [3, 1, 2, 1]
    for number, (time_ms, stream, batch) in enumerate(events(generator, EVENTS)):
        if number % 12 == 11:
            rows += parts.rows
            parts = parts.moved(counts[number // 12 % len(counts)])
        for one in (whole, parts):
            one.send(time_ms, stream, batch)
    rows += parts.rows
    assert len(whole.rows) > 2
    assert Counter(map(repr, rows)) == Counter(map(repr, whole.rows))
    if not name.endswith("key") and name != "ranges":
        assert by_key(rows) == by_key(whole.rows)


NEW = "from S#window.length(5) select k, v insert into Extra;"
"""A query that comes to those of a plan."""


@pytest.mark.thorough
@pytest.mark.parametrize("name", QUERIES)
def test_what_is_the_same_in_an_edited_stage_changes_no_answer_when_the_stage_is_scaled_too(name: str) -> None:
    before, after = ((2, 3), (3, 1), (1, 2))[len(name) % 3]
    plan = plan_of(QUERIES[name])
    edited = plan_of(QUERIES[name].replace("end;", f"{NEW} end;", 1))
    generator = random.Random(name)  # noqa: S311 - no secret
    whole, parts = Instances(plan, 1), Instances(plan, before)
    given = list(events(generator, EVENTS))
    for time_ms, stream, batch in given[:30]:
        for one in (whole, parts):
            one.send(time_ms, stream, batch)
    (stage,) = edited.processors
    states = {f"g#{index}": {ENGINE: runtime.snapshot()} for index, runtime in enumerate(parts.runtimes)}
    shared = rescaled(Topology(KEY, EPOCH, edited, 1), replace(stage, parallel=after), states, ScriptPolicy())
    assert shared.left == ()
    again = Instances(edited, after, [state[ENGINE] for state in shared.states])
    for time_ms, stream, batch in given[30:]:
        for one in (whole, again):
            one.send(time_ms, stream, batch)
    assert Counter(map(repr, [*parts.rows, *again.rows])) == Counter(map(repr, whole.rows))
