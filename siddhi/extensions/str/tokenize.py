"""`#str:tokenize`."""

from __future__ import annotations

import numpy as np

from siddhi.analysis import model
from siddhi.engine.batch import Column, EventBatch
from siddhi.engine.expressions.compiler import ExpressionCompiler
from siddhi.engine.expressions.evaluation import Evaluation, to_column
from siddhi.engine.expressions.leaves import scalar_or_none
from siddhi.engine.filters import drop_failed
from siddhi.engine.operator import Operator, Step
from siddhi.engine.state import State
from siddhi.engine.stream_functions.stream_function import STREAM_FUNCTIONS
from siddhi.extensions.java_regex import compile_pattern, split
from siddhi.language.ast import AttributeType


@STREAM_FUNCTIONS.register("tokenize", "str")
class Tokenize(Operator):
    """One row, and one chunk, for each part of the text, with the part as `token`; a null text fails."""

    def __init__(self, call: model.HandlerCall, compiler: ExpressionCompiler) -> None:
        self.text, pattern, *distinct = (compiler.compile(argument) for argument in call.arguments)
        self.pattern = compile_pattern(str(scalar_or_none(pattern)))
        self.distinct = bool(distinct and scalar_or_none(distinct[0]))
        self.pool = compiler.context.pool

    def process(self, batch: EventBatch, step: Step) -> EventBatch:
        evaluation = Evaluation(batch)
        column = to_column(self.text.evaluate(evaluation), AttributeType.STRING, self.pool, batch.size)
        if column.valid is not None:
            evaluation.fail(~column.valid, "the text given to 'str:tokenize' is null")
        kept = drop_failed(evaluation, step).tolist()
        positions: list[int] = []
        tokens: list[str] = []
        for row, text in enumerate(column.to_list()):
            if kept[row] and text is not None:
                parts = split(self.pattern, str(text))
                parts = list(dict.fromkeys(parts)) if self.distinct else parts
                positions.extend([row] * len(parts))
                tokens.extend(parts)
        rows = batch.take(np.array(positions, dtype=np.int64)).with_chunks(None)
        return rows.with_columns({**rows.columns, "token": Column.of(AttributeType.STRING, self.pool, tokens)})

    def snapshot(self) -> State:
        return None

    def restore(self, state: State) -> None:
        """There is no state."""
