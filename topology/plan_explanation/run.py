"""Build the engine of every stage of a plan, as a task would, and explain its queries."""

from __future__ import annotations

from query_plan.model import instance_stage, stage_app
from query_plan.xml import read_xml
from siddhi.analysis.analyser import analyse
from siddhi.analysis.catalogue import builtin_registry
from siddhi.engine.app_runtime import AppRuntime
from siddhi.errors import SiddhiError
from siddhi.explanation import ExplainedStage, PlanExplanation
from siddhi.scripts.language import ScriptPolicy
from topology.plan_explanation.messages import ExplainAnswer, ExplainRefused, ExplainRequest


def run_explanation(request: ExplainRequest) -> ExplainAnswer:
    """Return how the plan's queries run, or why that is unknown."""
    scripts = ScriptPolicy(frozenset(request.script_languages), "the configuration")
    try:
        return explain_plan(request.query_plan, scripts)
    except SiddhiError as error:
        return ExplainRefused(str(error))


def explain_plan(query_plan: str, scripts: ScriptPolicy) -> PlanExplanation:
    """Return how the queries of the plan in this XML run, by stage; the first instance represents all.

    Raises:
        SiddhiError: the engine does not run one of them.
    """
    plan = read_xml(query_plan)
    stages = []
    for stage in plan.processors:
        app = analyse(stage_app(plan, instance_stage(stage, 0)), builtin_registry(scripts))
        stages.append(ExplainedStage(stage.name, AppRuntime(app).explain().queries))
    return PlanExplanation(plan.name, tuple(stages))
