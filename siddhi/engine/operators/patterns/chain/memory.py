"""The memory of chains of plain elements: the arrays of their compiled loops.

A partial match is a row of two arrays. It is in the list of the element where it waits (one list per partition instance
and element, in the order in which an event is offered to them). If a pattern's element has an equality condition, it is
also in a chain of a hash table, so that an event is compared only with partials that have its key:

    lists[instance, element] → head ⇄ … ⇄ tail        table[element, hash(instance, key)] → first ⇄ … ⇄ last

The empty partials that wait at the first element are all alike; they are only counted (`SEEDS`, `FRESH_SEEDS`). In
place of a list that element has the row of its instance, so that the values for an event are adjacent.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from siddhi.engine.jit.arrays import AnyArray, Int64Array
from siddhi.engine.tuning import CACHE_LINE_NUMBERS

NONE = -1
NEVER = 2**62
LONG_AGO = -(2**62)

# columns of a partial's row, of which snapshots have all but the last; then one row reference for each slot but the
# last, then the integer registers. Columns for expiry come first, in one cache line. `START` is the time of the first
# event, `REACHED` the latest time of the instance when that event arrived: the two differ when it was late. `EARLIEST`,
# set in the first fresh partial of a list, is a time before which none of these arrived
NEXT, PREVIOUS, CHAIN_NEXT, CHAIN_PREVIOUS, PLACE, ELEMENT, TIME, REACHED, ENTERED, INSTANCE, KEY, NULLS, TOUCHED = (
    range(13)
)
START = 13
SAVED_COLUMNS = 14
EARLIEST = 14
REFERENCES = 15

# columns of a list: its ends, the number of the event that last fed the element while a partial was there, and the
# first fresh partial, which arrived since; in an empty list only the head is valid
HEAD, TAIL, UPDATED, FRESH = range(4)
LIST_WIDTH = 4

# columns of an instance, which is the row of its first element: how many events it had, its latest time, how many empty
# partials wait at the first element, and how many arrived there with the current event
NUMBER, LATEST, SEEDS, FRESH_SEEDS = range(4)
INSTANCE_WIDTH = 4

# columns of the table; a list has its ends (`HEAD`, `TAIL`) in the same places
FIRST, LAST = range(2)

# the counters: the first free partial, the first one never used, how many live; the batch's matches and touched
# partials; the current position and the number of rows; 1 when the table is empty and has to be filled; then per slot
# the number of matches with an event of an earlier batch there
FREE, UNUSED, LIVE, MATCHES, TOUCHES, CURSOR, ROWS, EMPTY_TABLE = range(8)
FROM_BEFORE = 8

# rows of the matches: position of the row that completed it, the partial, then one row reference per slot
MATCH_CAUSE, MATCH_PARTIAL = range(2)
MATCH_REFERENCES = 2

# the settings; `FRACTION_NULLS` is the first bit of a partial's null mask for a float
ELEMENTS, WITHIN, IS_SEQUENCE, SCOPE_END, REGISTERS, FRACTION_NULLS = range(6)
SETTING_COUNT = 6

# rows of the events; then the integer columns
EVENT_TIME, EVENT_INSTANCE, EVENT_SOURCE, EVENT_NULLS = range(4)
EVENT_COLUMNS = 4

# columns of a test `event column operator constant` and of a comparison `event column operator register`; the constant
# is the number itself, or for floats its index among the constants
OPERATOR, IS_FLOAT, EVENT_COLUMN, REGISTER = range(4)
CONSTANT = REGISTER
EQUAL, NOT_EQUAL, LESS, LESS_EQUAL, GREATER, GREATER_EQUAL = range(6)

# columns of an element's settings
FIRST_TEST, END_TEST, FIRST_COMPARISON, END_COMPARISON, INDEXED, BOUNDED, FIRST_COPY, END_COPY = range(8)

# columns of a copy: values of an accepted event that later conditions compare with
COPY_IS_FLOAT, COPY_COLUMN, COPY_REGISTER = range(3)


def in_lines(rows: int, columns: int, fill: int) -> Int64Array:
    """Return an array of (`rows`, `columns`), filled with `fill`, that is aligned to a cache line.

    With very many rows, each event uses a row that is not in the cache; alignment minimizes the number of lines it must
    load.
    """
    block: Int64Array = np.full(rows * columns + CACHE_LINE_NUMBERS - 1, fill, dtype=np.int64)
    start = -(int(block.ctypes.data) // block.itemsize) % CACHE_LINE_NUMBERS
    return block[start : start + rows * columns].reshape(rows, columns)


def more_lines(array: Int64Array, rows: int, fill: int) -> Int64Array:
    """Return `array` itself when it has so many rows, else a copy of at least twice the size, extended with `fill`."""
    if rows <= len(array):
        return array
    larger = in_lines(max(rows, 2 * len(array), CACHE_LINE_NUMBERS), array.shape[1], fill)
    larger[: len(array)] = array
    return larger


def whole_lines(columns: int) -> int:
    """Return `columns` rounded up to a multiple of a cache line."""
    return -(-columns // CACHE_LINE_NUMBERS) * CACHE_LINE_NUMBERS


class ChainState(NamedTuple):
    """The state between batches, and room for results.

    `partials` (room, columns) and `floats` (room, float registers) are the partial matches; `lists` (instances ×
    elements, 4) and `table` (elements, places, 2) contain their positions in lists and chains, and the first of the
    lists of each instance contains its progress. `chain_bounds` (elements × places) and `list_bounds` (instances ×
    elements) are the bounds of chains, and of lists without chains. `touched` contains the partials that refer to rows
    of the batch, `matches` (2 + elements, room) the matches: position of the row, partial, and for each slot an event
    or `NONE` for one from an earlier batch.
    """

    partials: Int64Array
    floats: AnyArray
    lists: Int64Array
    list_bounds: AnyArray
    table: Int64Array
    chain_bounds: AnyArray
    counters: Int64Array
    touched: Int64Array
    matches: Int64Array


class ChainRules(NamedTuple):
    """The definition of the chain.

    `offers` (sources, elements): the elements that a source feeds, last first, then `NONE`; `texts`: the integer
    columns that contain codes of strings.
    """

    settings: Int64Array
    elements: Int64Array
    tests: Int64Array
    constants: AnyArray
    comparisons: Int64Array
    copies: Int64Array
    offers: Int64Array
    texts: Int64Array


class ChainEvents(NamedTuple):
    """Room for the events of one batch, as many as `counters[ROWS]`, those of several sources one after the other.

    `order` is the event at each position of the common order; it is empty if the events of a single source are in
    order. `whole` (4 + columns, room) contains time, partition instance, source and a bit for each null column, then
    the integers that conditions read; `fractions` (columns, room) contains the floats.
    """

    order: Int64Array
    whole: Int64Array
    fractions: AnyArray
