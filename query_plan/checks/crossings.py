"""Rules about what a stream loses between two execution groups: object types, chunks, order."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

from query_plan.components.elements import queries_of, sources
from query_plan.components.members import Member, Read
from query_plan.findings import Finding, error_rule, warning_rule
from query_plan.model import SHUFFLE
from query_plan.planning.groupings import grouping_of
from query_plan.planning.groups import ExecutionGroup
from query_plan.planning.survey import Survey
from siddhi.analysis import model
from siddhi.analysis.parts import parts_of
from siddhi.language import ast

OBJECT_CROSSES = error_rule(
    "object-across-groups",
    "a stream between two groups has an object that the plan creates; it is sent as JSON, in which a set is a list",
    "give both the same `execGroup`, or send the required values instead",
)
CHUNK_NEEDED = error_rule(
    "chunk-across-groups",
    "`order by`, `limit`, `offset` or `#window.batch()` uses events that arrive together, but they arrive from "
    "another group one by one",
    "give both the same `execGroup`",
)
CHUNK_COUNTED = warning_rule(
    "chunk-counted-singly",
    "an aggregate or `group by` reads events that another group emits several at a time; one engine would emit "
    "one result for all of them, "
    "several groups emit one for each",
    "give both the same `execGroup` if only the last result is wanted",
)
WAYS_UNORDERED = warning_rule(
    "ways-without-order",
    "a group with state reads two streams that derive from the same stream by different paths, so the order of "
    "two events with the same time "
    "is undefined",
    "if the order matters, give all groups on these paths the same `execGroup`",
)

_ONE_FOR_ONE = frozenset({("", "length"), ("", "time"), ("", "externalTime"), ("", "timeLength"), ("", "sort")})
"""Windows that emit each event as soon as it arrives, without other events."""


def objects_stay_in_one_group(plan: Survey) -> Iterator[Finding]:
    """Warn about objects that leave their group: they travel as JSON, so a set arrives as a list."""
    if not any(_makes_objects(member) for member in plan.members):
        return
    for reader in plan.groups:
        for read in reader.reads:
            attributes = plan.app.streams[read.stream].schema.attributes
            carried = next((name for name, type_ in attributes if type_ is ast.AttributeType.OBJECT), None)
            writer = next(_writers(plan, read.stream, reader), None)
            if carried is not None and writer is not None:
                yield OBJECT_CROSSES.broken(
                    f"{read.stream} carries the object {carried} from group {writer.name} to group {reader.name}, as"
                    " JSON, in which a set is a list",
                    f"give both the same execGroup, or let group {writer.name} send values instead of {carried}",
                    read.span,
                )


def chunks_end_at_their_group(plan: Survey) -> Iterator[Finding]:
    """Report queries that lose chunks at the end of their group.

    Events that leave a query together (those of a batch window, the matches of a join) are one chunk to the next
    query of the same engine. Between stages each event is a chunk of its own.
    """
    in_chunks = {id(group): _chunked_streams(group) for group in plan.groups}
    for group in plan.groups:
        chunked = {
            name: writer
            for name in group.streams_read
            for writer in _writers(plan, name, group)
            if name in in_chunks[id(writer)]
        }
        for query in _queries(group) if chunked else ():
            source = query.input
            if isinstance(source, model.SourceInput) and source.source in chunked:
                yield from _seen_singly(query, source, group, chunked[source.source])


def paths_keep_the_order(plan: Survey) -> Iterator[Finding]:
    """Report streams whose events may arrive out of order over paths of different length.

    One engine processes an event and its results in the order of the queries. Paths through other stages differ in
    length.
    """
    origins = _origins(plan)
    for group in plan.groups:
        outside = set(plan.inputs(group))
        kept = [one for one in group.reads if one.stream in outside and grouping_of(group, one.stream) != SHUFFLE]
        ways = {one.stream: tuple(writer.name for writer in _writers(plan, one.stream, group)) for one in kept}
        pair = _same_origin(kept, ways, origins)
        if pair is not None:
            one, other = pair
            common = origins[one.stream] & origins[other.stream]
            source = next(name for place, name in enumerate(plan.app.streams) if common >> place & 1)
            yield WAYS_UNORDERED.broken(
                f"group {group.name} reads {one.stream} and {other.stream}, which both derive from {source} "
                "by different paths: the order "
                f"of two events with the same time is undefined",
                "if the order matters, give all groups on these paths the same execGroup",
                other.span,
            )


def _same_origin(
    reads: list[Read], ways: dict[str, tuple[str, ...]], origins: dict[str, int]
) -> tuple[Read, Read] | None:
    """Return the first two of `reads` that derive from the same stream over different paths."""
    of_way: dict[tuple[str, ...], int] = {}
    for one in reads:
        of_way[ways[one.stream]] = of_way.get(ways[one.stream], 0) | origins[one.stream]
    seen = 0
    for mask in of_way.values():
        if seen & mask:
            break
        seen |= mask
    else:
        return None
    return next(
        (one, other)
        for one, other in itertools.combinations(reads, 2)
        if origins[one.stream] & origins[other.stream] and ways[one.stream] != ways[other.stream]
    )


def _origins(plan: Survey) -> dict[str, int]:
    """Return each stream's origins (itself and all streams it derives from) as bits in order of definition."""
    found = {name: 1 << place for place, name in enumerate(plan.app.streams)}
    before: dict[str, int] = {}
    order = _downstream(plan)
    while found != before:
        before = dict(found)
        for member in order:
            made_of = 0
            for read in member.reads:
                made_of |= found[read.stream]
            for name in member.writes:
                found[name] = found.get(name, 0) | made_of
    return found


