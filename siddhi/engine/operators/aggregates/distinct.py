"""distinctCount: a table of how often each group holds each value."""

from __future__ import annotations

import numpy as np

from siddhi.engine.columnar.hashing import mix
from siddhi.engine.jit.kernels import kernel_part, state_kernel
from siddhi.engine.operators.aggregates.moves import (
    ADD,
    CELL,
    CLEAR,
    ENTRIES,
    EPOCH,
    FORM,
    GROUP_SHIFT,
    HOLDS,
    LINE,
    MASK,
    NO_OWNER,
    NULL_VALUE,
    OWNER,
    REAL,
    REMOVE,
    ROW_MASK,
    ROW_SHIFT,
    VALUE,
    VALUES,
    WRITE,
    is_null,
    value_at,
)

_WITHOUT_SIGN = np.iinfo(np.int64).max
_INFINITY, _NAN = 0x7FF << 52, 0xFFF << 51
"""The bits of floating-point numbers above infinity are NaN; all NaN count as one value."""
_NEGATIVE_ZERO = -1
"""Replaces -0.0, whose bits are `NULL_VALUE`."""


@kernel_part
def _entry_of(table, owner, epoch, value):  # type: ignore[no-untyped-def]
    """Return the position of the entry, or the free position where it belongs."""
    mask = len(table) - 1
    place = mix(mix(owner, epoch), value) & mask
    while table[place, OWNER] != NO_OWNER and (
        table[place, OWNER] != owner or table[place, VALUE] != value or table[place, EPOCH] != epoch
    ):
        place = (place + 1) & mask
    return place


@state_kernel
def follow_distincts(moves, count, plan, number, lines, cells, table, pool, out, out_valid, written):  # type: ignore[no-untyped-def]
    """Count values in the table; return False, as no null is written.

    A group that restarts gets a new epoch, so that its old entries no longer match. The table must have room for every
    added row.
    """
    cell, line = plan[number, CELL], plan[number, LINE]
    form, values, mask = lines[line, FORM], lines[line, VALUES], lines[line, MASK]
    for place in range(count):
        move = moves[place]
        group, row = move >> GROUP_SHIFT, (move >> ROW_SHIFT) & ROW_MASK
        if move & CLEAR:
            cells[group, cell] = 0
            cells[group, cell + 1] += 1
        if move & (ADD | REMOVE):
            value = value_at(form, values, row)
            if form == REAL and value == NULL_VALUE:
                value = np.int64(_NEGATIVE_ZERO)
            elif form == REAL and value & _WITHOUT_SIGN > _INFINITY:
                value = np.int64(_NAN)
            if is_null(mask, row):
                value = np.int64(NULL_VALUE)
            owner, epoch = group * len(plan) + number, cells[group, cell + 1]
            entry = _entry_of(table, owner, epoch, value)
            if table[entry, OWNER] == NO_OWNER:
                table[entry, OWNER] = owner
                table[entry, EPOCH] = epoch
                table[entry, VALUE] = value
                table[entry, HOLDS] = 0
                pool[ENTRIES] += 1
            if move & ADD:
                table[entry, HOLDS] += 1
                cells[group, cell] += table[entry, HOLDS] == 1
            elif table[entry, HOLDS] > 0:
                table[entry, HOLDS] -= 1
                cells[group, cell] -= table[entry, HOLDS] == 0
        if move & WRITE:
            out[number, written] = cells[group, cell]
            out_valid[number, written] = True
            written += 1
    return False


@state_kernel
def place_entries(entries, table):  # type: ignore[no-untyped-def]
    """Insert `entries` into the empty `table`."""
    for number in range(len(entries)):
        place = _entry_of(table, entries[number, OWNER], entries[number, EPOCH], entries[number, VALUE])
        for part in range(4):
            table[place, part] = entries[number, part]
