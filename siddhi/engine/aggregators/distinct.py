"""`distinctCount`: how many different values are held."""

from __future__ import annotations

import numpy as np

from siddhi.analysis import model
from siddhi.engine.arrays import Int64Array
from siddhi.engine.expressions.aggregation import AGGREGATORS, AggregateInput, Aggregator
from siddhi.engine.expressions.evaluation import Value
from siddhi.engine.hashing import key_bits, mix
from siddhi.engine.kernels import grown, kernel, kernel_array, kernel_mask, regrouped
from siddhi.engine.kinds import CURRENT, EXPIRED
from siddhi.engine.operator import OperatorContext
from siddhi.engine.state import Codes, State
from siddhi.language.ast import AttributeType

_NULL = np.iinfo(np.int64).min
_GROUP, _EPOCH, _VALUE, _COUNT = 0, 1, 2, 3
_EMPTY = -1


@kernel
def _run_distinct(values, kinds, groups, fresh, entries, epochs, distinct, used, out):  # type: ignore[no-untyped-def]
    """Counts (group, value) pairs in the open-addressed table `entries` of rows (group, epoch, value, count).

    A group that starts anew gets another epoch, so that its old entries no longer match. Returns how many entries are
    in use.
    """
    mask = len(entries) - 1
    for row in range(len(values)):
        group = groups[row]
        if len(fresh) and fresh[row]:
            epochs[group] += 1
            distinct[group] = 0
        if kinds[row] == CURRENT or kinds[row] == EXPIRED:
            place = mix(mix(group, epochs[group]), values[row]) & mask
            while True:
                entry = entries[place]
                if entry[_GROUP] == _EMPTY:
                    entry[_GROUP] = group
                    entry[_EPOCH] = epochs[group]
                    entry[_VALUE] = values[row]
                    entry[_COUNT] = 0
                    used += 1
                    break
                if entry[_GROUP] == group and entry[_VALUE] == values[row] and entry[_EPOCH] == epochs[group]:
                    break
                place = (place + 1) & mask
            entry = entries[place]
            if kinds[row] == CURRENT:
                entry[_COUNT] += 1
                if entry[_COUNT] == 1:
                    distinct[group] += 1
            elif entry[_COUNT] > 0:
                entry[_COUNT] -= 1
                if entry[_COUNT] == 0:
                    distinct[group] -= 1
        out[row] = distinct[group]
    return used


@kernel
def _refill(entries, live):  # type: ignore[no-untyped-def]
    mask = len(entries) - 1
    for row in range(len(live)):
        place = mix(mix(live[row, _GROUP], live[row, _EPOCH]), live[row, _VALUE]) & mask
        while entries[place, _GROUP] != _EMPTY:
            place = (place + 1) & mask
        entries[place] = live[row]


@AGGREGATORS.register("distinctCount")
class DistinctCount(Aggregator):
    """The number of different values held, null being one of them."""

    def __init__(self, call: model.Aggregate, context: OperatorContext) -> None:
        self.strings = call.arguments[0].type is AttributeType.STRING
        self.entries: Int64Array = np.full((16, 4), _EMPTY, dtype=np.int64)
        self.used = 0
        self.epochs: Int64Array = np.zeros(8, dtype=np.int64)
        self.distinct: Int64Array = np.zeros(8, dtype=np.int64)

    def update(self, rows: AggregateInput) -> Value:
        size = len(rows.kinds)
        if 2 * (self.used + size) > len(self.entries):
            live = self._live()
            self._fill(live, 4 * (len(live) + size))
        self.epochs = grown(self.epochs, rows.group_count)
        self.distinct = grown(self.distinct, rows.group_count)
        out = np.empty(size, dtype=np.int64)
        values = kernel_array(key_bits(rows.values, rows.valid, _NULL))
        kinds, groups, fresh = kernel_array(rows.kinds), kernel_array(rows.groups), kernel_mask(rows.fresh)
        self.used = _run_distinct(
            values, kinds, groups, fresh, self.entries, self.epochs, self.distinct, self.used, out
        )
        return Value(out)

    def _live(self) -> Int64Array:
        """The entries that still count for something."""
        used = self.entries[(self.entries[:, _GROUP] != _EMPTY) & (self.entries[:, _COUNT] > 0)]
        current: Int64Array = used[used[:, _EPOCH] == self.epochs[used[:, _GROUP]]]
        return current

    def _fill(self, live: Int64Array, size: int) -> None:
        self.entries = np.full((1 << int(max(size, 16) - 1).bit_length(), 4), _EMPTY, dtype=np.int64)
        _refill(self.entries, live)
        self.used = len(live)

    def keep_groups(self, kept: Int64Array) -> None:
        numbers = np.full(max(len(self.epochs), int(kept.max(initial=-1)) + 1), _EMPTY, dtype=np.int64)
        numbers[kept] = np.arange(len(kept))
        live = self._live()
        live[:, _GROUP] = numbers[live[:, _GROUP]]
        live = live[live[:, _GROUP] != _EMPTY]
        self.epochs = regrouped(self.epochs, kept)
        self.distinct = regrouped(self.distinct, kept)
        self._fill(live, 4 * len(live))

    def snapshot(self) -> State:
        live = self._live()
        values = live[:, _VALUE].copy()
        return [live, Codes(values) if self.strings else values, self.epochs.copy(), self.distinct.copy()]

    def restore(self, state: State) -> None:
        live, values, self.epochs, self.distinct = state
        live[:, _VALUE] = values.array if isinstance(values, Codes) else values
        self._fill(live, 4 * len(live))
