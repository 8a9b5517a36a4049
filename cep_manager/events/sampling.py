"""Chooses the events of a stream to show: those that pass a filter, up to a rate. Pure."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from cep_manager.errors import BadRequestError
from cep_manager.events.model import TailFilter
from siddhi.arrow_types import ARROW_TYPES_BY_NAME
from siddhi.column_names import KIND, column_name
from topology.events.frames import event_rows

LARGEST_WHOLE = 2**53
LONGEST_TEXT = 1_000
"""Longer texts are cut."""

_COMPARE: dict[str, Callable[[pa.Array, pa.Scalar], pa.Array]] = {
    "eq": pc.equal,
    "ne": pc.not_equal,
    "lt": pc.less,
    "le": pc.less_equal,
    "gt": pc.greater,
    "ge": pc.greater_equal,
}
_NAMES = {type_: name for name, type_ in ARROW_TYPES_BY_NAME.items()}


class EventMatcher:
    """A filter made ready for the events of one stream."""

    def __init__(self, wanted: TailFilter, schema: pa.Schema) -> None:
        """Raise BadRequestError for an attribute that is none, or a value that is none of its type."""
        self._wanted = wanted
        own = column_name(wanted.attribute)
        self._column = own if own in schema.names else wanted.attribute  # the time, where no attribute is called so
        if self._column not in schema.names or self._column == KIND:
            raise BadRequestError(f"the stream has no attribute {wanted.attribute[:80]!r} to filter by")
        type_ = schema.field(self._column).type
        name = _NAMES[type_]
        if pa.types.is_binary(type_) or (wanted.operator == "contains" and not pa.types.is_string(type_)):
            raise BadRequestError(
                f"{wanted.attribute} is of type {name}, which cannot be filtered by {wanted.operator}"
            )
        try:
            self._value = pa.scalar(wanted.value).cast(type_)
        except pa.ArrowInvalid as error:
            raise BadRequestError(f"{wanted.value[:80]!r} is no {name}, as {wanted.attribute} is") from error

    def apply(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return the events that pass; null never does."""
        column = batch.column(self._column)
        if self._wanted.operator == "contains":
            return batch.filter(pc.match_substring(column, self._wanted.value, ignore_case=True))
        return batch.filter(_COMPARE[self._wanted.operator](column, self._value))


def sampled(batch: pa.RecordBatch, count: int) -> pa.RecordBatch:
    """Return `count` events spread over `batch`, in order; all if there are no more."""
    if count >= batch.num_rows:
        return batch
    return batch.take(pa.array([place * batch.num_rows // count for place in range(count)], pa.int64()))


def as_events(batch: pa.RecordBatch) -> list[dict[str, Any]]:
    """Return the rows as JSON for a browser, event time first. Numbers out of its range become strings."""
    return [{name: _shown(value) for name, value in row.items()} for row in event_rows(batch)]


def _shown(value: Any) -> Any:
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if isinstance(value, int) and abs(value) > LARGEST_WHOLE:
        return str(value)
    if isinstance(value, bytes):
        text = value.decode("utf-8", "replace")
        if len(text) > LONGEST_TEXT:
            return f"{text[:LONGEST_TEXT]}…"
        try:
            return json.loads(text)
        except ValueError:
            return text
    if isinstance(value, str) and len(value) > LONGEST_TEXT:
        return f"{value[:LONGEST_TEXT]}…"
    return value
