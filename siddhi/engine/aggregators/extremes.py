"""`min`, `max` of what is held, and `minForever`, `maxForever` of what ever came."""

from __future__ import annotations

import numpy as np

from siddhi.analysis import model
from siddhi.engine.arrays import AnyArray, BoolArray, Int64Array
from siddhi.engine.expressions.aggregation import AGGREGATORS, AggregateInput, Aggregator
from siddhi.engine.expressions.evaluation import Value, as_type
from siddhi.engine.kernels import grown, kernel, kernel_array, kernel_mask, regrouped
from siddhi.engine.kinds import CURRENT, EXPIRED
from siddhi.engine.operator import OperatorContext
from siddhi.engine.state import State
from siddhi.language.ast import AttributeType

_NONE = -1


@kernel
def _run_extremes(  # type: ignore[no-untyped-def]  # noqa: C901, PLR0912 - one loop, compiled as a whole
    values, valid, kinds, groups, fresh, largest, heads, tails, items, links, back, free, out, out_valid
):
    """Keeps for each group the values that may still become its extreme, best first, as a linked list of pool nodes.

    A newcomer drops the worse values behind the best; a leaving value drops its first equal. `free[0]` heads the list
    of unused nodes (chained by `links`).
    """
    for row in range(len(values)):
        group = groups[row]
        if len(fresh) and fresh[row]:
            while heads[group] >= 0:
                node = heads[group]
                heads[group] = links[node]
                links[node] = free[0]
                free[0] = node
            tails[group] = -1
        if len(valid) == 0 or valid[row]:
            value = values[row]
            if kinds[row] == CURRENT:
                while tails[group] >= 0:
                    node = tails[group]
                    if (largest and not items[node] < value) or (not largest and not items[node] > value):
                        break
                    tails[group] = back[node]
                    links[node] = free[0]
                    free[0] = node
                node = free[0]
                free[0] = links[node]
                items[node] = value
                links[node] = -1
                back[node] = tails[group]
                if tails[group] >= 0:
                    links[tails[group]] = node
                else:
                    heads[group] = node
                tails[group] = node
            elif kinds[row] == EXPIRED:
                node = heads[group] if tails[group] >= 0 else -1
                while node >= 0 and items[node] != value and not (np.isnan(items[node]) and np.isnan(value)):
                    node = links[node]
                if node >= 0:
                    before, after = back[node], links[node]
                    if before >= 0:
                        links[before] = after
                    else:
                        heads[group] = after
                    if after >= 0:
                        back[after] = before
                    else:
                        tails[group] = before
                    links[node] = free[0]
                    free[0] = node
        out_valid[row] = tails[group] >= 0
        if tails[group] >= 0:
            out[row] = items[heads[group]]


class _Extreme(Aggregator):
    """The state is one list a group in a common pool of nodes, in the argument's widened dtype (int64 or float64)."""

    largest: bool

    def __init__(self, call: model.Aggregate, context: OperatorContext) -> None:
        self.type = call.type
        whole = call.type in (AttributeType.INT, AttributeType.LONG)
        self.items: AnyArray = np.zeros(16, dtype=np.int64 if whole else np.float64)
        self.links: Int64Array = np.append(np.arange(1, 16), _NONE)
        self.back: Int64Array = np.full(16, _NONE, dtype=np.int64)
        self.free: Int64Array = np.zeros(1, dtype=np.int64)
        self.heads: Int64Array = np.full(8, _NONE, dtype=np.int64)
        self.tails: Int64Array = np.full(8, _NONE, dtype=np.int64)
        self.unused = 16

    def update(self, rows: AggregateInput) -> Value:
        size = len(rows.kinds)
        self._make_room(size, rows.group_count)
        out = np.zeros(size, dtype=self.items.dtype)
        out_valid: BoolArray = np.empty(size, dtype=np.bool_)
        _run_extremes(
            kernel_array(rows.values, self.items.dtype),
            kernel_mask(rows.valid),
            kernel_array(rows.kinds),
            kernel_array(rows.groups),
            kernel_mask(rows.fresh),
            self.largest,
            self.heads,
            self.tails,
            self.items,
            self.links,
            self.back,
            self.free,
            out,
            out_valid,
        )
        return Value(as_type(out, self.type), None if out_valid.all() else out_valid)

    def _make_room(self, rows: int, groups: int) -> None:
        self.heads = grown(self.heads, groups, _NONE)
        self.tails = grown(self.tails, groups, _NONE)
        self.unused -= rows
        if self.unused >= 0:
            return
        self.unused = _chain_length(self.links, self.free[0]) - rows
        if self.unused >= 0:
            return
        old = len(self.items)
        self.items = grown(self.items, old + rows)
        self.back = grown(self.back, len(self.items), _NONE)
        self.links = grown(self.links, len(self.items), _NONE)
        self.links[old:] = np.append(np.arange(old + 1, len(self.items)), self.free[0])
        self.free[0] = old
        self.unused += len(self.items) - old

    def keep_groups(self, kept: Int64Array) -> None:
        gone = np.ones(len(self.heads), dtype=np.bool_)
        gone[kept[kept < len(gone)]] = False
        _free_lists(np.flatnonzero(gone), self.heads, self.links, self.free)
        self.heads = regrouped(self.heads, kept, _NONE)
        self.tails = regrouped(self.tails, kept, _NONE)

    def snapshot(self) -> State:
        arrays = (self.items, self.links, self.back, self.free, self.heads, self.tails)
        return [*(array.copy() for array in arrays), self.unused]

    def restore(self, state: State) -> None:
        self.items, self.links, self.back, self.free, self.heads, self.tails, self.unused = state


