"""The default field for event times in JSON and files, and which times are valid."""

from __future__ import annotations

from collections.abc import Container

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from cep_common.protocol.links import StreamSchema
from siddhi.column_names import TIMESTAMP

USUAL_TIMESTAMP = "ts"

EARLIEST_MS, LATEST_MS = -62_135_596_800_000, 253_402_300_799_999
"""The years 1 to 9999: these times have dates, and the arithmetic of windows does not overflow a long."""
WRONG_TIME = "is the event's time in milliseconds since 1970 and must lie between the years 1 and 9999"


def strange_times(times: pa.Array, most: int = 1) -> list[int]:
    """Return up to `most` rows whose time is not between the years 1 and 9999.

    Null is not a time.
    """
    if not len(times) or times.null_count == len(times):
        return []
    bounds = pc.min_max(times).as_py()
    if bounds["min"] >= EARLIEST_MS and bounds["max"] <= LATEST_MS:
        return []
    values = times.fill_null(0).to_numpy(zero_copy_only=False)
    rows: list[int] = np.flatnonzero((values < EARLIEST_MS) | (values > LATEST_MS))[:most].tolist()
    return rows


def usual_timestamp(schema: StreamSchema) -> str | None:
    """Return the default name of the time, `_timestamp`, unless it is an attribute of a type other than long."""
    return TIMESTAMP if dict(schema.attributes).get(TIMESTAMP, "long") == "long" else None


def timestamp_among(names: Container[str], schema: StreamSchema) -> str | None:
    """Return which of the `names` in a file holds the time: the default name, or `ts` if that is not an attribute."""
    usual = usual_timestamp(schema)
    if usual is not None and usual in names:
        return usual
    return USUAL_TIMESTAMP if USUAL_TIMESTAMP in names and USUAL_TIMESTAMP not in dict(schema.attributes) else None
