"""Resolve external names of a tenant's streams, and check whether events fit them.

An event stream is named `Departures:1.0.0`; `Departures` suffices if there is one version, and
`KnockOnDelays/Departures` refers to the stream of that plan only, by its name in the plan or its external name. A name
only refers to streams of the tenant that uses it.
"""

from __future__ import annotations

import difflib
import logging
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import pyarrow as pa

from cep_common.errors import InputError
from cep_common.ids import PlanKey
from cep_common.protocol.links import StreamSchema
from cep_common.protocol.registry import StreamBinding
from topology.events.conversion import attributes_of, conversion_problem, converted
from topology.events.frames import arrow_schema

logger = logging.getLogger(__name__)

Attributes = tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class PlanStream:
    """An imported or exported stream of a plan, which may have event time."""

    key: PlanKey
    binding: StreamBinding
    event_time: bool = False

    def name(self) -> str:
        """Return a name such as `KnockOnDelays/Departures`."""
        return f"{self.key.plan}/{self.binding.stream}"


def lasting_name(stream: str, key: PlanKey) -> str:
    """Return the name of a stream of plan `key` that survives a rename of the plan.

    Persistent data, such as the read position in a file, is stored under it.
    """
    plan, slash, own = stream.rpartition("/")
    return f"{key.identity}/{own}" if slash and plan == key.plan else stream


@dataclass(frozen=True, slots=True)
class EventStream:
    """The stream that a name refers to, with the schema as the first of `members` defines it.

    All members have the same attributes, possibly in another order. One that `carries` events between execution groups
    of a plan accepts them even while the plan accepts no events from outside.
    """

    schema: StreamSchema
    members: tuple[PlanStream, ...]
    carries: bool = False

    def tenant(self) -> int:
        """Return the tenant, to which all members belong."""
        return self.members[0].key.tenant

    def has_event_time(self) -> bool:
        """Return whether a plan that gets the events has event time."""
        return any(one.event_time for one in self.members)

    def lasting_name(self) -> str:
        """Return its name, which survives a rename of its plan."""
        return lasting_name(self.schema.stream, self.members[0].key)


class StreamDirectory:
    """A directory of either all imported or all exported streams by name.

    It is unknown until a manager has sent the deployed plans. Immutable and so thread-safe.
    """

    def __init__(
        self, streams: Iterable[PlanStream] | None, renamed: Mapping[tuple[int, str], str] | None = None
    ) -> None:
        """Index the streams. `renamed` gives the present names of plans by tenant and former name."""
        self._is_known = streams is not None
        self._streams = tuple(streams or ())
        self._renamed = renamed or {}

    def present_name(self, tenant: int, former: str) -> str:
        """Return the present name of the plan that was named `former` before; empty if there is none."""
        return self._renamed.get((tenant, former), "")

    def named(self, key: PlanKey) -> PlanKey:
        """Return the plan that has the name of `key` now, or else `key`."""
        same = (one.key for one in self._of(key.tenant) if one.key.plan == key.plan)
        return next(same, key)

    def own(self, key: PlanKey, stream: str) -> EventStream:
        """Return the plan's stream of that name within the plan.

        Raises InputError `unknown-stream` or `starting`.
        """
        self._require_known()
        member = next((one for one in self._streams if one.key == key and one.binding.stream == stream), None)
        if member is None:
            raise InputError("unknown-stream", f"{key.plan} has no such stream {stream}")
        return EventStream(StreamSchema(member.name(), member.binding.attributes), (member,))

    def event_streams(self, tenant: int) -> list[EventStream]:
        """Return every event stream of `tenant`; one that plans define differently is returned once per plan."""
        found: list[EventStream] = []
        own = self._of(tenant)
        for name in sorted({member.binding.event_stream for member in own}):
            try:
                found.append(self.resolve(name, tenant))
            except InputError:
                found += [self.resolve(member.name(), tenant) for member in own if member.binding.event_stream == name]
        return found

    def resolve(self, name: str, tenant: int) -> EventStream:
        """Return what `tenant` means by `name`.

        InputError `unknown-stream`, `ambiguous-stream`, or `starting` otherwise.
        """
        self._require_known()
        own = self._of(tenant)
        members = [member for member in own if name == member.name()]
        members = members or [member for member in own if _means(name, member)]
        if not members:
            raise InputError("unknown-stream", f"there is no stream {name}; {self._advice(name, tenant)}")
        first = members[0]
        different = [member for member in members if not _same(member.binding, first.binding)]
        if different or ("/" in name and len(members) > 1):
            choices = ", ".join(sorted({f"{m.name()} ({m.binding.event_stream})" for m in members}))
            raise InputError("ambiguous-stream", f"{name} may mean several streams; name one of: {choices}")
        stream = first.binding.event_stream if "/" not in name else first.name()
        return EventStream(StreamSchema(stream, first.binding.attributes), tuple(members))

    def _require_known(self) -> None:
        if not self._is_known:
            raise InputError("starting", "the worker does not know the deployed plans yet; try again")

    def _of(self, tenant: int) -> list[PlanStream]:
        return [member for member in self._streams if member.key.tenant == tenant]

    def _advice(self, name: str, tenant: int) -> str:
        plan, slash, stream = name.rpartition("/")
        if slash and (present := self.present_name(tenant, plan)):
            return f"plan {plan} was renamed: use {present}/{stream}"
        known = sorted({member.binding.event_stream for member in self._of(tenant)})
        if not known:
            return f"no deployed plan of tenant {tenant} has such streams now"
        near = difflib.get_close_matches(name, known, n=1)
        return f"did you mean {near[0]}?" if near else f"known: {', '.join(known)}"


