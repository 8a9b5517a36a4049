"""distinctCount: a table of how often each group holds each value."""

from __future__ import annotations

import numpy as np

from siddhi.engine.aggregators.moves import (
    ADD,
    CELL,
    CLEAR,
    ENTRIES,
    EPOCH,
    GROUP_SHIFT,
    HOLDS,
    LINE,
    MASK,
    NARROW,
    NO_OWNER,
    NULL_VALUE,
    OWNER,
    REAL,
    REMOVE,
    ROW_MASK,
    ROW_SHIFT,
    SOURCE,
    VALUE,
    WRITE,
    called,
    inlined,
    is_null,
    kernel,
)
from siddhi.engine.hashing import mix


@inlined
def _counted(aim, row, wide, narrow, valid):  # type: ignore[no-untyped-def]
    """The value of a row as a number that equal values, and only these, share."""
    if aim[SOURCE] == NARROW:
        value = np.int64(narrow[aim[LINE], row])
    else:
        value = wide[aim[LINE], row]
        if aim[SOURCE] == REAL and value == NULL_VALUE:
            value = np.int64(0)  # those were the bits of -0.0
    return NULL_VALUE if is_null(valid, aim[MASK], row) else value


@called
def _entry_of(table, owner, epoch, value):  # type: ignore[no-untyped-def]
    """Where the entry is or would be."""
    mask = len(table) - 1
    place = mix(mix(owner, epoch), value) & mask
    while table[place, OWNER] != NO_OWNER and (
        table[place, OWNER] != owner or table[place, VALUE] != value or table[place, EPOCH] != epoch
    ):
        place = (place + 1) & mask
    return place


@called
def follow_distincts(  # type: ignore[no-untyped-def]
    moves, count, aim, number_of, several, wide, narrow, valid, cells, table, pool, out, out_valid, written
):
    """Counts values in the table. A group that starts anew has another epoch, so that its old entries match no more."""
    cell = aim[CELL]
    for number in range(count):
        move = moves[number]
        group, row = move >> GROUP_SHIFT, (move >> ROW_SHIFT) & ROW_MASK
        if move & CLEAR:
            cells[group, cell] = 0
            cells[group, cell + 1] += 1
        if move & (ADD | REMOVE):
            owner, epoch, value = (
                group * several + number_of,
                cells[group, cell + 1],
                _counted(aim, row, wide, narrow, valid),
            )
            place = _entry_of(table, owner, epoch, value)
            if table[place, OWNER] == NO_OWNER:
                table[place, OWNER] = owner
                table[place, EPOCH] = epoch
                table[place, VALUE] = value
                table[place, HOLDS] = 0
                pool[ENTRIES] += 1
            if move & ADD:
                table[place, HOLDS] += 1
                cells[group, cell] += table[place, HOLDS] == 1
            elif table[place, HOLDS] > 0:
                table[place, HOLDS] -= 1
                cells[group, cell] -= table[place, HOLDS] == 0
        if move & WRITE:
            out[written] = cells[group, cell]
            out_valid[written] = True
            written += 1


@kernel
def place_entries(entries, table):  # type: ignore[no-untyped-def]
    """Puts `entries` into the empty `table`."""
    for number in range(len(entries)):
        place = _entry_of(table, entries[number, OWNER], entries[number, EPOCH], entries[number, VALUE])
        for part in range(4):
            table[place, part] = entries[number, part]
