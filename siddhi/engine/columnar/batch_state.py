"""Snapshots of batches that operators keep."""

from __future__ import annotations

from siddhi.engine.columnar.batch import EventBatch
from siddhi.engine.columnar.column import Column
from siddhi.engine.columnar.state_tree import Codes, State
from siddhi.engine.columnar.strings import StringPool
from siddhi.language.ast import AttributeType


def snapshot_batch(batch: EventBatch | None) -> State:
    """Return the state of `batch`."""
    if batch is None:
        return None
    columns = {
        name: [
            column.type.value,
            Codes(column.values) if column.type is AttributeType.STRING else column.values,
            None if column.type in (AttributeType.STRING, AttributeType.OBJECT) else column.valid,
        ]
        for name, column in batch.columns.items()
    }
    lines = [batch.timestamps, batch.kinds, batch.orders, batch.clocks, batch.chunks, batch.partitions]
    return {"lines": lines, "columns": columns}


def restore_batch(state: State, pool: StringPool) -> EventBatch | None:
    """Return the batch from a state of `snapshot_batch`."""
    if state is None:
        return None
    columns = {}
    for name, (type_, values, valid) in state["columns"].items():
        array = values.array if isinstance(values, Codes) else values
        columns[name] = Column(AttributeType(type_), pool, values=array, valid=valid)
    timestamps, kinds, orders, clocks, chunks, partitions = state["lines"]
    return EventBatch(timestamps, kinds, orders, clocks, columns, chunks, partitions)
