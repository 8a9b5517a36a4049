"""`currentTimeMillis`, `eventTimestamp` and `UUID`."""

from __future__ import annotations

import uuid

from siddhi.analysis import model
from siddhi.engine.columnar.strings import StringPool
from siddhi.engine.operators.expressions.compiler import FUNCTIONS
from siddhi.engine.operators.expressions.evaluation import Evaluation, ExpressionNode, Value
from siddhi.engine.operators.expressions.leaves import ClockNode, TimestampNode
from siddhi.engine.operators.functions.calls import CallNode, from_list
from siddhi.language.ast import AttributeType


@FUNCTIONS.register("currentTimeMillis")
def current_time(_: model.Call, __: tuple[ExpressionNode, ...], ___: StringPool) -> ExpressionNode:
    """Return the app's clock: event time under playback."""
    return ClockNode()


@FUNCTIONS.register("eventTimestamp")
def event_timestamp(_: model.Call, arguments: tuple[ExpressionNode, ...], __: StringPool) -> ExpressionNode:
    """Return the timestamp of the event, or of the event that the argument names."""
    return TimeOfEvent(arguments[0]) if arguments else TimestampNode()


class TimeOfEvent(ExpressionNode):
    """The timestamp of an event that a pattern or a join names; the row fails where there is none."""

    type = AttributeType.LONG
    can_fail = True

    def __init__(self, timestamp: ExpressionNode) -> None:
        self.timestamp = timestamp

    def evaluate(self, evaluation: Evaluation) -> Value:
        value = self.timestamp.evaluate(evaluation)
        if value.valid is not None:
            evaluation.fail(~value.valid, "there is no event of which 'eventTimestamp' could tell the time")
        return value


@FUNCTIONS.register("UUID")
class RandomId(CallNode):
    """A new random identifier for every row."""

    by_row = True

    def evaluate(self, evaluation: Evaluation) -> Value:
        return from_list([str(uuid.uuid4()) for _ in range(evaluation.size)], self.type, self.pool)
