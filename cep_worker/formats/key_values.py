"""Mapper `keyvalue` of `inMemory` sources and sinks: values under keys with any names.

    sink    @payload(s='symbol', p='price')          symbol, price ──▶ s, p
    source  @attributes(code='s', cost='p')          s, p ──▶ code, cost

Values are passed on unencoded.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

import pyarrow as pa

from cep_common.errors import ConfigError
from cep_common.protocol.links import StreamSchema
from query_plan.connectors.attribute_paths import by_attribute, refuse_transport, split_options, split_paths
from query_plan.connectors.mappers import KeyValueSourceOptions
from query_plan.connectors.options import read_options
from siddhi.arrow_types import ARROW_TYPES_BY_NAME
from siddhi.column_names import KIND, TIMESTAMP, column_name
from topology.events.frames import arrow_schema

NAME = "keyvalue"
_REFERENCE = re.compile(r"\s*(?:\{\{\s*(?P<braced>[^{}\s]+)\s*\}\}|(?P<plain>[^{}]*?))\s*")


@dataclass(frozen=True, slots=True)
class Keys:
    """The keys of the attributes that are not known by their own names, as (attribute, key) pairs.

    `lenient` takes a missing key for null.
    """

    keys: tuple[tuple[str, str], ...] = ()
    lenient: bool = False


def source_keys(given: Mapping[str, str], schema: StreamSchema, where: str) -> Keys:
    """Return the keys that the options of a source's mapper name.

    Raises:
        ConfigError: the `@payload` cannot be used.
    """
    paths, others = split_paths(given)
    options = read_options(KeyValueSourceOptions, others, where)
    keys = by_attribute(paths, [name for name, _ in schema.attributes], where) if paths else {}
    for name, key in keys.items():
        refuse_transport(name, key, where)
    return Keys(tuple(keys.items()), options.fail_on_missing_attribute == "false")


def published(given: Mapping[str, str], schema: StreamSchema, where: str) -> KeyValueReader | None:
    """Return what a sink writes under the keys of its `@payload`; None writes all attributes under their names.

    Raises:
        ConfigError: the `@payload` cannot be used.
    """
    payload, others = split_options(given, "payload")
    if others:
        raise ConfigError(f"{where}: unknown option {next(iter(others))}; known: @payload(key='attribute')")
    if not payload:
        return None
    types = dict(schema.attributes)
    keys: dict[str, str] = {}
    for key, text in payload.items():
        found = _REFERENCE.fullmatch(text)
        name = found["braced"] or found["plain"] if found else text
        if name not in types or not key:
            advice = "write @payload(key='attribute'), with a key for each attribute"
            raise ConfigError(f"{where}: payload: {text!r} is not an attribute of {schema.stream}; {advice}")
        keys[key] = name
    wanted = StreamSchema(schema.stream, tuple((key, types[name]) for key, name in keys.items()))
    return KeyValueReader(schema, wanted, Keys(tuple(keys.items())))


class KeyValueReader:
    """Converts batches with `offered` attributes to batches with `wanted` ones, by `keys`.

    Other values are ignored. `problems` lists why batches cannot be converted.
    """

    def __init__(self, offered: StreamSchema, wanted: StreamSchema, keys: Keys) -> None:
        chosen, types = dict(keys.keys), dict(offered.attributes)
        self.schema = StreamSchema(offered.stream, wanted.attributes)
        self.problems: list[str] = []
        self._arrow_schema = arrow_schema(self.schema)
        self._columns: list[str | pa.DataType] = []
        for name, kind in wanted.attributes:
            key = chosen.get(name, name)
            if key in types:
                self._columns.append(column_name(key))
                if types[key] != kind:
                    self.problems.append(f"{key} is {types[key]} where {kind} is defined")
            else:
                self._columns.append(ARROW_TYPES_BY_NAME[kind])
                if not keys.lenient:
                    self.problems.append(f"{key} is missing ({kind})")

    def batch(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return the same events with the wanted attributes."""
        columns = [
            batch.column(one) if isinstance(one, str) else pa.nulls(batch.num_rows, one) for one in self._columns
        ]
        times, kinds = batch.column(TIMESTAMP), batch.column(KIND)
        return pa.RecordBatch.from_arrays([times, kinds, *columns], schema=self._arrow_schema)
