"""The processing stage runs scripts only where the driver's configuration allows them."""

from __future__ import annotations

import pytest
from topology_builders import KEY

from query_plan.builder import build
from query_plan.xml import read_xml, write_xml
from siddhi.analysis.analyser import analyse
from siddhi.errors import SiddhiAnalysisError
from siddhi.language.parser import parse
from topology.bundle import Bundle
from topology.model import Topology
from topology.stages.processor import Processor
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
