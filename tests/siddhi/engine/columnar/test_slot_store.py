"""Rows that a window stores in slots."""

from __future__ import annotations

import numpy as np

from siddhi.engine.columnar.batch import EventBatch
from siddhi.engine.columnar.column import Column
from siddhi.engine.columnar.slot_store import SlotStore
from siddhi.engine.columnar.state_tree import decode_state, encode_state
from siddhi.engine.columnar.strings import StringPool
from siddhi.language.ast import AttributeType

TYPES = {"k": AttributeType.STRING, "v": AttributeType.INT}


def rows(pool: StringPool, count: int) -> EventBatch:
    numbers = np.arange(count)
    items = {"k": [f"k{number}" for number in range(count)], "v": [None, *range(1, count)]}
    columns = {name: Column.of(type_, pool, items[name]) for name, type_ in TYPES.items()}
    return EventBatch(numbers, None, numbers, numbers, columns, only_current=True)


def test_a_snapshot_has_the_rows_and_no_spare_room() -> None:
    pool = StringPool()
    store = SlotStore(TYPES, pool)
    store.add(rows(pool, 9))
    store.free([4])
    state = store.snapshot()
    assert len(state["timestamps"]) == len(state["columns"]["v"][0]) == len(state["columns"]["v"][1]) == 9
    assert state["columns"]["k"][1] is None

    restored = SlotStore(TYPES, pool)
    restored.restore(decode_state(b"".join(encode_state(state))))
    assert restored.add(rows(pool, 2)).tolist() == [4, 9]
    taken = restored.take(np.array([0, 3, 4, 8, 9]))
    assert taken["k"].to_list() == ["k0", "k3", "k0", "k8", "k1"]
    assert taken["v"].to_list() == [None, 3, None, 8, 1]
    assert len(restored) == 10
