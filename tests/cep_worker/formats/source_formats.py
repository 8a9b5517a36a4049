"""What tests of source mappers share: a stream of stocks, one of every type, and reading by the options of `@map`."""

from __future__ import annotations

from typing import Any

import pytest
from worker_world import values

from cep_common.errors import ConfigError
from cep_common.protocol.links import StreamSchema
from cep_common.protocol.registry import Connector
from cep_worker.formats.rejections import EventsRejectedError
from cep_worker.formats.source_mappers.registry import source_format

STOCKS = StreamSchema("Stocks", (("symbol", "string"), ("price", "float"), ("volume", "long")))
EVERYTHING = StreamSchema(
    "Everything",
    (("s", "string"), ("i", "int"), ("l", "long"), ("f", "float"), ("d", "double"), ("b", "bool"), ("o", "object")),
)
Options = dict[str, str]


def paths(**written: str) -> Options:
    """`@attributes` as workers are told of it."""
    return {f"attributes.{name}": path for name, path in written.items()}


def read(
    kind: str, body: bytes, options: Options | None = None, schema: StreamSchema = STOCKS, timestamp: str | None = None
) -> list[tuple[Any, ...]]:
    """The events of a body, the time first; those without one are of 9."""
    form = source_format(Connector(schema.stream, "http", {}, kind, options or {}), schema, "@map")
    assert hash(form) == hash(form)
    return values(form.reader(schema, timestamp).read(body, now_ms=9))


def refused(kind: str, body: bytes, options: Options | None = None, **more: Any) -> EventsRejectedError:
    """The refusal of a body."""
    with pytest.raises(EventsRejectedError) as error:
        read(kind, body, options, **more)
    return error.value


def problems(kind: str, body: bytes, options: Options | None = None, **more: Any) -> list[tuple[int, str, str]]:
    """The details of a refusal for events that do not fit."""
    error = refused(kind, body, options, **more)
    assert error.reason_code == "bad-events"
    return [(one.index, one.attribute, one.problem) for one in error.details]


def impossible(kind: str, options: Options, schema: StreamSchema = STOCKS) -> str:
    """Why options cannot be used."""
    with pytest.raises(ConfigError) as error:
        source_format(Connector(schema.stream, "http", {}, kind, options), schema, "here")
    assert error.value.message.startswith("here: ")
    return error.value.message
