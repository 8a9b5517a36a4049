"""Describe a query plan in words: its stages, their queries and inputs, and possible bottlenecks."""

from __future__ import annotations

from collections.abc import Iterator

from query_plan.annotations import written_name
from query_plan.hints import hints, instances
from query_plan.model import GroupingKind, Link, ProcessingStage, QueryPlan
from query_plan.xml import partition_text
from siddhi.language import ast


def explain(plan: QueryPlan) -> str:
    """Return `plan` as text, one block for each stage, then hints; there is no line break at the end."""
    clock = "event time" if plan.playback is not None else "the system clock"
    groups = len(plan.processors)
    lines = [f"{plan.name}: {groups} execution {'group' if groups == 1 else 'groups'}, driven by {clock}"]
    lines.append(f"  {_slots(plan)}")
    if plan.description:
        lines.append(f"  {plan.description}")
    lines += ["", _title(plan.receiver.name, plan.receiver.parallel)]
    lines += [f"  gives  {stream.id}" for stream in plan.receiver.streams]
    for trigger in plan.triggers:
        lines += ["", _title(trigger.name, 1), f"  gives  {trigger.name}, by its trigger"]
    for stage in plan.processors:
        lines += ["", *_stage(plan, stage)]
    lines += ["", _title(plan.publisher.name, plan.publisher.parallel)]
    lines += [f"  takes  {link.stream} from {link.producer}" for link in _links_to(plan, plan.publisher.name)]
    found = tuple(hints(plan))
    if found:
        lines += ["", "Hints", *(line for hint in found for line in (f"  {hint.message}", f"    {hint.change}"))]
    return "\n".join(lines)


def _slots(plan: QueryPlan) -> str:
    """Return a description of the slots that the plan takes."""
    spread = f"{instances(plan)} component instances"
    cores = plan.resources.cores
    if plan.workers is None and cores > 1:
        return f"takes {cores} slots for each task, as many tasks as the configuration says, for {spread}"
    if plan.workers is not None and cores > 1:
        return f"takes {plan.workers * cores} slots, {cores} for each of {plan.workers} tasks, for {spread}"
    if plan.workers is None:
        return f"takes as many slots as the configuration says (topology.workers), for {spread}"
    return f"takes {plan.workers} {'slot' if plan.workers == 1 else 'slots'}, for {spread}"


def _stage(plan: QueryPlan, stage: ProcessingStage) -> Iterator[str]:
    yield _title(stage.name, stage.parallel) + (", cannot have more" if stage.enforce_parallel else "")
    for link in _links_to(plan, stage.name):
        yield f"  takes  {link.stream} from {link.producer}, {_share(link, stage.parallel)}"
    kept: tuple[ast.Definition, ...] = (*stage.tables, *stage.windows, *stage.aggregations)
    for definition in kept:
        yield f"  keeps  {definition.id}"
    for element in stage.elements:
        yield f"  runs   {_element(element)}"
    for stream in stage.outputs:
        yield f"  gives  {stream.id}"


def _title(name: str, parallel: int) -> str:
    return f"{name} ({parallel} {'instance' if parallel == 1 else 'instances'})"


def _links_to(plan: QueryPlan, consumer: str) -> tuple[Link, ...]:
    return tuple(link for link in plan.links() if link.consumer == consumer)


def _share(link: Link, parallel: int) -> str:
    kind = link.grouping.kind
    if kind in (GroupingKind.FIELDS, GroupingKind.EXPRESSION, GroupingKind.RANGES):
        return f"{kind.value}({partition_text(link.grouping)})"
    return kind.value if parallel > 1 or kind is not GroupingKind.ALL else "all, to its only instance"


def _element(element: ast.ExecutionElement) -> str:
    name = written_name(element.annotations)
    kind = "partition" if isinstance(element, ast.Partition) else "query"
    if isinstance(element, ast.Partition):
        inside = (written_name(query.annotations) for query in element.queries)
        return f"{kind} {name.text if name else ''} with {', '.join(one.text for one in inside if one)}"
    return f"{kind} {name.text if name else ''}"
