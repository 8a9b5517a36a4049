"""The order of an aggregation's rows when a query does not sort them.

With `aggregate by` Siddhi collects rows in a Java hash map with texts made of the bucket and the group as keys. A plan
that prints or limits them unsorted shows that order. Without it rows are in order of time.
"""

from __future__ import annotations

import numpy as np

from siddhi.engine.columnar.hashing import NULL_KEY
from siddhi.engine.columnar.java_order import string_hash
from siddhi.engine.columnar.java_text import floating_text
from siddhi.engine.jit.arrays import Int64Array
from siddhi.engine.operators.selection.groups import Groups
from siddhi.language.ast import AttributeType

_DELIMITER = ":-:"
_MASK = 0xFFFFFFFF


class GroupTexts:
    """Caches the Java hash of each group's text, and the factor for the preceding text."""

    def __init__(self, groups: Groups) -> None:
        self.groups = groups
        self._hashes: list[int] = []
        self._factors: list[int] = []

    def clear(self) -> None:
        """Clear the cache, as group ids have changed."""
        self._hashes.clear()
        self._factors.clear()

    def hashes(self, starts: Int64Array, groups: Int64Array) -> Int64Array:
        """Return the Java hash of the text of each row's bucket and group."""
        self._work_out_new()
        distinct, inverse = np.unique(starts, return_inverse=True)
        fronts = np.array([string_hash(f"{start}{_DELIMITER}") for start in distinct.tolist()], dtype=np.uint64)
        tails = np.array(self._hashes, dtype=np.uint64)
        factors = np.array(self._factors, dtype=np.uint64)
        combined: Int64Array = ((fronts[inverse] * factors[groups] + tails[groups]) & np.uint64(_MASK)).astype(np.int64)
        return combined

    def _work_out_new(self) -> None:
        table = self.groups.table
        if not table.width:
            self._hashes, self._factors = [0], [1]
            return
        for key in table.keys[len(self._hashes) :].tolist():
            parts = [self._text(bits, type_) for bits, (_, type_) in zip(key, self.groups.columns, strict=True)]
            text = "".join(f"{part}{_DELIMITER}" for part in parts)
            self._hashes.append(string_hash(text))
            self._factors.append(pow(31, len(text.encode("utf-16-be", "surrogatepass")) // 2, _MASK + 1))

    def _text(self, bits: int, type_: AttributeType) -> str:
        if type_ in (AttributeType.STRING, AttributeType.OBJECT):
            return self.groups.pool.text(bits) or "null"
        if bits == NULL_KEY:
            return "null"
        if type_ is AttributeType.BOOL:
            return "true" if bits else "false"
        if type_ in (AttributeType.FLOAT, AttributeType.DOUBLE):
            value = float(np.int64(bits).view(np.float64))
            return floating_text(value, single=type_ is AttributeType.FLOAT)
        return str(bits)


def hash_map_places(hashes: Int64Array) -> Int64Array:
    """Return the positions of rows with these hashes, inserted in this order, as a Java `HashMap` iterates them."""
    size = 16
    while len(hashes) > size * 3 // 4:
        size *= 2
    buckets = (hashes ^ hashes >> 16) & (size - 1)
    return np.argsort(buckets, kind="stable")
