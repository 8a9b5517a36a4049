"""A process with the engine tells the manager how a plan runs."""

from __future__ import annotations

import pytest

from cep_manager.authoring.explanations import Explanations
from cep_manager.authoring.processes import BoundedProcesses
from cep_manager.config import TrialConfig
from cep_manager.errors import TrialsBusyError
from query_plan.examination import examine
from siddhi.scripts.language import ScriptPolicy

PLAN = """@app:name('Rooms') @app:playback
define stream Readings (room string, degrees double);
@info(name='means') @dist(execGroup='a')
from Readings#window.length(10) select room, avg(degrees) as mean group by room insert into Means;
@info(name='odd') @dist(execGroup='b') from Means#window.frequent(2, room) select room insert into Odd;
"""


def xml_of(text: str) -> str:
    compiled = examine(text).compiled
    assert compiled is not None
    return compiled.xml


@pytest.mark.thorough
def test_each_stage_is_explained_by_a_process() -> None:
    config, scripts = TrialConfig(), ScriptPolicy()
    found = Explanations(config, scripts, BoundedProcesses(config)).explain(xml_of(PLAN))
    assert found.plan == "Rooms"
    assert [(stage.stage, query.name) for stage in found.stages for query in stage.queries] == [
        ("a", "means"),
        ("b", "odd"),
    ]
    means, odd = (query for stage in found.stages for query in stage.queries)
    assert not means.warnings
    assert {one.execution for one in means.operators} == {"compiled"}
    assert all(one.operator for one in odd.operators)


def test_where_no_plans_are_tried_out_none_is_explained() -> None:
    config = TrialConfig(at_once=0)
    with pytest.raises(TrialsBusyError):
        Explanations(config, ScriptPolicy(), BoundedProcesses(config)).explain("<query-plan/>")
