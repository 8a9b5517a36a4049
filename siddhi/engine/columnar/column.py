"""The values of one attribute, as an Arrow or a numpy array."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa

from siddhi.arrow_types import ARROW_TYPES
from siddhi.engine.arrow_c.write_kernels import (
    BITS,
    CODES,
    FLAGS,
    NUMBERS,
    STRINGS,
    write_line,
)
from siddhi.engine.columnar.strings import NULL_CODE, StringPool, take_strings
from siddhi.engine.jit.arrays import AnyArray, BoolArray, Int64Array
from siddhi.language.ast import AttributeType
from siddhi.nesting import write_objects

DTYPES: dict[AttributeType, np.dtype[np.generic]] = {
    AttributeType.STRING: np.dtype(np.int64),
    AttributeType.INT: np.dtype(np.int32),
    AttributeType.LONG: np.dtype(np.int64),
    AttributeType.FLOAT: np.dtype(np.float32),
    AttributeType.DOUBLE: np.dtype(np.float64),
    AttributeType.BOOL: np.dtype(np.bool_),
    AttributeType.OBJECT: np.dtype(object),
}
_STRING, _BOOL, _OBJECT = AttributeType.STRING, AttributeType.BOOL, AttributeType.OBJECT
"""Looking up enumeration members is slow, and columns do it several times for each event."""
_py_buffer = pa.py_buffer


class Column:
    """n values of one attribute type.

    `values` holds numbers and bools in the type's own dtype, strings as int64 codes of `pool`, objects as a numpy
    object array; `valid` is None when no value is null. A column keeps the form from which it was made, Arrow or numpy,
    and makes the other one on first use: rows that are only passed on are never decoded, and rows taken from an Arrow
    array are looked up there on first use.
    """

    __slots__ = ("_address", "_arrow", "_positions", "_valid", "_values", "pool", "type")

    def __init__(
        self,
        type_: AttributeType,
        pool: StringPool,
        values: AnyArray | None = None,
        valid: BoolArray | None = None,
        arrow: pa.Array | None = None,
        positions: Int64Array | None = None,
        address: int = 0,
    ) -> None:
        """Create a column.

        `positions` are those of the values in `arrow`, None for all of it; `address` is where `values` are stored
        contiguously, if that is known.
        """
        self.type = type_
        self.pool = pool
        self._values: Any = values
        self._valid = valid
        self._arrow: Any = arrow
        self._positions = positions
        self._address = address

    def __len__(self) -> int:
        """Return the number of rows."""
        if self._values is not None:
            return len(self._values)
        return len(self._arrow if self._positions is None else self._positions)

    @property
    def values(self) -> AnyArray:
        """Return the values as numpy; the value at a null is unspecified (codes: `NULL_CODE`, objects: None)."""
        if self._values is None:
            self._load()
        values: AnyArray = self._values
        return values

    @property
    def address(self) -> int:
        """Return the address of `values`, made contiguous, which is valid as long as the column exists."""
        if not self._address:
            values = self.values
            if not values.flags.c_contiguous:
                values = self._values = values.copy()
            self._address = int(_py_buffer(values).address)
        return self._address

    @property
    def valid(self) -> BoolArray | None:
        """True where a value is not null, or None when all are valid."""
        if self._values is None:
            self._load()
        if self._valid is None:
            if self.type is _STRING:
                if len(self._values) == 1 and self._values.item(0) >= 0:  # the common case of a single event
                    return None
                return mask_or_none(self._values >= 0)
            if self.type is _OBJECT:
                items = self._values.tolist()
                return mask_or_none(np.fromiter((item is not None for item in items), np.bool_, len(items)))
        return self._valid

    def _load(self) -> None:
        type_ = self.type
        if type_ is _STRING:
            positions = self._positions
            if positions is not None and len(positions) == 1:  # a slice costs less than a copy
                self._values = self.pool.encode(self._arrow.slice(positions[0], 1))
            else:
                self._values = self.pool.encode(self.to_arrow())
            return
        if self._is_viewed:
            values = viewed_numbers(self._arrow)
            if self._positions is not None:
                values = values[self._positions]  # numpy takes much faster than Arrow
                self._arrow = self._positions = None
            self._values = values
            return
        array = self.to_arrow()
        if type_ is _OBJECT:
            self._values = objects(None if text is None else msgspec.json.decode(text) for text in array.to_pylist())
        elif array.null_count == 0:
            self._values = array.to_numpy(zero_copy_only=False)
        else:
            self._valid = array.is_valid().to_numpy(zero_copy_only=False)
            self._values = array.fill_null(False if type_ is _BOOL else 0).to_numpy(zero_copy_only=False)

    @property
    def _is_viewed(self) -> bool:
        """Whether numpy can use the Arrow array without a copy."""
        type_ = self.type
        return type_ is not _STRING and type_ is not _BOOL and type_ is not _OBJECT and not self._arrow.null_count

    def take(self, positions: Int64Array) -> Column:
        """Return the column of the values at `positions`, in that order."""
        if self._values is None:
            if len(positions) == 1 and len(self) == 1:
                return self  # a single event that passes
            among = positions if self._positions is None else self._positions[positions]
            return Column(self.type, self.pool, arrow=self._arrow, positions=among)
        valid = None if self._valid is None else self._valid[positions]
        return Column(self.type, self.pool, values=self._values[positions], valid=valid)

    def to_arrow(self) -> pa.Array:
        """Return the column as the Arrow type of `ARROW_TYPES`."""
        array = self._arrow
        if array is not None:
            if self._positions is not None:
                array = self._arrow = self._taken(array, self._positions)
                self._positions = None
            return array
        if self.type is _STRING:
            return self.pool.decode(self._values)
        if self.type is _OBJECT:
            return pa.array(write_objects(self._values.tolist()), pa.binary())
        if self._valid is not None:
            return pa.array(self._values, mask=~self._valid)
        return pa.array(self._values) if self.type is _BOOL else viewed(ARROW_TYPES[self.type], self._values)

    def _taken(self, array: pa.Array, positions: Int64Array) -> pa.Array:
        if self.type is _STRING:
            return take_strings(array, positions)
        if self._is_viewed:
            return viewed(array.type, array.to_numpy()[positions])
        return array.take(pa.array(positions))

    def describe(self, plan: bytearray, at: int) -> object:
        """Write where the values are into `plan` from byte `at` on, for `siddhi.engine.arrow_c.write_kernels`.

        Return an object that keeps them alive. Columns of objects are not supported.
        """
        values, type_ = self._values, self.type
        if values is None:
            return self._describe_arrow(plan, at)
        kept, values_at = None, self._address
        if not values_at:
            kept = _py_buffer(values if values.flags.c_contiguous else values.copy())
            values_at = kept.address
        known, valid_at = None, 0
        if self._valid is not None:
            known = numpy_buffer(self._valid)
            valid_at = known.address
        if type_ is _STRING:
            write_line(plan, at, CODES, 0, values_at, 0, 0, 0, 0, 0, 0)
        elif type_ is _BOOL:
            write_line(plan, at, FLAGS, 0, values_at, valid_at, -1, 0, 0, 0, 0)
        else:
            write_line(plan, at, NUMBERS, values.itemsize, values_at, valid_at, -1, 0, 0, 0, 0)
        return self, kept, known

    def _describe_arrow(self, plan: bytearray, at: int) -> object:
        array, positions, type_ = self._arrow, self._positions, self.type
        kept, rows_at = None, 0
        if positions is not None:
            kept = numpy_buffer(positions)
            rows_at = kept.address
        buffers = array.buffers()
        first = array.offset
        valid_at = 0 if buffers[0] is None or not array.null_count else buffers[0].address
        values_at = 0 if buffers[1] is None else buffers[1].address
        if type_ is _STRING:
            text = buffers[2]
            text_at, text_end = (0, 0) if text is None else (text.address, text.address + text.size)
            write_line(plan, at, STRINGS, 0, values_at + 4 * first, valid_at, first, rows_at, 0, text_at, text_end)
        elif type_ is _BOOL:
            write_line(plan, at, BITS, 0, values_at, valid_at, first, rows_at, first, 0, 0)
        else:
            width = array.type.byte_width
            write_line(plan, at, NUMBERS, width, values_at + width * first, valid_at, first, rows_at, 0, 0, 0)
        return array, kept

    def to_list(self) -> list[object]:
        """Return the values as Python objects, null as None."""
        if self._values is None:
            self._load()
        if self.type is _STRING:
            return list(self.pool.texts(self._values))
        values: list[object] = self._values.tolist()
        if self._valid is None:
            return values
        return [value if valid else None for value, valid in zip(values, self._valid.tolist(), strict=True)]

    @staticmethod
    def of(type_: AttributeType, pool: StringPool, items: Sequence[object]) -> Column:
        """Return the column of Python values, None as null."""
        if type_ is _STRING:
            return Column(type_, pool, values=pool.codes(items))  # type: ignore[arg-type]
        if type_ is _OBJECT:
            return Column(type_, pool, values=objects(items))
        if None not in items:
            return Column(type_, pool, values=np.array(items, dtype=DTYPES[type_]))
        valid = np.array([item is not None for item in items], dtype=np.bool_)
        values = np.array([0 if item is None else item for item in items], dtype=DTYPES[type_])
        return Column(type_, pool, values=values, valid=mask_or_none(valid))

    @staticmethod
    def nulls(type_: AttributeType, pool: StringPool, count: int) -> Column:
        """Return a column of `count` nulls."""
        if type_ is _STRING:
            return Column(type_, pool, values=np.full(count, NULL_CODE, dtype=np.int64))
        if type_ is _OBJECT:
            return Column(type_, pool, values=np.full(count, None, dtype=object))
        return Column(type_, pool, values=np.zeros(count, dtype=DTYPES[type_]), valid=np.zeros(count, dtype=np.bool_))

    @staticmethod
    def concat(columns: Sequence[Column]) -> Column:
        """Return the columns (at least one, all of one type) one after the other."""
        first = columns[0]
        if len(columns) == 1:
            return first
        if all(column._values is None for column in columns):
            return Column(first.type, first.pool, arrow=pa.concat_arrays([column.to_arrow() for column in columns]))
        values = np.concatenate([column.values for column in columns])
        if first.type in (_STRING, _OBJECT):
            return Column(first.type, first.pool, values=values)
        masks = [column.valid for column in columns]
        if all(mask is None for mask in masks):
            return Column(first.type, first.pool, values=values)
        filled = [
            np.ones(len(column), dtype=np.bool_) if mask is None else mask
            for column, mask in zip(columns, masks, strict=True)
        ]
        return Column(first.type, first.pool, values=values, valid=np.concatenate(filled))


def viewed(type_: pa.DataType, values: AnyArray) -> pa.Array:
    """Return an Arrow array of numbers without nulls, over the same memory if that is contiguous."""
    return pa.Array.from_buffers(type_, len(values), [None, numpy_buffer(values)])


def viewed_numbers(array: pa.Array) -> Any:
    """Return the numbers of `array`, which has no nulls, as a read-only numpy view of the same memory."""
    return np.from_dlpack(array)  # half the cost of `to_numpy`


def numpy_buffer(values: AnyArray) -> pa.Buffer:
    """Return `values` as a contiguous array, without a copy if they already are."""
    return _py_buffer(values if values.flags.c_contiguous else values.copy())


def objects(items: Iterable[object]) -> AnyArray:
    """Return a one-dimensional object array of `items` (lists and sets are items, not dimensions)."""
    return np.fromiter(items, dtype=object)


def mask_or_none(mask: BoolArray) -> BoolArray | None:
    """Return `mask`, or None if it is true everywhere."""
    return None if mask.all() else mask
