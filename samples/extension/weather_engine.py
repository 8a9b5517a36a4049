"""How the engine does it. Only an engine imports this module."""

from __future__ import annotations

from bisect import insort
from typing import Any

import numpy as np

from siddhi.engine.columnar.batch import EventBatch
from siddhi.engine.operators.expressions.aggregation import AGGREGATORS
from siddhi.engine.operators.expressions.evaluation import Evaluation, to_column
from siddhi.engine.operators.functions.rows import column_function
from siddhi.engine.operators.windows.base.row_window import Arrival, Emission, RowWindow
from siddhi.engine.operators.windows.base.window import WINDOWS, WindowContext
from siddhi.extensions.groups import RowAggregator


def wind_chill(celsius: Any, speed: Any) -> Any:
    """Whole columns in, a column and the mask of its values that are not null out."""
    power = np.power(speed, 0.16)
    felt = 13.12 + 0.6215 * celsius - 11.37 * power + 0.3965 * celsius * power
    return felt, (celsius <= 10) & (speed >= 4.8)


column_function("weather", "windChill", wind_chill)


@AGGREGATORS.register("range", "weather")
class Range(RowAggregator[list[float]]):
    """A group is the sorted list of the values that the window holds."""

    def empty(self) -> list[float]:
        return []

    def add(self, group: list[float], item: Any) -> None:
        if item is not None:
            insort(group, float(item))

    def remove(self, group: list[float], item: Any) -> None:
        if item is not None:
            group.remove(float(item))

    def result(self, group: list[float]) -> float | None:
        return group[-1] - group[0] if group else None

    def save(self, group: list[float]) -> list[float]:
        return list(group)

    def load(self, state: Any) -> list[float]:
        return list(state)


@WINDOWS.register("changes", "weather")
class Changes(RowWindow):
    """Lets only changes in.

    changes(v, 2)   v     1    1    2    3
                    out   +a   ·    +c   -a +d
    """

    def __init__(self, context: WindowContext) -> None:
        super().__init__(context)
        self.attribute, _ = context.arguments()
        self.length = int(str(context.constants()[1]))
        self.queue: list[int] = []
        self.last: object = None
        self.values: list[object] = []

    def prepare(self, batch: EventBatch) -> None:
        value = self.attribute.evaluate(Evaluation(batch))
        self.values = to_column(value, self.attribute.type, self.slots.pool, batch.size).to_list()

    def arrive(self, event: Arrival, out: Emission) -> None:
        new = self.values[event.row]
        if self.queue and new == self.last:
            self.release(event.slot)
            return
        self.last = new
        if len(self.queue) == self.length:
            oldest = self.queue.pop(0)
            out.expired(oldest)
            self.release(oldest)
        self.queue.append(event.slot)
        out.current(event.slot, event.timestamp)

    def held(self) -> list[int]:
        return self.queue

    def own_state(self) -> Any:
        return [self.queue, self.last]

    def restore_own(self, state: Any) -> None:
        self.queue, self.last = state
