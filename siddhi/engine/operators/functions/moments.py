"""`currentTimeMillis`, `eventTimestamp` and `UUID`."""

from __future__ import annotations

import os

import numpy as np
import pyarrow as pa

from siddhi.analysis import model
from siddhi.engine.columnar.strings import StringPool
from siddhi.engine.operators.expressions.compiler import FUNCTIONS
from siddhi.engine.operators.expressions.evaluation import Evaluation, ExpressionNode, Value
from siddhi.engine.operators.expressions.leaves import ClockNode, TimestampNode
from siddhi.engine.operators.functions.calls import CallNode
from siddhi.language.ast import AttributeType

_ID_LENGTH = 36


@FUNCTIONS.register("currentTimeMillis")
def current_time(_: model.Call, __: tuple[ExpressionNode, ...], ___: StringPool) -> ExpressionNode:
    """Return the app's clock: event time under playback."""
    return ClockNode()


@FUNCTIONS.register("eventTimestamp")
def event_timestamp(_: model.Call, arguments: tuple[ExpressionNode, ...], __: StringPool) -> ExpressionNode:
    """Return the timestamp of the event, or of the event that the argument names."""
    return TimeOfEvent(arguments[0]) if arguments else TimestampNode()


class TimeOfEvent(ExpressionNode):
    """The timestamp of an event that a pattern or a join refers to; the row fails where there is none."""

    type = AttributeType.LONG
    can_fail = True

    def __init__(self, timestamp: ExpressionNode) -> None:
        self.timestamp = timestamp

    def evaluate(self, evaluation: Evaluation) -> Value:
        value = self.timestamp.evaluate(evaluation)
        if value.valid is not None:
            evaluation.fail(~value.valid, "there is no event whose timestamp 'eventTimestamp' could return")
        return value


@FUNCTIONS.register("UUID")
class RandomId(CallNode):
    """A new random identifier for every row."""

    def evaluate(self, evaluation: Evaluation) -> Value:
        return Value(self.pool.encode(random_ids(evaluation.size)))


def random_ids(count: int) -> pa.StringArray:
    """Return new random identifiers (UUIDs of version 4) as texts."""
    bits = np.frombuffer(bytearray(os.urandom(16 * count)), dtype=np.uint8).reshape(count, 16)
    bits[:, 6] = bits[:, 6] & 0x0F | 0x40
    bits[:, 8] = bits[:, 8] & 0x3F | 0x80
    digits = np.frombuffer(bits.tobytes().hex().encode(), dtype=np.uint8).reshape(count, 32)
    texts = np.full((count, _ID_LENGTH), ord("-"), dtype=np.uint8)
    for to, start, end in ((0, 0, 8), (9, 8, 12), (14, 12, 16), (19, 16, 20), (24, 20, 32)):
        texts[:, to : to + end - start] = digits[:, start:end]
    offsets = np.arange(count + 1, dtype=np.int32) * np.int32(_ID_LENGTH)
    return pa.StringArray.from_buffers(count, pa.py_buffer(offsets), pa.py_buffer(texts))
