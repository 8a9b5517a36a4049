"""The groups, topics and refusals of WSO2 SP's topology tests."""

from __future__ import annotations

from functools import partial

import pyarrow as pa
import pytest
from sp_topologies import FACTS, Fact

from query_plan.examination import examine
from query_plan.findings import Severity
from siddhi.engine.app_runtime import AppRuntime
from siddhi.testing import record_batch


def test_there_are_as_many_as_sp_has() -> None:
    assert len({one.test for one in FACTS}) == 18


@pytest.mark.parametrize("fact", FACTS, ids=lambda fact: fact.test)
def test_an_app_of_sp_has_its_groups_and_topics(fact: Fact) -> None:
    examined = examine(fact.app)
    errors = [one.problem.code for one in examined.findings if one.severity is Severity.ERROR]
    assert errors == ([fact.refused] if fact.refused else [])
    if examined.compiled is None:
        return
    plan = examined.compiled.plan
    between = {one.stream: (one.key, one.partitions) for one in examined.compiled.carried if one.use == "between"}
    assert {one.name: one.parallel for one in plan.processors} == fact.groups
    assert (between, plan.receiver.parallel) == (fact.topics, fact.receivers)


@pytest.mark.parametrize("fact", [one for one in FACTS if one.answers], ids=lambda fact: fact.test)
def test_an_app_of_sp_has_its_answers_on_one_engine(fact: Fact) -> None:
    compiled = examine(fact.app).compiled
    assert compiled is not None
    runtime = AppRuntime(compiled.app)
    found = dict.fromkeys(fact.answers, 0)

    def count(stream: str, batch: pa.RecordBatch) -> None:
        found[stream] += batch.num_rows

    for stream in found:
        runtime.add_stream_callback(stream, partial(count, stream))
    runtime.start(0)
    for stream, rows, *_ in (*fact.first, *fact.events):
        events = [{"stream": stream, "timestamp": 1, "data": list(row)} for row in rows]
        runtime.send(stream, record_batch(compiled.app.streams[stream].schema, events))
    assert found == fact.answers
