"""Conversion of events to a stream's attributes after an edit: attributes are matched by name and widened. Pure."""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa

from cep_common.protocol.links import StreamSchema
from siddhi.arrow_types import ARROW_TYPES_BY_NAME
from siddhi.column_names import KIND, TIMESTAMP, attribute_name, column_name
from topology.events.frames import arrow_schema

Attributes = tuple[tuple[str, str], ...]

WIDER: Mapping[str, frozenset[str]] = {
    "int": frozenset({"long", "float", "double"}),
    "long": frozenset({"float", "double"}),
    "float": frozenset({"double"}),
}
"""The types that can represent the values of a type, as Java widens them."""

_KINDS = {kind: name for name, kind in ARROW_TYPES_BY_NAME.items()}


def conversion_problem(had: Attributes, has: Attributes) -> str:
    """Return why events with the attributes `had` cannot be events with `has`; empty when they can."""
    before = dict(had)
    problems = [
        f"{name} was {before[name]} and is {kind} now"
        for name, kind in has
        if name in before and before[name] != kind and kind not in WIDER.get(before[name], frozenset())
    ]
    if not problems and had and has and before.keys().isdisjoint(dict(has)):
        problems = ["none of their attributes exists any more"]
    return "; ".join(problems)


def converted(events: pa.RecordBatch, attributes: Attributes) -> pa.RecordBatch:
    """Return the events with `attributes`, for which there is no `conversion_problem`.

    New attributes are null, and those that the stream no longer has are left out.
    """
    wanted = arrow_schema(StreamSchema("", attributes))
    if events.schema.equals(wanted):
        return events
    columns = [events.column(TIMESTAMP), events.column(KIND)]
    for name, _ in attributes:
        kind = wanted.field(column_name(name)).type
        at = events.schema.get_field_index(column_name(name))
        # Not safe by Arrow's measure: a long beyond 2^53 becomes the nearest double, as in Java.
        columns.append(pa.nulls(events.num_rows, kind) if at < 0 else events.column(at).cast(kind, safe=False))
    return pa.RecordBatch.from_arrays(columns, schema=wanted)


def attributes_of(schema: pa.Schema) -> Attributes:
    """Return the attributes of events with that schema (`arrow_schema`)."""
    return tuple((attribute_name(field.name), _KINDS[field.type]) for field in list(schema)[2:])
