"""Find the instances of a partition for small batches."""

from __future__ import annotations

import numpy as np

from siddhi.engine.jit.arrays import INT64, Int64Array
from siddhi.engine.operators.expressions.leaves import ColumnNode
from siddhi.engine.operators.partitions.key_index import KeyIndex
from siddhi.engine.operators.partitions.keys import KeyedStream
from siddhi.engine.operators.partitions.registry import PartitionInstances
from siddhi.engine.tuning import MAX_SMALL_BATCH_ROWS
from siddhi.language.ast import AttributeType


class InstanceKeys:
    """Finds the instances of rows by the code of their attribute `attribute`, for the query `listener`."""

    def __init__(self, attribute: str, index: KeyIndex, instances: PartitionInstances, listener: str) -> None:
        self.attribute = attribute
        self._index = index
        self._instances = instances
        self._listener = listener
        self._ids: Int64Array = np.zeros(MAX_SMALL_BATCH_ROWS, INT64)

    def ids(self, codes: Int64Array) -> Int64Array | None:
        """Return the instance of each row by the code of its key.

        Return None when a row has no key or a new one, or when the query has not been notified of all instances.
        """
        ids = self._ids[: len(codes)]
        if self._instances.has_news(self._listener) or not self._index.find(codes, ids):
            return None
        return ids


def instance_keys(entrance: KeyedStream, listener: str) -> InstanceKeys | None:
    """Return the lookup of instances for events that enter by `entrance`.

    Return None when that takes more than a lookup of a string's code.
    """
    node = entrance.node
    if not isinstance(node, ColumnNode) or node.type is not AttributeType.STRING:
        return None
    return InstanceKeys(node.column, entrance.index, entrance.instances, listener)
