"""Previews a plan's text: its topology, its query plan, and a description of both."""

from __future__ import annotations

from cep_common.ids import PlanKey
from cep_manager.authoring.compiler import compiled_plan, examine_plan
from cep_manager.authoring.model import Preview
from cep_manager.graph.topology_graph import planned_graph
from query_plan.explain import explain
from siddhi.language.bounds import MOST_WORDS
from siddhi.scripts.language import ScriptPolicy


def preview_plan(tenant: int, text: str, scripts: ScriptPolicy, most_words: int = MOST_WORDS) -> Preview:
    """Preview the deployment of `text`. Raises PlanInvalidError with all its problems."""
    examined = examine_plan(text, scripts, most_words=most_words)
    compiled = compiled_plan(examined)
    return Preview(
        plan=compiled.name,
        graph=planned_graph(PlanKey(tenant, compiled.name), compiled),
        query_plan=compiled.query_plan,
        explanation=explain(examined.plan),
    )
