"""Where the time of an event stands in JSON and in files, when nobody says it."""

from __future__ import annotations

from collections.abc import Container

from cep_common.link_messages import StreamSchema
from siddhi.column_names import TIMESTAMP

USUAL_TIMESTAMP = "ts"


def usual_timestamp(schema: StreamSchema) -> str | None:
    """Under `_timestamp`, which may also be an attribute of type long; nowhere if it is one of another type."""
    return TIMESTAMP if dict(schema.attributes).get(TIMESTAMP, "long") == "long" else None


def timestamp_among(names: Container[str], schema: StreamSchema) -> str | None:
    """Which of the `names` in a file holds the time: the usual one, else `ts` where that is no attribute."""
    usual = usual_timestamp(schema)
    if usual is not None and usual in names:
        return usual
    return USUAL_TIMESTAMP if USUAL_TIMESTAMP in names and USUAL_TIMESTAMP not in dict(schema.attributes) else None
