"""The loop of sliding windows and the following selection: it plans the rows that arrive and leave as moves.

    length 2    in        a          b          c               d
                moves     +a write   +b write   −a +c write     −b +d write

The moves are those of `siddhi.engine.operators.aggregates.moves`, which aggregates follow; see
`siddhi.engine.operators.fused_windows.sliding`.
"""

from __future__ import annotations

import numpy as np

from siddhi.engine.jit.kernels import kernel_part, state_kernel
from siddhi.engine.jit.memory import fetch, offset_at, set_offset, set_word, word_at
from siddhi.engine.operators.aggregates.moves import ADD, CLEAR, GROUP_SHIFT, REMOVE, ROW_SHIFT, WRITE
from siddhi.engine.operators.fused_windows.group_table import BY_CODE, BY_HASH, HOW, ONE_GROUP, give_back, group_of
from siddhi.engine.tuning import KNOWN_GROUPS_MIN_ROWS, KNOWN_GROUPS_PAUSE_ROWS, SLIDING_PREFETCH_ROWS

HELD = 0
"""The cell with the number of a group's rows."""
GROUP_LINE = 0
"""The narrow line of stored rows with their groups, unless there is only one."""
TIME_LINE = 0
"""The wide line of stored rows with their times, if these determine when they leave."""

FIRST, ROW, PLANNED, LENGTH, DURATION, TIMING, KEEPS_GROUPS, GIVES_BACK, MADE_ROOM, WINDOW_STATE_SIZE = range(10)
"""The window's state: sequence number of the oldest stored row; rows of the batch that are done; moves planned; after
how many newer rows and how much time a row leaves; the source of the time; whether groups outlive their rows; whether
ids of groups may be reused at once; whether a row has already left for the current row because the window was full."""
UNTIMED, BY_ATTRIBUTE, BY_CLOCK = 0, 1, 2

NO_MOVE_LEFT = -3
_NEVER = np.iinfo(np.int64).max


@kernel_part
def _known_group(row, coded, keys, index):  # type: ignore[no-untyped-def]
    """Return the group of `row`, whose key is a code unless there is only one group; -1 for a new key."""
    if not coded:
        return np.int64(0)
    code = keys[row]
    return np.int64(index[code]) if 0 <= code < len(index) else np.int64(-1)


@kernel_part
def _slide_known(  # type: ignore[no-untyped-def]
    start, row, count, first, state, clocks, keys, coded, times_at, groups_at, mask, index, cells_at, width, moves_at,
    planned, room,
):  # fmt: skip
    """Plan the moves of the rows from `row` on, as long as their groups are known.

    Keys are codes (`coded`), or all rows are one group. Stop at the first row that enters an empty group or at which
    the last row of a group leaves, or when no move is left. Return its position, or `count`, the oldest stored row and
    the number of moves. Rows leave either because the window is full, one for each arrival, or because of the time.
    This is a loop of its own because nearly all rows take it: code for rare cases would occupy registers.
    """
    timing, length, duration = state[TIMING], state[LENGTH], state[DURATION]
    while row < count:
        group, new = _known_group(row, coded, keys, index), start + row
        if group < 0:
            break
        now = np.int64(0)
        if timing == BY_ATTRIBUTE:
            now = np.int64(word_at(times_at + 8 * (new & mask)))
        elif timing == BY_CLOCK:
            now = clocks[row]
        stuck = False
        while first < new:
            old = first & mask
            if timing == UNTIMED:
                if new - first < length:
                    break
            elif np.int64(word_at(times_at + 8 * old)) + duration > now:
                break
            leaving = np.int64(offset_at(groups_at + 4 * old)) if coded else group
            held = np.int64(word_at(cells_at + width * leaving))
            if held == 1 or planned + 1 >= room:
                stuck = True
                break
            set_word(cells_at + width * leaving, held - 1)
            set_word(moves_at + 8 * planned, leaving << GROUP_SHIFT | old << ROW_SHIFT | REMOVE)
            planned += 1
            first += 1
        held = np.int64(word_at(cells_at + width * group))
        if stuck or held == 0 or planned >= room:
            break
        set_word(cells_at + width * group, held + 1)
        if coded:
            set_offset(groups_at + 4 * (new & mask), np.int32(group))
        set_word(moves_at + 8 * planned, group << GROUP_SHIFT | (new & mask) << ROW_SHIFT | (ADD | WRITE))
        planned += 1
        row += 1
    return row, first, planned


