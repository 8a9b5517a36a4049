"""Convert an event written by a user to a record batch of one row."""

from __future__ import annotations

import json
import math
from typing import Any

import pyarrow as pa

from siddhi.analysis.model import Schema
from siddhi.arrow_types import ARROW_TYPES
from siddhi.column_names import TIMESTAMP, column_name
from siddhi.errors import did_you_mean
from siddhi.language.ast import AttributeType
from siddhi.nesting import TOO_DEEP, nests_too_deeply
from siddhi.trial.messages import TrialEvent

_BOUNDS = {AttributeType.INT: 2**31, AttributeType.LONG: 2**63}
_SPECIAL = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}


class InvalidEventError(Exception):
    """An event that does not fit its stream, with the reason."""


def record_of(event: TrialEvent, schema: Schema, timestamp: int) -> pa.RecordBatch:
    """Return the event at `timestamp` as a batch of `schema`. Raises MisfitError."""
    values = _by_name(event.data, schema) if isinstance(event.data, dict) else _in_order(event.data, schema)
    arrays = [pa.array([timestamp], pa.int64())]
    for (name, type_), value in zip(schema.attributes, values, strict=True):
        arrays.append(pa.array([_value(value, type_, name)], ARROW_TYPES[type_]))
    return pa.RecordBatch.from_arrays(arrays, names=[TIMESTAMP, *map(column_name, schema.names())])


def own_time(event: TrialEvent, schema: Schema) -> int | None:
    """Return the time of the event, None when it has none.

    This is its `timestamp`, or else the value of its attribute `_timestamp` if that is a long, as in a deployed plan.
    """
    if event.timestamp is not None or dict(schema.attributes).get(TIMESTAMP) is not AttributeType.LONG:
        return event.timestamp
    if isinstance(event.data, dict):
        value = event.data.get(TIMESTAMP)
    else:
        value = dict(zip(schema.names(), event.data, strict=False)).get(TIMESTAMP)
    whole: int | None = _fitted(value, AttributeType.LONG)
    return whole


def _by_name(data: dict[str, Any], schema: Schema) -> list[Any]:
    for name in data:
        if name not in schema:
            hint = did_you_mean(name, schema.names()) or f"it has {', '.join(schema.names())}"
            raise InvalidEventError(f"'{schema.id}' has no attribute '{name}'; {hint}")
    return [data.get(name) for name in schema.names()]


def _in_order(data: list[Any], schema: Schema) -> list[Any]:
    if len(data) != len(schema.attributes):
        wanted = ", ".join(schema.names())
        raise InvalidEventError(f"'{schema.id}' has {len(schema.attributes)} attributes ({wanted}), not {len(data)}")
    return data


def _value(value: Any, type_: AttributeType, name: str) -> Any:
    """Return `value` as `type_`: integers are accepted for fractions, nothing else is converted."""
    if value is None:
        return None
    if nests_too_deeply(value):
        raise InvalidEventError(f"'{name}': {TOO_DEEP}")
    fitted = _fitted(value, type_)
    if fitted is None:
        raise InvalidEventError(f"'{name}' must be {type_.value}, not {json.dumps(value)[:80]}")
    return fitted


def _fitted(value: Any, type_: AttributeType) -> Any:
    match type_:
        case AttributeType.STRING:
            return value if isinstance(value, str) else None
        case AttributeType.BOOL:
            return value if isinstance(value, bool) else None
        case AttributeType.INT | AttributeType.LONG:
            whole = isinstance(value, int) and not isinstance(value, bool)
            return value if whole and -_BOUNDS[type_] <= value < _BOUNDS[type_] else None
        case AttributeType.FLOAT | AttributeType.DOUBLE:
            if isinstance(value, str):
                return _SPECIAL.get(value)
            return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None
        case AttributeType.OBJECT:
            return json.dumps(value).encode()
