"""`currentTimeMillis`, `eventTimestamp` and `UUID`."""

from __future__ import annotations

import uuid

from siddhi.analysis import model
from siddhi.engine.expressions.compiler import FUNCTIONS
from siddhi.engine.expressions.evaluation import Evaluation, Node, Value
from siddhi.engine.expressions.leaves import ClockNode, TimestampNode
from siddhi.engine.functions.calls import CallNode, from_list
from siddhi.engine.strings import StringPool


@FUNCTIONS.register("currentTimeMillis")
def current_time(_: model.Call, __: tuple[Node, ...], ___: StringPool) -> Node:
    """The app's clock: event time under playback."""
    return ClockNode()


@FUNCTIONS.register("eventTimestamp")
def event_timestamp(_: model.Call, arguments: tuple[Node, ...], __: StringPool) -> Node:
    """The timestamp of the event, or of the event that the argument names."""
    return arguments[0] if arguments else TimestampNode()


@FUNCTIONS.register("UUID")
class RandomId(CallNode):
    """A new random identifier for every row."""

    def evaluate(self, evaluation: Evaluation) -> Value:
        return from_list([str(uuid.uuid4()) for _ in range(evaluation.size)], self.type, self.pool)
