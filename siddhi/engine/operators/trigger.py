"""Triggers: streams with events at given times."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from siddhi.cron import CronSchedule, parse_cron
from siddhi.engine.columnar.batch import EventBatch
from siddhi.engine.columnar.column import Column
from siddhi.engine.columnar.state_tree import State
from siddhi.engine.operators.base.operator import OperatorContext, Stateful, Step
from siddhi.engine.operators.node import AppNode
from siddhi.language import ast
from siddhi.language.ast import AttributeType

TRIGGERED_TIME = "triggered_time"


class TriggerTimes(Stateful):
    """When a trigger fires next; None if never again.

    `times` is a period in milliseconds or a cron expression, None for only at the start.
    """

    def __init__(self, times: int | CronSchedule | None) -> None:
        self.times = times
        self.next: int | None = None

    def start(self, clock_ms: int) -> None:
        self.next = clock_ms if self.times is None else self._after(clock_ms)

    def until(self, clock_ms: int) -> list[int]:
        """Return the times up to `clock_ms` (inclusive) at which the trigger has yet to fire, and mark them as done."""
        due: list[int] = []
        while self.next is not None and self.next <= clock_ms:
            due.append(self.next)
            self.next = self._after(self.next)
        return due

    def _after(self, time_ms: int) -> int | None:
        if isinstance(self.times, CronSchedule):
            return self.times.next_after(time_ms)
        return None if self.times is None else time_ms + self.times

    def next_deadline_ms(self) -> int | None:
        return self.next

    def snapshot(self) -> State:
        return self.next

    def restore(self, state: State) -> None:
        self.next = state


class TriggerNode(AppNode):
    """A trigger of an app.

    `at 'start'` fires once at the clock of the start, `at every T` at start + T, start + 2T, …, `at '<cron text>'` at
    the times of the text after the start.
    """

    inserts = False

    def __init__(self, definition: ast.TriggerDefinition, context: OperatorContext) -> None:
        self.name = definition.id
        self.target = definition.id
        self.ticks = TriggerTimes(_times(definition))
        self.pool = context.pool
        self.parts = (self.ticks,)

    def process(self, inputs: Sequence[EventBatch], step: Step) -> EventBatch:
        times = self.ticks.until(step.final_clock)
        stamps = np.array(times, dtype=np.int64)
        orders = np.array([step.timer_order(time) for time in times], dtype=np.int64)
        columns = {TRIGGERED_TIME: Column(AttributeType.LONG, self.pool, values=stamps)}
        return EventBatch(stamps, np.zeros(len(times), dtype=np.int8), orders, stamps, columns)


def _times(definition: ast.TriggerDefinition) -> int | CronSchedule | None:
    if definition.cron is not None:
        return parse_cron(definition.cron)
    return None if definition.every is None else max(definition.every.milliseconds, 1)
