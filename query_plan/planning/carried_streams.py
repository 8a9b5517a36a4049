"""Streams that Kafka carries, and their topics: `@App:transport('kafka')`.

    group one ──▶ publisher ──▶ sink ──▶ topic App.S ──▶ source ──▶ receiver ──▶ group two

A stream that one group writes and another reads goes through a topic. A stream without a producer gets a source, one
without a consumer a sink.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import Literal

from cep_common.protocol.registry import Connector
from query_plan.annotations import EXPORTING, IMPORTING, Header, named, transport_of
from query_plan.components.bindings import PlanBindings, imported_by_default
from query_plan.components.members import Member
from query_plan.model import GroupingKind
from query_plan.planning.groups import ExecutionGroup
from siddhi.analysis import model

LONGEST_TOPIC = 249
"""What Kafka allows."""
_NO_PART_OF_A_TOPIC = re.compile(r"[^A-Za-z0-9._-]")

Use = Literal["between", "in", "out"]
"""From group to group, from outside into the plan, or from the plan to the outside."""


@dataclass(frozen=True, slots=True)
class CarriedStream:
    """A stream that a topic carries.

    Messages with the same value of attribute `key` (empty: none) go to the same of the `partitions`.
    """

    stream: str
    topic: str
    use: Use
    key: str = ""
    partitions: int = 1


def carried_streams(
    app: model.AnalysedApp,
    header: Header,
    members: tuple[Member, ...],
    groups: tuple[ExecutionGroup, ...],
    bindings: PlanBindings,
) -> tuple[CarriedStream, ...]:
    """Return the streams that Kafka carries, in order of definition; none for a plan with another transport."""
    if transport_of(header.transport) != "kafka":
        return ()
    imported = {one.stream.id for one in bindings.imported}
    exported = {one.stream.id for one in bindings.exported}
    fed = set(imported_by_default(app, members))
    fed -= {name for name in fed if _has(app, name, IMPORTING)}
    found = []
    for name in app.streams:
        writers = [group for group in groups if name in group.streams_written]
        readers = [group for group in groups if name in group.streams_read and _takes(group, writers)]
        if name in app.triggers or name.startswith(("#", "!")):
            continue
        if name in fed:
            found.append(_carried(header.name, name, "in", readers))
        elif writers and not any(name in group.streams_read for group in groups):
            if not _has(app, name, EXPORTING):
                found.append(CarriedStream(name, topic_name(header.name, name), "out"))
        elif readers and not _stays_direct(name, writers, readers, imported, exported):
            found.append(_carried(header.name, name, "between", readers))
    return tuple(found)


def direct_streams(
    header: Header, groups: tuple[ExecutionGroup, ...], bindings: PlanBindings, carried: Collection[str]
) -> Iterator[str]:
    """Yield the streams between groups that cannot use a topic, since the plan also feeds them in another way.

    There are none for a plan whose transport is not Kafka.
    """
    if transport_of(header.transport) != "kafka":
        return
    imported = {one.stream.id for one in bindings.imported}
    exported = {one.stream.id for one in bindings.exported}
    for name in dict.fromkeys(name for group in groups for name in sorted(group.streams_written)):
        writers = [group for group in groups if name in group.streams_written]
        readers = [group for group in groups if name in group.streams_read and _takes(group, writers)]
        if readers and name not in carried and _stays_direct(name, writers, readers, imported, exported):
            yield name


def topic_name(app: str, stream: str, key: str = "") -> str:
    """Return `App.Stream`, or `App.Stream.key`; characters that Kafka does not allow become `_`."""
    return ".".join(_NO_PART_OF_A_TOPIC.sub("_", part) for part in (app, stream, key) if part)


def generated_connectors(carried: Collection[CarriedStream], kind: Literal["source", "sink"]) -> tuple[Connector, ...]:
    """Return the sources or sinks of the topics; the manager's configuration adds the brokers' addresses."""
    if kind == "source":
        return tuple(
            Connector(
                one.stream, "kafka", {"topic.list": one.topic, "group.id": topic_group(one.topic)}, "json", {},
                carries=one.use == "between",
            )
            for one in carried if one.use != "out"
        )  # fmt: skip
    return tuple(
        Connector(
            one.stream, "kafka", {"topic": one.topic} | ({"key": f"{{{{{one.key}}}}}"} if one.key else {}),
            # Events that are read again keep their time.
            "ndjson" if one.use == "between" else "json", {}, carries=one.use == "between",
        )
        for one in carried if one.use != "in"
    )  # fmt: skip


def topic_group(topic: str) -> str:
    """Return the consumer group of the source that the planner makes for `topic`."""
    return f"cep.{topic}"


def _takes(group: ExecutionGroup, writers: list[ExecutionGroup]) -> bool:
    """Return whether the group gets a stream of these writers from another group."""
    return any(writer is not group for writer in writers) if writers else True


def _stays_direct(
    name: str,
    writers: list[ExecutionGroup],
    readers: list[ExecutionGroup],
    imported: Collection[str],
    exported: Collection[str],
) -> bool:
    """Return whether a topic would mix events that the plan must distinguish.

    A group that writes the stream keeps its own events inside, and would read them again together with those of others.
    Events from a source of the plan for a sink of the plan would return to that sink.
    """
    if not writers:
        return True
    return any(reader in writers for reader in readers) or (name in imported and name in exported)


def _carried(app: str, name: str, use: Use, readers: list[ExecutionGroup]) -> CarriedStream:
    """Return the stream with as many partitions as its readers may have instances, if they need no total order.

    Readers with one key get the events of each key in order. With different keys, or if all events must stay in order,
    there is one partition.
    """
    asked = [(group, group.groupings.get(name)) for group in readers]
    keys = {one.key or "" for _, one in asked if one is not None and one.kind is GroupingKind.FIELDS}
    loose = (GroupingKind.SHUFFLE, GroupingKind.FIELDS)
    ordered = any(group.shares_state or one is None or one.kind not in loose for group, one in asked)
    if ordered or len(keys) > 1:
        return CarriedStream(name, topic_name(app, name), use)
    key = next(iter(keys), "")
    partitions = max((group.most for group in readers), default=1)
    return CarriedStream(name, topic_name(app, name, key), use, key, partitions)


def _has(app: model.AnalysedApp, stream: str, annotations: tuple[str, ...]) -> bool:
    syntax = app.streams[stream].syntax
    return syntax is not None and any(True for _ in named(syntax.annotations, *annotations))
