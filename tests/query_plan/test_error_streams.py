"""Streams with `@OnError(action='STORE')`: each stage that reads one emits the events that fail in it."""

from __future__ import annotations

import json

import pyarrow as pa
import pytest

from cep_common.ids import PlanKey
from cep_manager.authoring.compiler import compiled_plan
from cep_worker.connector_runtime.sink_types import OF_COMPILER
from cep_worker.sinks.failed_events import ERROR_COLUMN, FailedEventSinkOptions
from query_plan.components.error_streams import SINK_TYPE, STREAM_OPTION
from query_plan.components.members import Member, members
from query_plan.examination import Compiled, examine
from query_plan.model import stage_app
from query_plan.xml import read_xml
from siddhi.analysis.analyser import analyse
from siddhi.analysis.definitions import FAULT_ATTRIBUTE
from siddhi.analysis.model import AnalysedApp
from siddhi.engine.app_runtime import AppRuntime
from topology.events.frames import event_rows
from topology.model import Topology

HEADER = "@Plan:name('P') "
STORED = "@Import('In:1.0.0') @OnError(action='STORE') define stream In (a int, b string);"
OUT = "@Export('Out:1.0.0') define stream Out (c long);"
TEXT = f"{STORED} {OUT} from In select 1L as c insert into Out;"


def compiled(text: str) -> Compiled:
    examined = examine(HEADER + text)
    assert examined.compiled is not None, examined.findings
    return examined.compiled


def ids(streams: object) -> list[str]:
    return [stream.id for stream in streams]  # type: ignore[attr-defined]


def test_the_stage_gives_failed_events_to_the_publisher_and_the_plan_has_a_sink_for_them() -> None:
    found = compiled(TEXT)
    (stage,) = found.plan.processors
    assert ids(stage.outputs) == ["Out", "In_errors"]
    assert ids(found.plan.publisher.streams) == ["Out", "In_errors"]
    told = compiled_plan(found)
    assert [(one.stream, one.event_stream) for one in told.exported][-1] == ("In_errors", "In_errors")
    assert told.exported[-1].attributes == (("a", "int"), ("b", "string"), ("_error", "object"))
    (sink,) = told.sinks
    assert (sink.stream, sink.type, sink.options) == ("In_errors", "error-store", {"stream": "In"})


def test_what_the_compiler_writes_and_what_workers_read_are_the_same_words() -> None:
    assert SINK_TYPE in OF_COMPILER
    assert FailedEventSinkOptions.__struct_fields__ == (STREAM_OPTION,)
    assert ERROR_COLUMN == FAULT_ATTRIBUTE


def test_the_plan_comes_through_its_xml_as_it_is() -> None:
    found = compiled(TEXT)
    assert read_xml(found.xml) == found.plan


def test_every_stage_that_takes_the_stream_in_has_its_own_query() -> None:
    found = compiled(
        f"{STORED} {OUT} @Export('Other:1.0.0') define stream Other (c long);"  # noqa: S608 - SiddhiQL
        "@dist(execGroup='one') from In select 1L as c insert into Out;"
        "@dist(execGroup='two', parallel='2') from In select 2L as c insert into Other;"
    )
    assert [ids(stage.outputs)[-1] for stage in found.plan.processors] == ["In_errors", "In_errors"]
    assert found.plan.producers("In_errors") == ("one", "two")
    Topology(PlanKey(1, "P"), 1, found.plan, 1).placement  # noqa: B018 - it can be laid out


def test_a_name_that_the_plan_uses_itself_is_left_alone() -> None:
    found = compiled(
        f"{STORED} @Export('X:1.0.0') define stream In_errors (c long);"
        "@info(name='In_errors_') from In select 1L as c insert into In_errors;"
    )
    assert ids(found.plan.publisher.streams) == ["In_errors", "In_errors__"]


def test_a_plan_may_read_the_fault_stream_itself_as_well() -> None:
    found = compiled(f"{TEXT} from !In select 2L as c insert into Out;")
    assert ids(found.plan.publisher.streams) == ["Out", "In_errors"]


@pytest.mark.parametrize("action", ["LOG", "STREAM"])
def test_other_actions_change_nothing(action: str) -> None:
    found = compiled(TEXT.replace("STORE", action))
    assert ids(found.plan.publisher.streams) == ["Out"]
    assert compiled_plan(found).sinks == ()


def test_a_stream_that_no_query_reads_has_nothing_to_store() -> None:
    text = TEXT.replace("define stream Out", "@OnError(action='STORE') define stream Out")
    assert ids(compiled(text).plan.publisher.streams) == ["Out", "In_errors"]


def test_the_engine_of_the_stage_gives_failed_events_with_query_and_message() -> None:
    found = compiled(
        f"{STORED} @Export('Out:1.0.0') define stream Out (c int);"
        "@info(name='Sums') from In select a + b as c insert into Out;"
    )
    (stage,) = found.plan.processors
    runtime = AppRuntime(analyse(stage_app(found.plan, stage)))
    told: list[pa.RecordBatch] = []
    runtime.add_stream_callback("In_errors", told.append)
    runtime.start(1)
    columns = {"_timestamp": pa.array([1, 2]), "a": pa.array([1, 2], pa.int32()), "b": pa.array([None, "x"], pa.utf8())}
    runtime.send("In", pa.record_batch(columns), 2)
    (row,) = [row for batch in told for row in event_rows(batch)]
    assert (row["_timestamp"], row["a"], row["b"]) == (2, 2, "x")
    assert json.loads(row["_error"])["query"] == "Sums"
    assert json.loads(row["_error"])["message"]


def test_the_query_stands_where_the_stream_is_defined_and_bindings_by_rule_do_not_speak_of_it() -> None:
    text = HEADER + TEXT.replace("@Import('In:1.0.0')", "\n").replace("@Export('Out:1.0.0')", "\n")
    examined = examine(text)
    assert examined.compiled is not None
    (component,) = [one for one in compiled_plan(examined.compiled).components if one.kind == "processor"]
    assert [(query.name, query.line) for query in component.queries][-1] == ("In_errors", 2)
    (said,) = [one.problem.message for one in examined.findings if one.problem.code == "bindings-by-default"]
    assert said.endswith("the plan imports In and exports Out")


def test_plans_are_looked_through_for_them_as_often_however_many_stages_they_have(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    looked: list[int] = []

    def counted(app: AnalysedApp) -> tuple[Member, ...]:
        looked.append(1)
        return members(app)

    monkeypatch.setattr("query_plan.planning.survey.members", counted)

    def looks(stages: int, stored: str) -> int:
        looked.clear()
        queries = (f"@dist(execGroup='g{one}') from In select 1L as c insert into Out;" for one in range(stages))
        compiled(f"{stored} {OUT} {' '.join(queries)}")
        return len(looked)

    assert looks(2, STORED) == looks(12, STORED) == 1
