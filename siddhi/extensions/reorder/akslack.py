"""`#reorder:akslack(attribute, value)`: k-slack that trades lateness for the accuracy of aggregates over `value`.

K is that of k-slack, multiplied by α. After each batch of events a controller adapts α to the difference between the
coverage, the share of events that came in time, and the least share that keeps a mean over `value` within the error
threshold at the confidence level:

    error ε = threshold - coverage        α ← |α + 0.5 ε + 0.8 (ε - ε before)|

The least share is a root of a quadratic that the mean and the variance of the batch give (Ji et al., "Quality-driven
processing of sliding window aggregates over out-of-order data streams", DEBS 2015), computed as Siddhi does.
"""

from __future__ import annotations

import math
from collections import deque
from statistics import NormalDist, fmean, pvariance

from siddhi.analysis import model
from siddhi.engine.columnar.batch import EventBatch
from siddhi.engine.columnar.state_tree import State
from siddhi.engine.operators.expressions.compiler import ExpressionCompiler
from siddhi.engine.operators.expressions.evaluation import Evaluation, to_column
from siddhi.engine.operators.windows.base.row_window import Arrival, Emission
from siddhi.engine.operators.windows.base.window import WindowContext
from siddhi.extensions.reorder.kslack import KSlack
from siddhi.extensions.stateful import stateful_stream_function

BATCH_SIZE, ERROR_THRESHOLD, CONFIDENCE_LEVEL = 10_000, 0.03, 0.95
_PROPORTIONAL, _DERIVATIVE = 0.5, 0.8


class AlphaKSlack(KSlack):
    """The AlphaKSlack algorithm, which adapts its delay to late events.

    `seen` are the times of the last two batches of events in order of arrival, `sample` the values of the batch in
    progress. `span`, α of K, is how far before the newest event the windows whose coverage is measured end; 0 before
    the first batch.
    """

    def __init__(self, call: model.HandlerCall, compiler: ExpressionCompiler) -> None:
        self.sample_nodes = [compiler.compile(call.arguments[1])]
        super().__init__(call, compiler)
        batch_size = self.constants[2] if len(self.constants) > 2 else True
        self.batch_size = BATCH_SIZE if isinstance(batch_size, bool) else int(str(batch_size))
        threshold, confidence = self.constants[6:] or (ERROR_THRESHOLD, CONFIDENCE_LEVEL)
        self.threshold = float(str(threshold))
        self.critical = abs(NormalDist().inv_cdf((1 - float(str(confidence))) / 2))
        self.seen: deque[int] = deque(maxlen=2 * self.batch_size)
        self.sample: list[float] = []
        self.arrived = 0
        self.alpha, self.moved, self.error, self.span = 1.0, 0.0, 0.0, 0
        self._samples: list[float | None] = []

    def options(self, context: WindowContext) -> list[object]:
        self.constants = context.constants()
        if len(self.constants) == 3 and isinstance(self.constants[2], bool):
            return self.constants[2:]
        return self.constants[3:6]

    def prepare(self, batch: EventBatch) -> None:
        super().prepare(batch)
        (node,) = self.sample_nodes
        column = to_column(node.evaluate(Evaluation(batch)), node.type, self.slots.pool, batch.size)
        self._samples = column.to_list()  # type: ignore[assignment] # the declaration asks for a number

    def arrive(self, event: Arrival, out: Emission) -> None:
        value, sample = self.values[event.row], self._samples[event.row]
        self.seen.append(value)
        if sample is not None:
            self.sample.append(float(sample))
        if not (self.discard and value < self.last_sent):
            self.arrived += 1
            if self.arrived > self.batch_size:
                self._adapt(value)
        super().arrive(event, out)

    def slack_for(self, behind: int) -> int:
        if behind <= self.slack:
            return self.slack
        return math.floor(behind * self.alpha + 0.5) if behind < self.maximum else self.maximum

    def _adapt(self, newest: int) -> None:
        """Adapt α to the last batch."""
        coverage = 1.0 if self.span == 0 else covered(self.seen, newest - self.span)
        error = least_coverage(self.sample, self.threshold, self.critical) - coverage
        self.moved = abs(self.moved + _PROPORTIONAL * error + _DERIVATIVE * (error - self.error))
        self.error, self.alpha = error, self.moved
        self.span = min(math.floor(self.alpha * self.slack + 0.5), self.slack)
        self.arrived, self.sample = 0, []

    def own_state(self) -> State:
        numbers = [self.arrived, self.alpha, self.moved, self.error, self.span]
        return [super().own_state(), numbers, list(self.seen), list(self.sample)]

    def restore_own(self, state: State) -> None:
        slack, numbers, seen, self.sample = state
        super().restore_own(slack)
        self.arrived, self.alpha, self.moved, self.error, self.span = numbers
        self.seen.extend(seen)


def covered(times: deque[int], end: int) -> float:
    """Return the share of the `times` up to `end` that arrived before the first one at or after it.

    Return 1 when there are none. The times are in order of arrival.
    """
    in_time = total = 0
    closed = False
    for time in times:
        closed = closed or time >= end
        if time <= end:
            total += 1
            in_time += not closed
    return in_time / total if total else 1.0


def least_coverage(sample: list[float], threshold: float, critical: float) -> float:
    """Return the least share of the events of `sample` that keeps their mean within `threshold` of the mean of all.

    `critical`, of the normal distribution, sets the confidence. Return 0 when every share suffices.
    """
    mean = fmean(sample) if sample else 0.0
    if mean == 0.0:
        return 0.0
    spread = critical**2 * (mean**2 + pvariance(sample, mean) ** 2) / (len(sample) * mean**2)
    roots = [
        *_roots(1 + spread, 2 * threshold - 2 - spread, (1 - threshold) ** 2),
        *_roots(1 + spread, -(2 + 2 * threshold + spread), (1 + threshold) ** 2),
    ]
    return min(roots, default=0.0)


def _roots(a: float, b: float, c: float) -> tuple[float, ...]:
    discriminant = b**2 - 4 * a * c
    if discriminant < 0:
        return ()
    root = math.sqrt(discriminant)
    return (-b - root) / (2 * a), (-b + root) / (2 * a)


stateful_stream_function("akslack", "reorder", AlphaKSlack)
