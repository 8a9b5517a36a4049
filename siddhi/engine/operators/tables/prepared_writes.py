"""The data about queries that the write loop of a table needs before any event arrives."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from siddhi.engine.jit.arrays import BoolArray, FloatArray, Int64Array
from siddhi.engine.operators.tables.hash_index import HashIndex


class PreparedWrites(NamedTuple):
    """The data that is the same for all batches.

    It consists of the index that finds rows, the indexes that the loop updates and those updated after it, whether rows
    are deleted, the writers, their programs, whether these divide (which may give null), and registers. It keeps the
    plans alive, because it is cached by their identity.
    """

    plans: Sequence[object]
    lookup: HashIndex | None
    live: Sequence[HashIndex]
    touched: Sequence[HashIndex]
    deletes: bool
    writers: Int64Array
    lines: Int64Array
    divides: bool
    registers: tuple[Int64Array, FloatArray, BoolArray]
