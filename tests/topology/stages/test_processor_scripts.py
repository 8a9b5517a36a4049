"""The processing stage runs scripts only where the driver's configuration allows them."""

from __future__ import annotations

import pyarrow as pa
import pytest
from topology_builders import KEY, open_links

from query_plan.builder import build
from query_plan.xml import read_xml, write_xml
from siddhi.analysis.analyser import analyse
from siddhi.errors import SiddhiAnalysisError
from siddhi.language.parser import parse
from topology.events.bundle import Bundle
from topology.model import Topology
from topology.stages.kinds.processor import Processor
from topology.stages.settings import StageSettings

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
