"""Distribute the rows of a record batch to several batches in one loop.

    owners   0  1  0  0  2  1
    batch    a  b  c  d  e  f   ──▶   a  c  d     b  f     e

Arrow takes as many calls as there are shares and columns, each of which costs more than the rows of a small batch.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable
from functools import lru_cache

import numpy as np
import pyarrow as pa

from siddhi.engine.arrow_c.write_kernels import (
    ARROW_ARRAY_FIELDS,
    BITS,
    CHILDREN,
    FORM,
    NUMBERS,
    OFFSET,
    PLAN_FIELDS,
    RELEASE,
    RELEASE_AT,
    STRINGS,
    WIDTH,
    describe,
    write_block,
)
from siddhi.engine.jit.arrays import INT64, Int64Array
from siddhi.engine.jit.bits import address_of
from siddhi.engine.jit.kernels import state_kernel
from siddhi.engine.jit.memory import byte_at, call_at, offset_at, word_at
from siddhi.engine.tuning import MAX_DIRECTLY_HASHED_BYTES, MAX_SPLIT_KERNEL_ROWS

_FORMS = {pa.bool_(): BITS, pa.utf8(): STRINGS, pa.binary(): STRINGS}
_WIDTHS = (1, 4, 8)
_UINT32 = np.dtype(np.uint32)
_ALL_BITS = 0xFFFF_FFFF

UInt32Array = np.ndarray[tuple[int], np.dtype[np.uint32]]


def _crc_of_bytes() -> Int64Array:
    """Return the CRC-32 of each single byte, as in `zlib`.

    crc(byte) = table[0xff ^ byte] ^ 0x00ffffff ^ 0xffffffff.
    """
    table: Int64Array = np.empty(256, INT64)
    for byte in range(256):
        table[byte ^ 0xFF] = zlib.crc32(bytes([byte])) ^ _ALL_BITS ^ 0x00FF_FFFF
    return table


_CRC_OF_BYTES = _crc_of_bytes()


@state_kernel
def _hash_texts(offsets_at, data_at, valid_at, first, table, null_hash, hashes):  # type: ignore[no-untyped-def]
    """Write the CRC-32 of each text of an Arrow array into `hashes`, `null_hash` for null."""
    for row in range(len(hashes)):
        place = first + row
        if valid_at != 0 and (byte_at(valid_at + (place >> 3)) >> (place & 7)) & 1 == 0:
            hashes[row] = null_hash
            continue
        start, end = np.int64(offset_at(offsets_at + 4 * place)), np.int64(offset_at(offsets_at + 4 * place + 4))
        crc = np.int64(_ALL_BITS)
        for at in range(data_at + start, data_at + end):
            crc = table[(crc ^ np.int64(byte_at(at))) & 0xFF] ^ (crc >> 8)
        hashes[row] = crc ^ _ALL_BITS


def text_hashes(column: pa.Array, null_hash: int) -> UInt32Array | None:
    """Return the CRC-32 of each text of `column`, a utf8 array, `null_hash` for null; None when the texts are long."""
    valid, offsets, data = column.buffers()
    if data is not None and data.size > MAX_DIRECTLY_HASHED_BYTES:
        return None
    hashes: UInt32Array = np.empty(len(column), _UINT32)
    if offsets is not None and len(column):
        _hash_texts(
            offsets.address, 0 if data is None else data.address, 0 if valid is None else valid.address,
            column.offset, _CRC_OF_BYTES, null_hash, hashes,
        )  # fmt: skip
    return hashes


@state_kernel
def _write_shares(array_at, owners, plan, places, positions, counts, release_at, out):  # type: ignore[no-untyped-def]
    """Write the rows of each owner into a new block, described by line i of `out`.

    The rows come from the `ArrowArray` at `array_at`, which is released. Blocks are `ArrowArray`s that Arrow will own.
    `plan` has a line for each column (`siddhi.engine.arrow_c.write_kernels`). `counts` gets the number of rows of each
    owner; nothing is written for an owner without rows. `places` has room for one number more than there are owners,
    `positions` for the rows. Returns how many owners were processed: fewer than all when memory is exhausted.
    """
    rows, shares = len(owners), len(counts)
    for share in range(shares):
        counts[share] = 0
    for row in range(rows):
        counts[owners[row]] += 1
    places[0] = 0
    for share in range(shares):
        places[share + 1] = places[share] + counts[share]
    for row in range(rows):
        positions[places[owners[row]]] = row
        places[owners[row]] += 1
    children = np.int64(word_at(array_at + 8 * CHILDREN))
    base = np.int64(word_at(array_at + 8 * OFFSET))
    done, first = 0, 0
    for share in range(shares):
        if counts[share] > 0:
            for line in range(len(plan)):
                child = np.int64(word_at(children + 8 * line))
                describe(plan[line], child, base, rows, np.int64(positions.ctypes.data) + 8 * first)
            if not write_block(plan, counts[share], positions, 0, 0, release_at, out[share]):
                break
        first += counts[share]
        done += 1
    call_at(np.int64(word_at(array_at + 8 * RELEASE)), array_at)
    return done


class _Loop:
    """The loop over batches whose columns have the forms and widths `columns`."""

    def __init__(self, columns: list[tuple[int, int]]) -> None:
        self._plan: Int64Array = np.zeros((len(columns), PLAN_FIELDS), INT64)
        for line, column in zip(self._plan, columns, strict=True):
            line[[FORM, WIDTH]] = column

    def __call__(self, batch: pa.RecordBatch, owners: Int64Array, shares: int) -> list[tuple[int, pa.RecordBatch]]:
        read: Int64Array = np.zeros(ARROW_ARRAY_FIELDS, INT64)
        written: Int64Array = np.zeros((shares, ARROW_ARRAY_FIELDS), INT64)
        counts: Int64Array = np.empty(shares, INT64)
        read_at, written_at = address_of(read), address_of(written)
        batch._export_to_c(read_at)
        done = _write_shares(
            read_at, owners, self._plan.copy(), np.empty(shares + 1, INT64), np.empty(len(owners), INT64), counts,
            RELEASE_AT, written,
        )  # fmt: skip
        found = [
            (share, pa.RecordBatch._import_from_c(written_at + 8 * ARROW_ARRAY_FIELDS * share, batch.schema))
            for share in range(done)
            if counts[share]
        ]
        if done < shares:
            raise MemoryError(f"there is no room to share out {batch.num_rows} rows")
        return found


@lru_cache(maxsize=256)
def _loop_over(schema: pa.Schema) -> Callable[[pa.RecordBatch, Int64Array, int], list[tuple[int, pa.RecordBatch]]]:
    """Return the function that distributes rows of batches of `schema`.

    The loop, or Arrow if a column has another form.
    """
    columns = []
    for type_ in schema.types:
        plain = pa.types.is_integer(type_) or pa.types.is_floating(type_)
        if type_ in _FORMS:
            columns.append((_FORMS[type_], 0))
        elif plain and type_.byte_width in _WIDTHS:
            columns.append((NUMBERS, type_.byte_width))
        else:
            return _shared_by_arrow
    return _Loop(columns)


def _shared_by_arrow(batch: pa.RecordBatch, owners: Int64Array, shares: int) -> list[tuple[int, pa.RecordBatch]]:
    masks = ((share, owners == share) for share in range(shares))
    return [(share, batch.filter(pa.array(mask))) for share, mask in masks if mask.any()]


def share_by_owner(batch: pa.RecordBatch, owners: Int64Array, shares: int) -> list[tuple[int, pa.RecordBatch]]:
    """Return the rows of `batch` by owner, in their order; row k belongs to `owners[k]`, one of 0 up to `shares`.

    Owners without rows are left out.
    """
    if len(owners) == 0:
        return []
    first = int(owners[0])
    if (owners == first).all():
        return [(first, batch)]
    share = _loop_over(batch.schema) if len(owners) <= MAX_SPLIT_KERNEL_ROWS else _shared_by_arrow
    return share(batch, owners, shares)
