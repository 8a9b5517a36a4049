"""`#unique:deduplicate(key, T)`.

T = 10   clock   0     4     10    11    12
         in      a     a     a     a     a
         out     a     ·     ·     a     ·
"""

from __future__ import annotations

import numpy as np

from siddhi.analysis import model
from siddhi.engine.columnar.batch import EventBatch
from siddhi.engine.columnar.kinds import CURRENT
from siddhi.engine.columnar.state_tree import State
from siddhi.engine.operators.base.operator import Operator, Step
from siddhi.engine.operators.expressions.compiler import ExpressionCompiler
from siddhi.engine.operators.expressions.leaves import scalar_or_none
from siddhi.engine.operators.filters import with_value
from siddhi.extensions.stateful import stateful_stream_function
from siddhi.extensions.unique.keys import Key, keys_of


class Deduplicate(Operator):
    """A filter that passes an event if none with its key passed within T before it, by the app's clock.

    Rows other than current ones always pass; a row whose key is null fails.
    """

    def __init__(self, call: model.HandlerCall, compiler: ExpressionCompiler) -> None:
        self.key, duration = (compiler.compile(argument) for argument in call.arguments)
        self.duration = int(scalar_or_none(duration))
        self.pool = compiler.context.pool
        self.passed: dict[Key, int] = {}

    def process(self, batch: EventBatch, step: Step) -> EventBatch:
        batch = with_value(batch, self.key, step, "the key of 'unique:deduplicate'")
        kept: list[int] = []
        keys = keys_of(batch, [self.key], self.pool)
        lines = zip(keys, batch.kinds.tolist(), batch.clocks.tolist(), strict=True)
        for row, (key, kind, clock) in enumerate(lines):
            if kind != CURRENT:
                kept.append(row)
                continue
            self._forget(clock)
            if key not in self.passed:
                self.passed[key] = clock
                kept.append(row)
        return batch if len(kept) == batch.size else batch.take(np.array(kept, dtype=np.int64))

    def _forget(self, clock: int) -> None:
        """Drop keys that passed longer than T ago; they are in the order in which they passed."""
        while self.passed:
            key = next(iter(self.passed))
            if self.passed[key] + self.duration >= clock:
                return
            del self.passed[key]

    def snapshot(self) -> State:
        return [[list(key), clock] for key, clock in self.passed.items()]

    def restore(self, state: State) -> None:
        self.passed = {tuple(key): clock for key, clock in state}


stateful_stream_function("deduplicate", "unique", Deduplicate)
