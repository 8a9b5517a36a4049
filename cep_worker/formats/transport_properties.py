"""Transport properties: attributes whose values are sent as headers, declared as `trp:<name>` in `@attributes`.

@attributes(symbol='$.symbol', sender='trp:X-Sender')
            └── the mapper's ──┘   └── one value for all events of the body
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import msgspec
import pyarrow as pa

from cep_common.errors import ConfigError
from cep_common.protocol.links import StreamSchema
from cep_common.protocol.registry import Connector
from cep_worker.formats.rejections import InvalidEvent, events_rejected
from cep_worker.formats.text_columns import read_column
from query_plan.connectors.attribute_paths import PATHS, by_attribute, split_paths, transport_property
from topology.events.frames import arrow_schema

SECRET = frozenset({"authorization", "proxy-authorization", "cookie"})
"""Headers with the sender's credentials, which plans must not read."""


@dataclass(frozen=True, slots=True)
class SplitAttributes:
    """The attributes that the mapper reads from bodies, and the transport `properties` by their names."""

    connector: Connector
    body: StreamSchema
    properties: tuple[tuple[str, str], ...]


def split_attributes(connector: Connector, schema: StreamSchema, where: str) -> SplitAttributes:
    """Separate the properties from a connector's `@attributes`.

    Raises:
        ConfigError: a property that plans may not use, or no attribute is left for the body.
    """
    paths, others = split_paths(connector.mapper_options)
    if not any(transport_property(path) is not None for path in paths.values()):
        return SplitAttributes(connector, schema, ())
    names = [name for name, _ in schema.attributes]
    named = by_attribute(paths, names, where)
    properties = {name: header for name, path in named.items() if (header := transport_property(path)) is not None}
    for name, header in properties.items():
        if not header or header.lower() in SECRET:
            what = "contains credentials and is not available" if header else "names no property"
            raise ConfigError(f"{where}: @attributes: {name}: trp:{header} {what}")
    if len(properties) == len(names):
        raise ConfigError(f"{where}: @attributes: at least one attribute must come from the body")
    options = others | {f"{PATHS}.{name}": path for name, path in named.items() if name not in properties}
    found = tuple(properties.items())
    return SplitAttributes(
        msgspec.structs.replace(connector, mapper_options=options), body_schema(schema, found), found
    )


def body_schema(schema: StreamSchema, properties: tuple[tuple[str, str], ...]) -> StreamSchema:
    """Return the part of `schema` that bodies contain."""
    beside = dict(properties)
    return StreamSchema(schema.stream, tuple(one for one in schema.attributes if one[0] not in beside))


def with_properties(
    batch: pa.RecordBatch,
    schema: StreamSchema,
    properties: tuple[tuple[str, str], ...],
    given: Callable[[str], str | None],
) -> pa.RecordBatch:
    """Add the transport properties `given` to a batch that was read from a body.

    A property without a value is null.

    Raises:
        EventsRejectedError: a value does not fit its attribute.
    """
    wanted, sources = arrow_schema(schema), dict(properties)
    columns, misfits = [], []
    place = iter(batch.columns[len(wanted) - len(schema.attributes) :])
    for name, kind in schema.attributes:
        if name not in sources:
            columns.append(next(place))
            continue
        value, problems = read_column(kind, pa.array([given(sources[name])], pa.string()))
        misfits += [InvalidEvent(0, name, f"(trp:{sources[name]}) {problem}") for _, problem in problems]
        columns.append(pa.repeat(value[0], batch.num_rows))
    if misfits:
        raise events_rejected(schema.stream, misfits, max(1, batch.num_rows))
    own = batch.columns[: len(wanted) - len(schema.attributes)]
    return pa.RecordBatch.from_arrays([*own, *columns], schema=wanted)