@kernel
def _free_lists(groups, heads, links, free):  # type: ignore[no-untyped-def]
    """The nodes of `groups` are free."""
    for group in groups:
        while heads[group] >= 0:
            node = heads[group]
            heads[group] = links[node]
            links[node] = free[0]
            free[0] = node


@kernel
def _chain_length(links, node):  # type: ignore[no-untyped-def]
    length = 0
    while node >= 0:
        length += 1
        node = links[node]
    return length


@AGGREGATORS.register("max")
class Maximum(_Extreme):
    """The largest non-null value held, null when there is none."""

    largest = True


@AGGREGATORS.register("min")
class Minimum(_Extreme):
    """The least non-null value held, null when there is none."""

    largest = False


@kernel
def _run_records(values, valid, kinds, groups, fresh, largest, records, known, out, out_valid):  # type: ignore[no-untyped-def]
    for row in range(len(values)):
        group = groups[row]
        if len(fresh) and fresh[row]:
            known[group] = False
        if (len(valid) == 0 or valid[row]) and (kinds[row] == CURRENT or kinds[row] == EXPIRED):
            value = values[row]
            if not known[group] or (largest and value > records[group]) or (not largest and value < records[group]):
                records[group] = value
                known[group] = True
        out[row] = records[group]
        out_valid[row] = known[group]


class _Record(Aggregator):
    """What leaves a window counts as it did when it came; only a batch window's reset starts anew."""

    largest: bool

    def __init__(self, call: model.Aggregate, context: OperatorContext) -> None:
        self.type = call.type
        whole = call.type in (AttributeType.INT, AttributeType.LONG)
        self.records: AnyArray = np.zeros(8, dtype=np.int64 if whole else np.float64)
        self.known: BoolArray = np.zeros(8, dtype=np.bool_)

    def update(self, rows: AggregateInput) -> Value:
        size = len(rows.kinds)
        self.records = grown(self.records, rows.group_count)
        self.known = grown(self.known, rows.group_count)
        out = np.empty(size, dtype=self.records.dtype)
        out_valid: BoolArray = np.empty(size, dtype=np.bool_)
        values = kernel_array(rows.values, self.records.dtype)
        mask, fresh = kernel_mask(rows.valid), kernel_mask(rows.fresh)
        kinds, groups = kernel_array(rows.kinds), kernel_array(rows.groups)
        _run_records(values, mask, kinds, groups, fresh, self.largest, self.records, self.known, out, out_valid)
        return Value(as_type(out, self.type), None if out_valid.all() else out_valid)

    def keep_groups(self, kept: Int64Array) -> None:
        self.records = regrouped(self.records, kept)
        self.known = regrouped(self.known, kept)

    def snapshot(self) -> State:
        return [self.records.copy(), self.known.copy()]

    def restore(self, state: State) -> None:
        self.records, self.known = state


@AGGREGATORS.register("maxForever")
class MaximumForever(_Record):
    """The largest non-null value since the last reset, whether still held or not."""

    largest = True


@AGGREGATORS.register("minForever")
class MinimumForever(_Record):
    """The least non-null value since the last reset, whether still held or not."""

    largest = False