def _downstream(plan: Survey) -> list[Member]:
    """Return the members, producers before consumers where there is no cycle, so that one pass finds most origins."""
    readers: dict[str, list[Member]] = {}
    for member in plan.members:
        for read in member.reads:
            readers.setdefault(read.stream, []).append(member)
    left: list[Member] = []
    seen: set[int] = set()
    for root in plan.members:
        path = [(root, iter([reader for name in root.writes for reader in readers.get(name, ())]))]
        while path:
            member, rest = path[-1]
            seen.add(id(member))
            following = next((one for one in rest if id(one) not in seen), None)
            if following is None:
                path.pop()
                left.append(member)
            else:
                path.append(
                    (following, iter([reader for name in following.writes for reader in readers.get(name, ())]))
                )
    return left[::-1]


def _writers(plan: Survey, stream: str, reader: ExecutionGroup) -> Iterator[ExecutionGroup]:
    return (group for group in plan.writers.get(stream, ()) if group is not reader)


def _queries(group: ExecutionGroup) -> Iterator[model.AnalysedQuery]:
    for member in group.members:
        if not isinstance(member.element, model.AnalysedAggregation):
            yield from queries_of(member.element)


def _makes_objects(member: Member) -> bool:
    return any(
        isinstance(part, model.Call | model.Aggregate) and part.type is ast.AttributeType.OBJECT
        for part in parts_of(member.element)
    )


def _seen_singly(
    query: model.AnalysedQuery, source: model.SourceInput, reader: ExecutionGroup, writer: ExecutionGroup
) -> Iterator[Finding]:
    selection, window = query.selection, source.window
    together = f"give both the same execGroup ('{writer.name}')"
    span = source.syntax.span if source.syntax else query.syntax.span
    found = f"{source.source} comes from group {writer.name} one event at a time, but group {reader.name}"
    slides = window is None or (window.namespace, window.name) in _ONE_FOR_ONE
    if window is not None and (window.namespace, window.name) == ("", "batch"):
        yield CHUNK_NEEDED.broken(f"{found} puts events that arrive together into a window", together, span)
    elif slides and (selection.order_by or selection.limit is not None or selection.offset is not None):
        yield CHUNK_NEEDED.broken(f"{found} sorts or limits events that arrive together", together, span)
    elif slides and (selection.aggregates or selection.group_by):
        yield CHUNK_COUNTED.broken(
            f"{source.source} comes from group {writer.name} one event at a time, even if several are produced "
            f"together: group {reader.name} "
            f"emits a result for each of them",
            f"if you need only the last one, {together}",
            span,
        )


def _chunked_streams(group: ExecutionGroup) -> frozenset[str]:
    """Return the streams to which a query of `group` may write several events at once."""
    handed_on: dict[str, list[str]] = {}
    waiting: list[str] = []
    for query in _queries(group):
        if query.output.kind is model.TargetKind.STREAM:
            chunks = _writes_chunks(query)
            if isinstance(chunks, str):
                handed_on.setdefault(chunks, []).append(query.output.target)
            elif chunks:
                waiting.append(query.output.target)
    found: set[str] = set()
    while waiting:
        stream = waiting.pop()
        if stream not in found:
            found.add(stream)
            waiting.extend(handed_on.get(stream, ()))
    return frozenset(found)


def _writes_chunks(query: model.AnalysedQuery) -> bool | str:
    """Return whether `query` writes several events at once, or the stream that it reads when that decides."""
    selection, current = query.selection, query.output.events is ast.EventType.CURRENT
    if query.rate is None and (selection.limit == 1 or (selection.aggregates and not selection.group_by and current)):
        return False
    (source,) = sources(query)[:1]
    if query.rate is not None or source is not query.input or source.kind is model.SourceKind.WINDOW:
        return True
    window = source.window
    if window is not None and (not current or (window.namespace, window.name) not in _ONE_FOR_ONE):
        return True
    return source.source
