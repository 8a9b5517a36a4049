"""`frequent(n, attribute…)` and `lossyFrequent(support, error, attribute…)`: events with frequent values."""

from __future__ import annotations

import math

from siddhi.analysis import model
from siddhi.engine.columnar.batch import EventBatch
from siddhi.engine.columnar.java_order import hash_map_order
from siddhi.engine.columnar.state_tree import State
from siddhi.engine.operators.expressions.evaluation import Evaluation, ExpressionNode, to_column
from siddhi.engine.operators.expressions.leaves import scalar_or_none
from siddhi.engine.operators.functions.conversion import java_text
from siddhi.engine.operators.windows.base.row_window import Arrival, Emission, RowWindow
from siddhi.engine.operators.windows.base.window import WindowContext


class _KeyedWindow(RowWindow):
    """Stores the newest event of each key; a key is the text of the given attributes.

    By default these are the attributes that the query selects unchanged, as in Siddhi: all events have the same key
    when it selects none.
    """

    def __init__(self, context: WindowContext) -> None:
        super().__init__(context)
        nodes = context.arguments()
        self.numbers = [scalar_or_none(node) for node in nodes if scalar_or_none(node) is not None]
        keys = [node for node in nodes if scalar_or_none(node) is None]
        self.key_nodes: list[ExpressionNode] = keys or [
            context.compiler.compile(model.AttributeValue(0, name, type_))
            for name, type_ in context.call.output.attributes
            if name in context.selected
        ]
        self.newest: dict[str, int] = {}
        self.keys: list[str] = []

    def prepare(self, batch: EventBatch) -> None:
        evaluation = Evaluation(batch)
        columns = [
            [
                "null" if (text := java_text(item, node.type)) is None else text
                for item in to_column(node.evaluate(evaluation), node.type, self.slots.pool, batch.size).to_list()
            ]
            for node in self.key_nodes
        ]
        self.keys = [":-:".join(values) for values in zip(*columns, strict=True)] if columns else [""] * batch.size

    def put(self, key: str, slot: int) -> bool:
        """Make the row in `slot` the newest of `key`; return whether the key was known."""
        old = self.newest.get(key)
        if old is not None:
            self.release(old)
        self.newest[key] = slot
        return old is not None

    def held(self) -> list[int]:
        return [self.newest[key] for key in hash_map_order(self.newest)]

    def let_go(self, gone: list[str], among: int, out: Emission) -> None:
        """Expire the keys `gone`, of `among` that were counted, together, in the order of a Java hash map."""
        for key in hash_map_order(gone, among) if len(gone) > 1 else gone:
            slot = self.newest.pop(key)
            out.expired(slot)
            self.release(slot)


class FrequentWindow(_KeyedWindow):
    """Misra and Gries: n counters.

    A new key that finds none free decrements all, and takes the place of one that reached zero.
    """

    def __init__(self, context: WindowContext) -> None:
        super().__init__(context)
        self.length = int(str(self.numbers[0]))
        self.counts: dict[str, int] = {}

    def arrive(self, event: Arrival, out: Emission) -> None:
        key = self.keys[event.row]
        if self.put(key, event.slot):
            self.counts[key] += 1
            out.current(event.slot, event.timestamp)
            return
        if len(self.newest) > self.length:
            lowered = {known: count - 1 for known, count in self.counts.items()}
            self.counts = {known: count for known, count in lowered.items() if count}
            self.let_go([known for known, count in lowered.items() if not count], len(lowered), out)
            if len(self.newest) > self.length:
                self.release(self.newest.pop(key))
                return
        self.counts[key] = 1
        out.current(event.slot, event.timestamp)

    def own_state(self) -> State:
        return [list(self.newest), list(self.newest.values()), [self.counts[key] for key in self.newest]]

    def restore_own(self, state: State) -> None:
        keys, slots, counts = state
        self.newest = dict(zip(keys, slots, strict=True))
        self.counts = dict(zip(keys, counts, strict=True))


_WIDEST = 2**31 - 1
"""A bucket has no more events, even where no error at all is allowed."""


class LossyFrequentWindow(_KeyedWindow):
    """Lossy counting in buckets of 1 / error events.

    Events of keys with a share of at least (support - error) are emitted.
    """

    def __init__(self, context: WindowContext) -> None:
        super().__init__(context)
        self.support, self.error = (float(str(number)) for number in self.numbers)
        self.width = min(math.ceil(1 / self.error), _WIDEST) if abs(self.error) > 1 / _WIDEST else _WIDEST
        self.total = 0
        self.bucket = 1
        self.counts: dict[str, list[int]] = {}

    def arrive(self, event: Arrival, out: Emission) -> None:
        key = self.keys[event.row]
        self.total += 1
        if self.total != 1:
            self.bucket = math.ceil(self.total / self.width)
        if self.put(key, event.slot):
            self.counts[key][0] += 1
        else:
            self.counts[key] = [1, self.bucket - 1]
        if self.counts[key][0] >= (self.support - self.error) * self.total:
            out.current(event.slot, event.timestamp)
        if self.total % self.width == 0:
            counted = len(self.counts)
            gone = [known for known, (count, bucket) in self.counts.items() if count + bucket <= self.bucket]
            for known in gone:
                del self.counts[known]
            self.let_go(gone, counted, out)

    def own_state(self) -> State:
        counts = [self.counts[key] for key in self.newest]
        return [list(self.newest), list(self.newest.values()), counts, self.total, self.bucket]

    def restore_own(self, state: State) -> None:
        keys, slots, counts, self.total, self.bucket = state
        self.newest = dict(zip(keys, slots, strict=True))
        self.counts = dict(zip(keys, counts, strict=True))
