"""What fails in the stages of a plan with `@OnError(action='STORE')` comes out of its publisher, each event once."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from in_process_topology import InProcessTopology

from query_plan.examination import examine
from topology.events.frames import arrow_schema
from topology.model import stream_schema
from topology.stages.settings import StageSettings

PLAN = """
@Plan:name('P') {header}
@Import('In:1.0.0') @OnError(action='STORE') define stream In (k string, a int, b string);
@OnError(action='STORE') define stream Mid (k string, a int, b string);
@Export('Out:1.0.0') define stream Out (k string, c int);
@Export('Sums:1.0.0') define stream Sums (k string, s long);
@info(name='pass') {pass_on} from In[a > 0] select k, a, b insert into Mid;
@info(name='first') {first} from In select k, a + b as c insert into Out;
@info(name='keyed') {keyed} partition with (k of Mid) begin
  @info(name='second') from Mid select k, sum(a + b) as s insert into Sums;
end;
"""
DISTRIBUTED = {
    "pass_on": "@dist(execGroup='pass', parallel='2')",
    "first": "@dist(execGroup='first', parallel='2')",
    "keyed": "@dist(execGroup='keyed', parallel='2')",
}
EVENTS: list[tuple[int, str, int, str | None]] = [
    (1, "x", 1, None),
    (2, "y", 0, "no"),
    (3, "x", 2, "no"),
    (4, "y", 3, "no"),
]


def failed(header: str, groups: dict[str, str]) -> list[tuple[str, Any]]:
    compiled = examine(PLAN.format(header=header, **groups)).compiled
    assert compiled is not None
    run = InProcessTopology(compiled.xml, StageSettings())
    schema = arrow_schema(stream_schema(run.topology.plan.receiver.streams[0]))
    run.open(1)
    for time_ms, k, a, b in EVENTS:
        row = {"_timestamp": time_ms, "_kind": 0, "k": k, "a": a, "b": b}
        run.send("In", pa.RecordBatch.from_pylist([row], schema=schema), time_ms)
        run.mark(time_ms)
    run.finish(10)
    run.close()
    return sorted((stream, row[:4]) for stream, row in run.out if stream.endswith("_errors"))


@pytest.mark.parametrize("header", ["", "@Plan:playback('true')"])
@pytest.mark.parametrize("groups", [dict.fromkeys(DISTRIBUTED, ""), DISTRIBUTED], ids=["one stage", "three in two"])
def test_each_stage_gives_what_failed_in_it(header: str, groups: dict[str, str]) -> None:
    first = [("In_errors", event) for event in EVENTS[1:]]
    second = [("Mid_errors", event) for event in EVENTS[2:]]
    assert failed(header, groups) == [*first, *second]
