"""Which instances of a stage receive which rows: shuffle, by key or origin, all, or a single one."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterable, Mapping
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from query_plan.model import Grouping, GroupingKind
from siddhi.column_names import column_name
from siddhi.engine.arrow_c.split_by_owner import UInt32Array, share_by_owner, text_hashes
from topology.events.bundle import Bundle

NULL_HASH: Final = zlib.crc32(b"null")
"""The key of null: queries that group by a key do not distinguish null from the text 'null', as Java does."""

BoolArray = np.ndarray[tuple[int], np.dtype[np.bool_]]
KeySharer = Callable[[pa.RecordBatch, int], Iterable[tuple[int, BoolArray]]]
"""Distributes the rows of a batch to a number of instances by a computed key.

It returns a mask of the rows of each instance that gets some.
"""
NO_KEYS: Final[Mapping[str, KeySharer]] = {}


def split(
    bundle: Bundle,
    groupings: Mapping[str, Grouping],
    instances: int,
    every_instance: bool,
    keys: Mapping[str, KeySharer] = NO_KEYS,
) -> list[Bundle | None]:
    """Return the bundle for each instance of a consumer that takes `groupings`' streams, None for no bundle.

    `keys` divide the streams that are grouped by an expression or by ranges.

    With `every_instance` each of them gets every ticket, possibly without rows, so that each can order the tickets by
    itself. Without it, each ticket of a shuffled stage goes to one instance, in turn, and a stage grouped by origin
    sends all tickets of an origin to the same instance.
    """
    batches = tuple(pair for pair in bundle.batches if pair[0] in groupings)
    whole = bundle if len(batches) == len(bundle.batches) else bundle.with_batches(batches)
    if instances == 1:
        return [whole]
    kinds = {grouping.kind for grouping in groupings.values()}
    turn = _place(bundle.origin, instances) if GroupingKind.ORIGIN in kinds else _turn(bundle.ticket, instances)
    if not every_instance and kinds <= {GroupingKind.SHUFFLE, GroupingKind.ORIGIN}:
        return [whole if index == turn else None for index in range(instances)]
    shares: list[list[tuple[str, pa.RecordBatch]]] = [[] for _ in range(instances)]
    for stream, batch in batches:
        for index, part in share_rows(batch, groupings[stream], instances, turn, keys.get(stream)):
            shares[index].append((stream, part))
    return [bundle.with_batches(tuple(share)) for share in shares]


def _turn(ticket: int, instances: int) -> int:
    """Return the instance of a ticket, spread by Fibonacci hashing even if every second ticket is of another stream."""
    return (ticket * 0x9E3779B97F4A7C15 >> 32) % instances


def _place(origin: str, instances: int) -> int:
    """Return the instance that gets all tickets of `origin`; instances of one component get neighbouring ones."""
    component, _, index = origin.rpartition("#")
    return (zlib.crc32(component.encode()) + int(index)) % instances


def share_rows(
    batch: pa.RecordBatch, grouping: Grouping, instances: int, turn: int, keys: KeySharer | None
) -> Iterable[tuple[int, pa.RecordBatch]]:
    """Yield which of `instances` get which rows of `batch`; instances without rows are left out.

    `turn` is the next instance of a round robin, `keys` compute the key of an expression or of ranges.
    """
    match grouping.kind:
        case GroupingKind.ALL:
            return [(index, batch) for index in range(instances)]
        case GroupingKind.GLOBAL:
            return [(0, batch)]
        case GroupingKind.SHUFFLE | GroupingKind.ORIGIN:
            return [(turn, batch)]
        case GroupingKind.FIELDS:
            if grouping.key is None:
                raise ValueError("fields are grouped by a key")
            hashes = key_hashes(batch.column(column_name(grouping.key)))
            return share_by_owner(batch, (hashes % instances).astype(np.int64), instances)
        case GroupingKind.EXPRESSION | GroupingKind.RANGES:
            if keys is None:
                raise ValueError(f"nothing computes the key of grouping {grouping.kind.value}")
            masks = keys(batch, instances)
    return [(index, batch.filter(pa.array(mask))) for index, mask in masks if mask.any()]


def key_hashes(column: pa.Array) -> UInt32Array:
    """Return a stable hash of each value (CRC-32 of its text).

    Equal values have equal hashes on every host and at every time. `column` is of any type but binary (objects).
    Numbers are hashed by the text of their value in the column's own type, so that an integer and its text are equal;
    0.0 equals -0.0, all NaN are equal, and null is a key like any other.
    """
    if pa.types.is_string(column.type) and (hashed := text_hashes(column, NULL_HASH)) is not None:
        return hashed
    if pa.types.is_floating(column.type):
        column = pc.add(column, pa.scalar(0.0, column.type))  # -0.0 + 0.0 is 0.0
    encoded = column.dictionary_encode()
    texts = pc.cast(encoded.dictionary, pa.string()).to_pylist()
    hashes = np.array([zlib.crc32(text.encode()) for text in texts] + [NULL_HASH], dtype=np.uint32)
    codes = pc.fill_null(encoded.indices, len(texts)).to_numpy(zero_copy_only=False)
    taken: UInt32Array = hashes[codes]
    return taken
