"""The rule about conditions of joins and table searches that are not bools."""

from __future__ import annotations

from collections.abc import Iterator

from query_plan.components.elements import queries_of, syntax_of
from query_plan.findings import Finding, warning_rule
from query_plan.planning.survey import Survey
from siddhi.analysis import model
from siddhi.analysis.parts import parts_of
from siddhi.language.ast import AttributeType

NOT_A_CONDITION = warning_rule(
    "condition-not-a-bool",
    "`in`, or the `on` of a join, has a value that is not a bool, such as `k in T`; Siddhi accepts it, but every event "
    "fails",
    "compare the attribute, as in `T.k == k in T`",
)


def conditions_are_bools(plan: Survey) -> Iterator[Finding]:
    """Warn about conditions of joins and table searches that are not bools."""
    for element in plan.app.elements:
        for query in queries_of(element):
            for part in parts_of(query):
                found = _condition(part)
                if found is not None and found[1].type is not AttributeType.BOOL:
                    yield NOT_A_CONDITION.broken(
                        f"{found[0]} of {query.name} is of type {found[1].type.value}, not bool: every event fails",
                        "write a comparison, as in 'T.k == k in T'",
                        syntax_of(query).span,
                    )


def _condition(part: object) -> tuple[str, model.TypedExpression] | None:
    """Return what the condition of `part` belongs to, and the condition."""
    if isinstance(part, model.InTable):
        return f"the condition of 'in {part.table}'", part.condition
    if isinstance(part, model.Join) and part.on is not None:
        return "the condition of the join", part.on
    return None
