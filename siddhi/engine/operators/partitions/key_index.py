"""Map the values of a key to partition instances, without converting known values to text.

value    "b"  7.5                    known: table[code] is the instance
code      3   number in a hash table
                                     new:   text of the value ──Instances──▶ instance, learnt for the next time
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from siddhi.engine.columnar.batch import EventBatch
from siddhi.engine.columnar.column import Column
from siddhi.engine.columnar.hashing import KeyTable
from siddhi.engine.columnar.state_tree import CodeChange, State
from siddhi.engine.jit.arrays import AnyArray, Int64Array
from siddhi.engine.jit.kernels import grown, state_kernel
from siddhi.engine.jit.memory import fetch
from siddhi.engine.operators.base.operator import Stateful, Step
from siddhi.engine.operators.functions.conversion import java_text
from siddhi.engine.operators.partitions.registry import PartitionInstances
from siddhi.engine.tuning import KEY_INDEX_PREFETCH_ROWS, MAX_CACHED_KEY_CODES, MIN_FORGOTTEN_NUMBERS
from siddhi.language.ast import AttributeType

NO_INSTANCE = -1
_RAW = {AttributeType.FLOAT: np.int32, AttributeType.DOUBLE: np.int64}


@state_kernel
def _look_up(codes, table, ids):  # type: ignore[no-untyped-def]
    """Write the instance of each code into `ids`, `NO_INSTANCE` if it is unknown; return the number of unknown ones."""
    unknown = 0
    rows = codes.shape[0]
    far = table.shape[0] > MAX_CACHED_KEY_CODES
    for row in range(rows):
        if far and row + KEY_INDEX_PREFETCH_ROWS < rows:
            fetch(np.int64(table.ctypes.data) + 4 * codes[row + KEY_INDEX_PREFETCH_ROWS])
        code = codes[row]
        instance = np.int64(NO_INSTANCE)
        if 0 <= code < table.shape[0]:
            instance = np.int64(table[code])
        ids[row] = instance
        if instance < 0:
            unknown += 1
    return unknown


@state_kernel
def _rows_of_new(codes, ids, rows):  # type: ignore[no-untyped-def]
    """Write the rows that have a code but no instance; return their number."""
    count = 0
    for row in range(codes.shape[0]):
        if ids[row] < 0 and codes[row] >= 0:
            rows[count] = row
            count += 1
    return count


class KeyIndex(Stateful):
    """A cache of the results of one key expression of type `type_`.

    It is not part of the state: missing entries are looked up by text again.
    """

    def __init__(self, type_: AttributeType, instances: PartitionInstances) -> None:
        self._type = type_
        self._instances = instances
        self._forget()

    def _forget(self) -> None:
        self._table: AnyArray = np.full(64, NO_INSTANCE, dtype=np.int32)
        self._numbers = KeyTable(1)

    def ids(self, column: Column, batch: EventBatch, step: Step) -> tuple[Int64Array, bool]:
        """Return the instance of each row of `batch` by its key in `column`, `NO_INSTANCE` where that is null.

        Also return whether all rows have one.
        """
        codes = self._codes(column)
        ids: Int64Array = np.empty(len(codes), dtype=np.int64)
        unknown = _look_up(codes, self._table, ids)
        if not unknown:
            return ids, True
        new: Int64Array = np.empty(unknown, dtype=np.int64)
        new = new[: _rows_of_new(codes, ids, new)]
        if len(new):
            texts = self._texts(column.take(new))
            found = ids[new] = self._instances.ids_of(texts, step, batch.orders[new], batch.clocks[new])
            learnt = codes[new]
            self._table = grown(self._table, int(learnt.max()) + 1, NO_INSTANCE)
            self._table[learnt] = found
        return ids, len(new) == unknown

    def find(self, codes: Int64Array, ids: Int64Array) -> bool:
        """Write the instance of each key, a string with one of `codes`, into `ids`.

        Return False when one is null or unknown.
        """
        return not _look_up(codes, self._table, ids)

    def _codes(self, column: Column) -> Int64Array:
        """Return a code for each value, -1 for null; codes are equal exactly for equal keys."""
        if self._type is AttributeType.STRING:
            return column.values
        if self._type is AttributeType.OBJECT:
            return column.pool.codes(java_text(value, self._type) for value in column.values)
        codes = self._numbers.ids(_bits(column.values, self._type).reshape(-1, 1))
        return codes if column.valid is None else np.where(column.valid, codes, NO_INSTANCE)

    def _texts(self, column: Column) -> pa.StringArray:
        """Return the text that Java would write for each value, none of which is null."""
        if self._type is AttributeType.STRING:
            return column.to_arrow()
        if self._type in (AttributeType.INT, AttributeType.LONG, AttributeType.BOOL):
            return column.to_arrow().cast(pa.utf8())
        return pa.array([java_text(value, self._type) for value in column.to_list()], pa.utf8())

    # ---- invalidation

    def close_partitions(self, partitions: Int64Array) -> None:
        """Record that the ids `partitions` may be assigned to other keys."""
        if self._numbers.count > 2 * len(self._instances) + MIN_FORGOTTEN_NUMBERS:
            self._forget()
        else:
            self._table[np.isin(self._table, partitions)] = NO_INSTANCE

    def live_codes(self) -> Iterator[Int64Array]:
        return iter(())

    def recode(self, change: CodeChange) -> None:
        self._forget()

    def snapshot(self) -> State:
        return None

    def restore(self, state: State) -> None:
        self._forget()


def _bits(values: AnyArray, type_: AttributeType) -> Int64Array:
    """Return numbers as int64 that differ where their texts do.

    Fractions are returned as their bits, as Java's -0.0 is not 0.0.
    """
    return (values.view(_RAW[type_]) if type_ in _RAW else values).astype(np.int64, copy=False)
