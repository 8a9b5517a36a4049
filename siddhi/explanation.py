"""Explanations of how the engine runs queries: the result of `AppRuntime.explain()`, shown by REST and console.

This module does not import the engine, so that the manager need not either.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import msgspec


class RuledOut(msgspec.Struct, frozen=True):
    """A faster operator, and the reason why it was not used."""

    operator: str
    reason: str


class ExplainedOperator(msgspec.Struct, frozen=True):
    """An operator of a query.

    `part` is its role: input, selection, output rate or table. `execution` is one of: compiled, whole batches, chunk by
    chunk, key by key, event by event. `event_ns` and `batch_us` are the measured costs of an event and of a batch; None
    where they are not known.
    """

    part: str
    operator: str
    execution: str
    event_ns: float | None
    batch_us: float | None
    ruled_out: tuple[RuledOut, ...] = ()


class ExplainedQuery(msgspec.Struct, frozen=True):
    """A query and its operators, in the order in which events pass them.

    `shared` names the other queries with which it shares work. `event_ns` is the expected cost of an event in batches
    of 4,096, `single_us` of a single event; None if the cost of an operator is unknown. `warnings` describe where
    Python code runs for each event, chunk or key.
    """

    name: str
    operators: tuple[ExplainedOperator, ...]
    shared: str
    event_ns: float | None
    single_us: float | None
    warnings: tuple[str, ...]


class AppExplanation(msgspec.Struct, frozen=True):
    """The queries of an app in text order."""

    queries: tuple[ExplainedQuery, ...]


class ExplainedStage(msgspec.Struct, frozen=True):
    """A stage of a plan's topology and its queries."""

    stage: str
    queries: tuple[ExplainedQuery, ...]


class PlanExplanation(msgspec.Struct, frozen=True, tag="explanation"):
    """The stages of a plan whose queries the engine runs."""

    plan: str
    stages: tuple[ExplainedStage, ...]


def explanation_text(stages: Iterable[ExplainedStage]) -> str:
    """Return `stages` as text, a paragraph for each query."""
    return "\n".join(line for stage in stages for line in _stage_lines(stage))


def _stage_lines(stage: ExplainedStage) -> Iterator[str]:
    for query in stage.queries:
        yield f"{stage.stage}: query {query.name}{_cost(query)}"
        for operator in query.operators:
            yield f"  {operator.part:<12} {operator.operator} ({operator.execution})"
            for other in operator.ruled_out:
                yield f"    not {other.operator}: {other.reason}"
        if query.shared:
            yield f"  {query.shared}"
        for warning in query.warnings:
            yield f"  warning: {warning}"


def _cost(query: ExplainedQuery) -> str:
    if query.event_ns is None or query.single_us is None:
        return ", cost not measured"
    return f", about {query.event_ns:,.0f} ns an event in large batches, {query.single_us:,.0f} us for a single one"