class SchemaFit:
    """Converts batches of a stream, from before or after an edit of its plan, to the attributes of consumers."""

    def __init__(self, attributes: Attributes) -> None:
        self._attributes = attributes
        self._schema = arrow_schema(StreamSchema("", attributes))

    def is_whole(self, batch: pa.RecordBatch) -> bool:
        """Return whether the batch has these attributes already."""
        return bool(batch.schema.equals(self._schema))

    def problem(self, batch: pa.RecordBatch) -> str:
        """Return why the batch cannot be converted; empty if it can."""
        return conversion_problem(attributes_of(batch.schema), self._attributes)

    def fitted(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return the converted batch, for which there is no `problem`."""
        return converted(batch, self._attributes)


def check_schema(offered: StreamSchema, defined: StreamSchema) -> None:
    """Every attribute is there once, with its type.

    InputError `schema-mismatch` lists all that is wrong.
    """
    problems = schema_problems(offered.attributes, defined.attributes)
    if problems:
        raise InputError("schema-mismatch", f"stream {defined.stream}: {'; '.join(problems)}")


def schema_problems(offered: Attributes, defined: Attributes) -> list[str]:
    """Return why events with attributes `offered` do not fit `defined`; the order does not matter."""
    types = dict(offered)
    expected = dict(defined)
    problems = [f"{name} is missing ({kind})" for name, kind in defined if name not in types]
    problems += [f"{name} is not an attribute of the stream" for name, _ in offered if name not in expected]
    problems += [
        f"{name} is {types[name]} where {kind} is defined"
        for name, kind in defined
        if name in types and types[name] != kind
    ]
    if len(types) != len(offered):
        problems.append("an attribute is given twice")
    return problems


def _means(name: str, member: PlanStream) -> bool:
    plan, separator, stream = name.rpartition("/")
    binding = member.binding
    if separator:
        return plan == member.key.plan and stream in (
            binding.stream,
            binding.event_stream,
            _unversioned(binding.event_stream),
        )
    return name in (binding.event_stream, _unversioned(binding.event_stream))


def _unversioned(event_stream: str) -> str:
    return event_stream.partition(":")[0]


def _same(one: StreamBinding, other: StreamBinding) -> bool:
    return one.event_stream == other.event_stream and sorted(one.attributes) == sorted(other.attributes)
