"""`#log(…)`: log events and pass them on."""

from __future__ import annotations

import logging

from siddhi.analysis import model
from siddhi.engine.columnar.batch import EventBatch
from siddhi.engine.columnar.column import Column
from siddhi.engine.columnar.state_tree import State
from siddhi.engine.operators.base.operator import Operator, Step
from siddhi.engine.operators.expressions.compiler import ExpressionCompiler
from siddhi.engine.operators.expressions.evaluation import Evaluation, ExpressionNode, to_column
from siddhi.engine.operators.expressions.leaves import scalar_or_none
from siddhi.engine.operators.stream_functions.stream_function import STREAM_FUNCTIONS
from siddhi.float_values import written_list
from siddhi.language.ast import AttributeType
from siddhi.log_levels import LOG_LEVELS

logger = logging.getLogger(__name__)


@STREAM_FUNCTIONS.register("log")
class Log(Operator):
    """`log([priority,] [message] [, is.event.logged])`, at INFO without a priority; OFF writes nothing."""

    def __init__(self, call: model.HandlerCall, compiler: ExpressionCompiler) -> None:
        nodes = [compiler.compile(argument) for argument in call.arguments]
        self.names = tuple(name for name, _ in call.output.attributes)
        for name, type_ in call.output.attributes:
            compiler.compile(model.AttributeValue(0, name, type_))
        self.pool = compiler.context.pool
        texts = [node for node in nodes if node.type is AttributeType.STRING]
        flags = [scalar_or_none(node) for node in nodes if node.type is AttributeType.BOOL]
        self.level = LOG_LEVELS[str(scalar_or_none(texts[0])).upper()] if len(texts) > 1 else logging.INFO
        self.message: ExpressionNode | None = texts[-1] if texts else None
        self.with_event = flags != [False]

    def process(self, batch: EventBatch, step: Step) -> EventBatch:
        if self.level is None or not logger.isEnabledFor(self.level):
            return batch
        messages: list[object] = [""] * batch.size
        if self.message is not None:
            value = self.message.evaluate(Evaluation(batch))
            messages = to_column(value, AttributeType.STRING, self.pool, batch.size).to_list()
        if not self.with_event:
            for message in messages:
                logger.log(self.level, "%s", message)
            return batch
        rows = zip(*(_shown(batch.columns[name]) for name in self.names), strict=True)
        for message, timestamp, row in zip(messages, batch.timestamps.tolist(), rows, strict=True):
            logger.log(self.level, "%s timestamp=%d data=%s", message, timestamp, list(row))
        return batch

    def snapshot(self) -> State:
        return None

    def restore(self, state: State) -> None:
        """Do nothing: there is no state."""


def _shown(column: Column) -> list[object]:
    return written_list(column.to_list()) if column.type is AttributeType.FLOAT else column.to_list()
