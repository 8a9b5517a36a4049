"""Triggers: streams on which time itself sends events."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from siddhi.engine.batch import Column, EventBatch
from siddhi.engine.node import Node
from siddhi.engine.operator import OperatorContext, Stateful, Step
from siddhi.engine.state import State
from siddhi.language import ast
from siddhi.language.ast import AttributeType

TRIGGERED_TIME = "triggered_time"


class Ticks(Stateful):
    """When a trigger fires next; None: never again."""

    def __init__(self, every: int | None) -> None:
        self.every = every
        self.next: int | None = None

    def start(self, clock_ms: int) -> None:
        self.next = clock_ms + (self.every or 0)

    def next_deadline_ms(self) -> int | None:
        return self.next

    def snapshot(self) -> State:
        return self.next

    def restore(self, state: State) -> None:
        self.next = state


class Trigger(Node):
    """`at 'start'` fires once at the clock of the start, `at every T` at start + T, start + 2T, …"""

    inserts = False

    def __init__(self, definition: ast.TriggerDefinition, context: OperatorContext) -> None:
        self.name = definition.id
        self.target = definition.id
        self.ticks = Ticks(None if definition.every is None else max(definition.every.milliseconds, 1))
        self.pool = context.pool
        self.parts = (self.ticks,)

    def process(self, inputs: Sequence[EventBatch], step: Step) -> EventBatch:
        times: list[int] = []
        while self.ticks.next is not None and self.ticks.next <= step.final_clock:
            times.append(self.ticks.next)
            self.ticks.next = None if self.ticks.every is None else self.ticks.next + self.ticks.every
        stamps = np.array(times, dtype=np.int64)
        orders = np.array([step.timer_order(time) for time in times], dtype=np.int64)
        columns = {TRIGGERED_TIME: Column(AttributeType.LONG, self.pool, values=stamps)}
        return EventBatch(stamps, np.zeros(len(times), dtype=np.int8), orders, stamps, columns)
