"""Instances that share a stream by a computed key answer together as one engine does."""

from __future__ import annotations

from collections import Counter

import pyarrow as pa
import pytest
from topology_builders import bundle

from query_plan.builder import build
from query_plan.model import QueryPlan, instance_stage, stage_app
from query_plan.xml import read_xml, write_xml
from siddhi.analysis.analyser import analyse
from siddhi.engine.app_runtime import AppRuntime
from siddhi.language.parser import parse
from siddhi.scripts.language import ScriptPolicy
from topology.grouping import split
from topology.stages.routes.partition_keys import ComputedKeys

ROWS = [(time, (time * 7) % 31) for time in range(200)]


def planned(key: str, parallel: int) -> QueryPlan:
    text = f"""@Plan:name('P') @Import('S:1.0.0') define stream S (number long);
    @Export('B:1.0.0') define stream B (number long, total long);
    @dist(execGroup='g', parallel='{parallel}') partition with ({key} of S) begin
    from S#window.length(3) select number, sum(number) as total insert into B; end;"""
    return read_xml(write_xml(build(analyse(parse(text)))))


def answers(plan: QueryPlan, instances: int) -> list[Counter[tuple[int, int]]]:
    """What each instance gives out for ROWS, sent in two bundles."""
    whole = plan.processor("g")
    keys = ComputedKeys(plan, whole, whole.inputs[0], ScriptPolicy.switched({}, ""))
    found: list[Counter[tuple[int, int]]] = [Counter() for _ in range(instances)]
    engines = []
    for index, counter in enumerate(found):
        engine = AppRuntime(analyse(stage_app(plan, instance_stage(whole, index))))

        def collect(batch: pa.RecordBatch, counter: Counter[tuple[int, int]] = counter) -> None:
            counter.update(zip(batch.column("number").to_pylist(), batch.column("total").to_pylist(), strict=True))

        engine.add_stream_callback("B", collect)
        engine.start()
        engines.append(engine)
    groupings = {"S": whole.inputs[0].grouping}
    for ticket, rows in enumerate((ROWS[:90], ROWS[90:])):
        shares = split(bundle(("S", rows), ticket=ticket), groupings, instances, True, {"S": keys})  # noqa: FBT003
        for engine, share in zip(engines, shares, strict=True):
            for stream, batch in share.batches if share is not None else ():
                engine.send(stream, batch)
    return found


@pytest.mark.parametrize(
    "key",
    [
        "number % 5",
        "number > 20 as 'high' or number <= 20 as 'low'",
        "number > 10 as 'many' or number < 25 as 'few' or number == 3 as 'three'",
        "number > 25 as 'high'",
    ],
)
def test_computed_keys_give_the_answer_of_one_engine(key: str) -> None:
    (alone,) = answers(planned(key, 1), 1)
    together = answers(planned(key, 3), 3)
    assert sum(together, Counter()) == alone
    assert alone


def test_instances_own_the_labels_of_ranges_in_turn() -> None:
    stage = planned("number > 20 as 'high' or number <= 20 as 'low'", 2).processor("g")
    assert [stage.owner(label) for label in stage.labels] == [0, 1]
    assert all(counter for counter in answers(planned("number > 20 as 'high' or number <= 20 as 'low'", 2), 2))