@kernel_part
def _let_go(  # type: ignore[no-untyped-def]
    new, now, first, made_room, planned, state, wide, narrow, cells, group_state, index, group_keys, unused, moves
):
    """Plan the moves of the rows that leave before row `new` arrives, as far as moves are left.

    Return the oldest stored row, the number of moves, and whether a row left because the window was full.
    """
    mask = wide.shape[1] - 1
    while first < new and planned < len(moves) and not made_room:
        old = first & mask
        if not (state[TIMING] != UNTIMED and wide[TIME_LINE, old] + state[DURATION] <= now):
            if new - first < state[LENGTH]:
                break
            made_room = np.int64(1)
        group = np.int64(narrow[GROUP_LINE, old]) if group_state[HOW] != ONE_GROUP else np.int64(0)
        cells[group, HELD] -= 1
        if cells[group, HELD] == 0 and state[GIVES_BACK]:
            give_back(group, group_state, index, group_keys, unused)
        moves[planned] = group << GROUP_SHIFT | old << ROW_SHIFT | REMOVE
        planned += 1
        first += 1
    return first, planned, made_room


@state_kernel
def let_go(end, now, state, wide, narrow, cells, group_state, index, group_keys, unused, moves):  # type: ignore[no-untyped-def]
    """Plan the moves of the rows before `end` that have expired at `now`, as far as moves are left.

    Return their number. The window is not full.
    """
    first, planned, _ = _let_go(
        end, now, state[FIRST], np.int64(0), np.int64(0), state, wide, narrow, cells, group_state, index, group_keys,
        unused, moves,
    )  # fmt: skip
    state[FIRST] = first
    return planned


@state_kernel
def slide(  # type: ignore[no-untyped-def]
    start, count, state, clocks, keys, wide, narrow, cells, group_state, index, group_keys, unused, moves
):
    """Add rows [start, start + count) to the window and remove older ones.

    Plans the moves for that, and a write after each row. `wide` and `narrow` hold the rows as described in `HeldRows`,
    `keys` their keys in the form for `group_of`. Returns the number of moves when all rows are done. Otherwise returns
    what there was no room for, with the number of moves in the state: then the caller applies these moves, makes room
    and calls again.
    """
    mask = wide.shape[1] - 1
    grouped = group_state[HOW] != ONE_GROUP
    timing = state[TIMING]
    row, first, made_room = state[ROW], state[FIRST], state[MADE_ROOM]
    planned, room, tried_from = np.int64(0), len(moves), row
    lack = np.int64(0)
    cells_at, width = np.int64(cells.ctypes.data), 8 * cells.shape[1]  # faster than indexing
    coded = group_state[HOW] == BY_CODE
    plain = group_state[HOW] != BY_HASH and (timing == UNTIMED or state[LENGTH] == _NEVER)
    while row < count:
        if plain and row >= tried_from and not made_room:
            begun = row
            row, first, planned = _slide_known(
                start, row, count, first, state, clocks, keys, coded, np.int64(wide.ctypes.data),
                np.int64(narrow.ctypes.data), mask, index, cells_at, width, np.int64(moves.ctypes.data), planned, room,
            )  # fmt: skip
            if row == count:
                break
            if row - begun < KNOWN_GROUPS_MIN_ROWS:
                tried_from = row + KNOWN_GROUPS_PAUSE_ROWS
        if coded and row + SLIDING_PREFETCH_ROWS < count:
            fetch(np.int64(index.ctypes.data) + 4 * keys[row + SLIDING_PREFETCH_ROWS])
        new = start + row
        column = new & mask
        now = wide[TIME_LINE, column] if timing == BY_ATTRIBUTE else clocks[row] if timing == BY_CLOCK else np.int64(0)
        first, planned, made_room = _let_go(
            new, now, first, made_room, planned, state, wide, narrow, cells, group_state, index, group_keys, unused,
            moves,
        )  # fmt: skip
        if planned == room:
            lack = np.int64(NO_MOVE_LEFT)
            break
        group = group_of(keys, row, count, group_state, index, group_keys, unused)
        if group < 0:
            lack = group
            break
        if grouped:
            narrow[GROUP_LINE, column] = group
        doing = ADD | WRITE
        if cells[group, HELD] == 0 and not state[KEEPS_GROUPS]:
            doing |= CLEAR
        cells[group, HELD] += 1
        moves[planned] = group << GROUP_SHIFT | column << ROW_SHIFT | doing
        planned += 1
        row += 1
        made_room = 0
    state[FIRST], state[MADE_ROOM] = first, made_room
    if lack < 0:
        state[ROW], state[PLANNED] = row, planned
        return lack
    state[ROW] = 0
    return np.int64(planned)
