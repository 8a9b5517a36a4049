"""Stages run scripts only where the driver's configuration allows them, and in a process of their own."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
import pytest
from topology_builders import KEY, open_links

from query_plan.builder import build
from query_plan.xml import read_xml, write_xml
from siddhi.analysis.analyser import analyse
from siddhi.analysis.catalogue import builtin_registry
from siddhi.engine.app_runtime import AppRuntime
from siddhi.errors import SiddhiAnalysisError
from siddhi.language.parser import parse
from siddhi.scripts.language import ScriptPolicy
from siddhi.testing import record_batch
from topology.events.bundle import Bundle
from topology.model import Topology
from topology.stages.kinds.processor import Processor
from topology.stages.routes.partition_keys import ComputedKeys
from topology.stages.settings import ScriptProcessSettings, StageSettings
from topology.stages.tasks.script_runner import PlanScripts

PLAN = """
@Plan:name('P') @Import('A:1.0.0') define stream A (number long);
@Export('Out:1.0.0') define stream Out (number long);
define function twice[python] return long { return 2 * data[0] };
@info(name='q') from A select twice(number) as number insert into Out;
"""


def processor(settings: StageSettings) -> Processor:
    plan = read_xml(write_xml(build(analyse(parse(PLAN)))))
    (stage,) = plan.processors
    emitted: list[Bundle] = []
    return Processor(f"{stage.name}#0", Topology(KEY, 1, plan, 1), stage, emitted.append, settings)


def test_a_stage_refuses_scripts_unless_its_settings_allow_them() -> None:
    with pytest.raises(SiddhiAnalysisError) as refused:
        processor(StageSettings())
    assert "stages.script.python: true in the driver's configuration" in (refused.value.problems[0].hint or "")
    processor(StageSettings(script={"python": True}))


def test_events_that_fail_are_counted_by_kind_and_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    text = PLAN.replace("2 * data[0]", "int(100 / data[0])")
    plan = read_xml(write_xml(build(analyse(parse(text)))))
    (stage,) = plan.processors
    settings = StageSettings(script={"python": True})
    failing = Processor(f"{stage.name}#0", Topology(KEY, 1, plan, 1), stage, [].append, settings)
    failing.open(1_000)
    open_links(failing, 1_000)
    batch = pa.RecordBatch.from_pydict({"number": pa.array([0, 1, 0, 2] * 50, pa.int64())})
    for ticket in range(100):
        bundle = Bundle("A", "A", ticket, "A", ("A",), 1_000, idle=True, batches=(("A", batch),))
        failing.on_bundle(bundle, 1_000 + ticket)
    report = failing.statistics.report(failing.name, ())
    (error,) = report.failures
    assert (error.code, error.count, error.first_ms, error.last_ms) == ("events-dropped", 10_000, 1_000, 1_099)
    assert error.text.startswith("stream A, query q: ")
    assert report.errors == 10_000
    assert len([one for one in caplog.records if "events failed" in one.message]) == 1


GUARDED = """
@Plan:name('P') @Import('A:1.0.0') @OnError(action='STREAM') define stream A (number long);
@Export('Out:1.0.0') define stream Out (number long);
@Export('Bad:1.0.0') define stream Bad (number long, _error object);
define function same[LANGUAGE] return long { BODY };
@info(name='q') from A select same(number) as number insert into Out;
@info(name='r') from !A select number, _error insert into Bad;
"""


@pytest.fixture
def scripts() -> Iterator[PlanScripts]:
    found = PlanScripts(ScriptProcessSettings(cpu_ms=200))
    yield found
    found.close()


@pytest.mark.parametrize(
    ("language", "body"),
    [
        ("python", "\n while data[0] == 3:\n  pass\n return data[0]\n"),
        ("javascript", ("let o = {}; for (let i = 0; i < 2e4; i++) o['k' + i] = i;"
                       "while (data[0] === 3) ({...o}); return data[0];")),
    ],
)  # fmt: skip
def test_a_script_that_is_stopped_fails_its_event_and_the_rest_of_the_batch_goes_on(
    scripts: PlanScripts, language: str, body: str
) -> None:
    plan = read_xml(write_xml(build(analyse(parse(GUARDED.replace("LANGUAGE", language).replace("BODY", body))))))
    (stage,) = plan.processors
    emitted: list[Bundle] = []
    settings = StageSettings(script={language: True})
    stage_instance = Processor(
        f"{stage.name}#0", Topology(KEY, 1, plan, 1), stage, emitted.append, settings, script_runner=scripts
    )
    stage_instance.open(1_000)
    open_links(stage_instance, 1_000)
    emitted.clear()
    batch = pa.RecordBatch.from_pydict({"number": pa.array(range(6), pa.int64())})
    bundle = Bundle("A", "A", 0, "A", ("A",), 1_000, idle=True, batches=(("A", batch),))
    stage_instance.on_bundle(bundle, 1_000)
    found = {stream: rows for one in emitted for stream, rows in one.batches}
    assert found["Out"]["number"].to_pylist() == [0, 1, 2, 4, 5]
    assert found["Bad"]["number"].to_pylist() == [3]
    (error,) = found["Bad"]["_error"].to_pylist()
    assert b"'same': it took more than 200 ms of processor time for one event" in error
    assert stage_instance.functions == {"same"}
    assert [(name, count) for name, count, _ in scripts.stopped()] == [("same", 1)]


def test_scripts_answer_the_same_in_the_process_of_the_engine_and_in_their_own(scripts: PlanScripts) -> None:
    text = """
        @OnError(action='STREAM') define stream S (a int, b double, c string);
        define function nested[python] return object {
            return {'a': [data[0], None], data[0]: {1}, 'c': data[2]}
        };
        define function length[python] return int { return len(data[0]['c']) };
        define function text[javascript] return string { return [data[0], data[1], data[2]].join('|'); };
        define function half[python] return string { return chr(0xd800) + data[0] };
        define function large[python] return string { return 2 ** 70 + data[0] };
        define function wrong[python] return int { return 'x' };
        from S select nested(a, b, c) as n, length(nested(a, b, c)) as l, text(a, b, c) as t, half(c) as h,
            large(a) as g, js:eval('2 + 3', 'int') as e insert into Out;
        from S[a == 2] select wrong(a) as w insert into Other;
        from !S select a, _error insert into Bad;
    """
    answers = []
    for runner in (None, scripts):
        app = analyse(parse(text), builtin_registry(script_runner=runner))
        runtime, found = AppRuntime(app), []
        for stream in ("Out", "Bad"):
            runtime.add_stream_callback(stream, lambda batch, found=found: found.extend(batch.to_pylist()))
        runtime.start(0)
        rows = [(1, 0.5, "x"), (2, None, "\u00e9\U0001f600"), (3, 1e300, None), (None, 2.0, "")]
        events = [{"timestamp": 1, "data": list(row)} for row in rows]
        runtime.send("S", record_batch(app.streams["S"].schema, events), 1)
        answers.append(found)
    here, there = answers
    assert there == here
    assert len(here) > 4


def test_keys_that_are_computed_by_a_script_are_limited_too(scripts: PlanScripts) -> None:
    text = """
        @Plan:name('P') @Import('A:1.0.0') define stream A (number long);
        @Export('Out:1.0.0') define stream Out (number long);
        define function key[python] return string {
            while data[0] == 3:
                pass
            return 'k' + str(data[0] % 2)
        };
        @dist(parallel='2') partition with (key(number) of A) begin
        from A select number insert into Out; end;
    """
    plan = read_xml(write_xml(build(analyse(parse(text)))))
    (stage,) = plan.processors
    keys = ComputedKeys(plan, stage, stage.inputs[0], ScriptPolicy(), scripts)
    shares = dict(keys(pa.RecordBatch.from_pydict({
        "_timestamp": pa.array([1] * 6, pa.int64()), "number": pa.array(range(6), pa.int64())
    }), 2))  # fmt: skip
    owners = [next(index for index, mask in shares.items() if mask[row]) for row in range(6)]
    assert owners[0] == owners[2] == owners[4]
    assert owners[1] == owners[5]
    assert owners[3] == 0, "a row without a key goes to the first instance"
    assert [(name, count) for name, count, _ in scripts.stopped()] == [("key", 1)]
