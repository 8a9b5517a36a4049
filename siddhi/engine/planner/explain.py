"""Explain how the queries of a running app work: their operators, and the choices that were ruled out."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from siddhi.engine.operators.base.choices import Execution
from siddhi.engine.operators.base.operator import Stateful
from siddhi.engine.operators.tables.writer import TableWriter
from siddhi.engine.planner.costs import COSTS
from siddhi.engine.planner.query import QueryNode
from siddhi.engine.tuning import EXPLAIN_BATCH_ROWS
from siddhi.explanation import ExplainedOperator, ExplainedQuery, RuledOut

_SLOW = (Execution.EVENTS, Execution.KEYS, Execution.CHUNKS)


def explain_query(query: QueryNode, obstacles: Mapping[str, str], shared: str) -> ExplainedQuery:
    """Return how `query` runs.

    `obstacles` are the reasons why events of a stream from outside that reach it are processed one by one; `shared`
    names the queries with which it shares work.
    """
    operators = tuple(_operators(query))
    warnings = [f"events of {stream} are processed one by one: {reason}" for stream, reason in obstacles.items()]
    warnings.extend(
        f"{operator.operator} works {operator.execution} in Python"
        for operator in operators
        if Execution(operator.execution) in _SLOW
    )
    if query.choices.row_calls:
        names = ", ".join(query.choices.row_calls)
        warnings.append(f"called in Python for each event, or each different value: {names}")
    costs = [(one.event_ns, one.batch_us) for one in operators if one.event_ns is not None and one.batch_us is not None]
    event_ns = single_us = None
    if len(costs) == len(operators):
        single_us = sum(event / 1_000 + batch for event, batch in costs)
        event_ns = (
            1_000 * single_us
            if obstacles
            else sum(event + 1_000 * batch / EXPLAIN_BATCH_ROWS for event, batch in costs)
        )
    return ExplainedQuery(query.name, operators, shared, event_ns, single_us, tuple(warnings))


def parts_of(query: QueryNode) -> Iterator[tuple[str, Stateful | TableWriter]]:
    """Yield the operators of `query` in the order in which events pass them, each with its part of the query."""
    if query.head is not None:
        yield "input", query.head
    for operator in query.chain:
        yield "input", operator
    yield "selection", query.selector
    if query.limiter is not None:
        yield "output rate", query.limiter
    if query.writer is not None:
        yield "table", query.writer


def operator_name(operator: Stateful | TableWriter) -> str:
    """Return the name of an operator in explanations."""
    template = getattr(operator, "template", None)
    return type(operator).__name__ if template is None else f"{type(template).__name__} per key"


def cost_name(operator: Stateful | TableWriter) -> str:
    """Return the name of an operator in `COSTS`, which has an entry for each mode of operators with several modes."""
    name, execution = operator_name(operator), operator.execution
    return f"{name}, {execution.value}" if execution in _SLOW and "per key" not in name else name


def _operators(query: QueryNode) -> Iterator[ExplainedOperator]:
    ruled_out: dict[str, list[RuledOut]] = {}
    for (part, name), reason in query.choices.ruled_out.items():
        ruled_out.setdefault(part, []).append(RuledOut(name, reason))
    for part, operator in parts_of(query):
        name = operator_name(operator)
        event_ns, batch_us = COSTS.get(cost_name(operator), (None, None))
        others = tuple(ruled_out.pop(part, ()))  # a reason is shown with the first operator of its part
        yield ExplainedOperator(part, name, operator.execution.value, event_ns, batch_us, others)
