"""Hints where a query plan may be slow, and what to change. They depend on the plan alone, not on its placement."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from query_plan.model import GroupingKind, Link, ProcessingStage, QueryPlan
from siddhi.language import ast


@dataclass(frozen=True, slots=True)
class Hint:
    """`message` describes the bottleneck, `change` how to remove it."""

    message: str
    change: str


def hints(plan: QueryPlan) -> Iterator[Hint]:
    """Yield all hints, hot spots first, each kind in the order of the stages."""
    yield from _hot_spots(plan)
    yield from _broadcasts(plan)
    if plan.workers != 1:
        yield from _needless_ways(plan)
    yield from _idle_publishers(plan)


def instances(plan: QueryPlan) -> int:
    """Return how many component instances the plan has; more topology workers would be idle."""
    processors = sum(stage.parallel for stage in plan.processors)
    return plan.receiver.parallel + processors + len(plan.triggers) + plan.publisher.parallel


def _hot_spots(plan: QueryPlan) -> Iterator[Hint]:
    """Yield stages with one instance between parallel ones: all events pass through them."""
    parallel = {stage.name: stage.parallel for stage in plan.processors}
    pairs = [(link.producer, link.consumer) for link in plan.links()]
    for stage in plan.processors:
        if stage.parallel > 1:
            continue
        before = [one for one in _reached(pairs, stage.name, back=True) if parallel.get(one, 1) > 1]
        after = [one for one in _reached(pairs, stage.name, back=False) if parallel.get(one, 1) > 1]
        if before and after:
            most = max(parallel[one] for one in (*before, *after))
            yield Hint(
                f"hot spot: {stage.name} has one instance between {', '.join(before)} and {', '.join(after)}",
                _way_to_parallel(stage, most),
            )


def _way_to_parallel(stage: ProcessingStage, instances: int) -> str:
    kept: tuple[ast.Definition, ...] = (*stage.tables, *stage.windows, *stage.aggregations)
    if kept:
        return f"move queries that do not use {kept[0].id} into execution groups of their own"
    if stage.enforce_parallel:
        return f"put its queries into a partition by their key, with @dist(parallel='{instances}')"
    return f"write @dist(parallel='{instances}') on it: its queries keep no state"


def _broadcasts(plan: QueryPlan) -> Iterator[Hint]:
    for stage in plan.processors:
        for one in stage.inputs if stage.parallel > 1 else ():
            if one.grouping.kind is GroupingKind.ALL:
                yield Hint(
                    f"broadcast: every event of {one.stream.id} goes to all {stage.parallel} instances of {stage.name}",
                    f"if its events have the partition's key, name it in 'partition with (… of {one.stream.id})'",
                )


def _needless_ways(plan: QueryPlan) -> Iterator[Hint]:
    """Yield pairs of stages that could be one, so that events would not change slots."""
    for stage in plan.processors:
        feeding = [link for link in plan.links() if link.consumer == stage.name]
        producers = {link.producer for link in feeding}
        producer = next((one for one in plan.processors if producers == {one.name}), None)
        if producer is None or producer.parallel != stage.parallel:
            continue
        streams = ", ".join(link.stream for link in feeding)
        if stage.parallel == 1:
            yield Hint(
                f"between slots: {stage.name} reads only from {producer.name}, one instance each",
                f"give both the same execGroup: then {streams} stays in one engine",
            )
        elif _same_key(producer, feeding):
            yield Hint(
                f"between slots: {producer.name} and {stage.name} both distribute events by"
                f" {feeding[0].grouping.key}, one after the other",
                f"put the queries of both into one partition, with #{streams} between them",
            )


def _same_key(producer: ProcessingStage, feeding: list[Link]) -> bool:
    taken = {one.grouping for one in producer.inputs if one.grouping.kind is not GroupingKind.ALL}
    return len(feeding) == 1 and feeding[0].grouping.key is not None and taken == {feeding[0].grouping}


def _idle_publishers(plan: QueryPlan) -> Iterator[Hint]:
    feeding = {
        origin for link in plan.links() if link.consumer == plan.publisher.name for origin in _origins(plan, link)
    }
    made = sum(count for _, count in feeding)
    if feeding and plan.publisher.parallel > made:
        yield Hint(
            f"idle: {plan.publisher.name} has {plan.publisher.parallel} instances, but results come from {made}"
            f" {'instance' if made == 1 else 'instances'}, each of which keeps to one publisher",
            f"write publisherParallelism='{made}'",
        )


def _origins(plan: QueryPlan, link: Link) -> set[tuple[str, int]]:
    """Return (stage, instances) where the order of the link's events was made: stateless parallel stages keep it."""
    stage = next((one for one in plan.processors if one.name == link.producer), None)
    if stage is None:
        return {(link.producer, plan.receiver.parallel if link.producer == plan.receiver.name else 1)}
    if stage.parallel == 1 or {one.grouping.kind for one in stage.inputs} != {GroupingKind.SHUFFLE}:
        return {(stage.name, stage.parallel)}
    return {origin for one in plan.links() if one.consumer == stage.name for origin in _origins(plan, one)}


def _reached(pairs: list[tuple[str, str]], start: str, *, back: bool) -> list[str]:
    """Return the stages that events reach from `start`, or with `back` those from which they come, nearest first."""
    found: list[str] = []
    waiting = [start]
    for name in waiting:
        near = [
            producer if back else consumer for producer, consumer in pairs if (consumer if back else producer) == name
        ]
        waiting += [one for one in dict.fromkeys(near) if one not in waiting]
        found += [one for one in near if one not in found and one != start]
    return found
