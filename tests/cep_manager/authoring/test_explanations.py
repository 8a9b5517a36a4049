"""A process with the engine tells the manager how a plan runs."""

from __future__ import annotations

from typing import cast

import msgspec
import pytest

from cep_manager.authoring import explanations
from cep_manager.authoring.explanations import Explanations
from cep_manager.authoring.processes import BoundedProcesses
from cep_manager.config import TrialConfig
from cep_manager.errors import TrialFailedError, TrialsBusyError
from query_plan.examination import examine
from siddhi.explanation import PlanExplanation
from siddhi.scripts.language import ScriptPolicy
from topology.plan_explanation.messages import ExplainAnswer, ExplainRefused, ExplainRequest

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


class Counted:
    """Answers with the name of a plan, which is the text of the request, and notes that it was asked."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    def answer(self, module: str, request: bytes, smaller: str, timeout_ms: int) -> bytes:
        text = msgspec.json.decode(request, type=ExplainRequest).query_plan
        self.asked.append(text)
        answer: ExplainAnswer = ExplainRefused("no") if text == "refused" else PlanExplanation(text, ())
        return msgspec.json.encode(answer)


def test_a_plan_that_is_looked_at_again_starts_no_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """Viewers' requests cost next to nothing then. What was refused may work later."""
    monkeypatch.setattr(explanations, "MOST_KEPT", 2)
    counted = Counted()
    explained = Explanations(TrialConfig(), ScriptPolicy(), cast("BoundedProcesses", counted))
    for text in ("a", "a", "b", "a", "c", "a", "b"):
        assert explained.explain(text).plan == text
    for _ in range(2):
        with pytest.raises(TrialFailedError):
            explained.explain("refused")
    assert counted.asked == ["a", "b", "c", "b", "refused", "refused"]
    for _ in range(2):
        explained.explain("x" * explanations.MOST_KEPT_BYTES)
    assert len(counted.asked) == 8, "what is large is not kept"
