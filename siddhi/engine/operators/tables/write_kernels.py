"""The loop that executes writes to a table, event by event, each based on the writes before it.

    units    (writer, first event, last event + 1)     events that act together: one, or a chunk of several
    writers  the action of each, and the position of its program in `lines`

An event finds its rows by its key in a hash index, or visits all rows; the program tests the rest of the condition for
each and changes it. Changes are recorded for queries that read the table in the same step
(`siddhi.engine.operators.tables.history`): the row before a change is copied to the end of the table.
"""

from __future__ import annotations

from siddhi.engine.jit.kernels import kernel_part, state_kernel
from siddhi.engine.operators.expressions.register_kernel import run_program
from siddhi.engine.operators.tables.hash_index import (
    AFTER,
    FIRST,
    bucket_of,
    put_in_with_key,
    same_key,
    take_out_of_bucket,
)

INSERT, DELETE, UPDATE, UPSERT = range(4)
ACTION, BY_KEY, ASK, SET, END, REFUSED = range(6)
"""The columns of a writer: its action, whether the index finds its rows, where its program tests, changes, and ends;
and the number of refused rows."""
WRITER_LINES = 6

USED, ALIVE, LOGGED, COPIES, GONE, UNIT, MOST = range(7)
"""Counters: positions in use, rows, records, copies of rows, deleted rows, the next unit, and the maximum number of its
records."""
COUNTERS = 7

LOG_ROW, LOG_AT, LOG_PLACE, LOG_WAS, LOG_NEXT = range(5)
"""The columns of a record: the row's position, the unit that changed it, the position of the previous values, whether
the row existed, and the next record of the row."""
LOG_LINES = 5


@kernel_part
def _note(counters, log, heads, tails, place, unit, where, was):  # type: ignore[no-untyped-def]
    """Record that `unit` changes the row at `place`, whose values were at `where` before if it `was` there."""
    number = counters[LOGGED]
    counters[LOGGED] += 1
    log[LOG_ROW, number], log[LOG_AT, number], log[LOG_PLACE, number] = place, unit, where
    log[LOG_WAS, number], log[LOG_NEXT, number] = was, -1
    if heads[place] < 0:
        heads[place] = number
    else:
        log[LOG_NEXT, tails[place]] = number
    tails[place] = number


@kernel_part
def _copy(cells, valid, place, other):  # type: ignore[no-untyped-def]
    for line in range(cells.shape[0]):
        cells[line, other] = cells[line, place]
    for line in range(valid.shape[0]):
        valid[line, other] = valid[line, place]


@kernel_part
def _most_notes(units, unit, writers, keys, nulls, ends, links, used):  # type: ignore[no-untyped-def]
    """Return the maximum number of records that a unit creates."""
    writer, start, stop = units[unit, 0], units[unit, 1], units[unit, 2]
    rows = stop - start
    if writers[writer, ACTION] == INSERT:
        return rows
    looks = 0
    if not writers[writer, BY_KEY]:
        looks = rows * (used + rows)
    else:
        for event in range(start, stop):
            if not (len(nulls) > 0 and nulls[event]):
                place = ends[bucket_of(keys, event, len(ends) - 1), FIRST]
                while place >= 0:
                    looks += 1
                    place = links[place, AFTER]
        looks += rows * rows
    return rows + (looks if rows == 1 else 2 * looks)


@kernel_part
def _is_known(ends, links, held, alive, keys, event):  # type: ignore[no-untyped-def]
    """Return whether a row has the key."""
    place = ends[bucket_of(keys, event, len(ends) - 1), FIRST]
    while place >= 0 and not (alive[place] and same_key(held, place, keys, event)):
        place = links[place, AFTER]
    return place >= 0


@state_kernel
def write_rows(  # type: ignore[no-untyped-def] # noqa: C901, PLR0912, PLR0915 - one loop, compiled as a whole
    counters, units, writers, lines, inputs, inputs_f, inputs_valid, keys, nulls, fresh, fresh_valid,
    fresh_keys, unique_keys, cells, cells_f, cells_f4, valid, alive, ends, links, held,
    unique_ends, unique_links, unique_held, twice, r, f, v, missed, gone, dirty, log, heads, tails,
):  # fmt: skip
    """Execute `units` from counter `UNIT` on; return whether all are done.

    Return False when there is no room for the records of the next one. `ends`, `links`, `held` belong to the index that
    finds rows by `keys`, `unique_*` to that of the primary key (none: no buckets); `twice` means that they are two.
    `fresh` has the rows that events are inserted as, `fresh_keys` and `unique_keys` their keys. `dirty` (if not empty)
    marks changed rows, `gone` lists deleted ones. Without `heads` nothing is recorded.
    """
    recorded = len(heads) > 0
    has_unique, has_index = len(unique_ends) > 0, len(ends) > 0
    for unit in range(counters[UNIT], len(units)):
        writer, start, stop = units[unit, 0], units[unit, 1], units[unit, 2]
        if recorded:
            most = _most_notes(units, unit, writers, keys, nulls, ends, links, counters[USED])
            if counters[LOGGED] + most > log.shape[1] or counters[COPIES] + most > cells.shape[1]:
                counters[UNIT], counters[MOST] = unit, most
                return False
        action, by_key = writers[writer, ACTION], writers[writer, BY_KEY] != 0
        base = writers[writer, ASK]
        waiting, step = 0, start
        while step < stop + waiting:
            again = step >= stop
            event = missed[step - stop] if again else step
            found = 0
            if action != INSERT and not (again and step == stop):
                place = -1
                if not by_key:
                    place = 0 if counters[USED] > 0 else -1
                elif not (len(nulls) > 0 and nulls[event]):
                    place = ends[bucket_of(keys, event, len(ends) - 1), FIRST]
                while place >= 0:
                    after = place + 1
                    if by_key:
                        after = links[place, AFTER]
                    elif after == counters[USED]:
                        after = -1
                    matches = alive[place] and (not by_key or same_key(held, place, keys, event))
                    for part in range(2):
                        first, last = writers[writer, ASK + part], writers[writer, SET + part]
                        if part == 1 and matches and action != DELETE:
                            found += 1
                            if recorded:
                                _copy(cells, valid, place, counters[COPIES])
                                _note(counters, log, heads, tails, place, unit, counters[COPIES], was=1)
                                counters[COPIES] += 1
                            if len(dirty) > 0:
                                dirty[place] = True
                        if matches and first < last and not (part == 1 and action == DELETE):
                            truth = run_program(base, first, last, lines, event, inputs, inputs_f, inputs_valid, place,
                                         cells, cells_f, cells_f4, valid, r, f, v)  # fmt: skip
                            matches = truth or part == 1
                    if matches and action == DELETE:
                        found += 1
                        alive[place] = False
                        counters[ALIVE] -= 1
                        gone[counters[GONE]] = place
                        counters[GONE] += 1
                        if recorded:
                            _note(counters, log, heads, tails, place, unit, place, was=1)
                        else:
                            if has_unique:
                                take_out_of_bucket(unique_ends, unique_links, unique_held, place)
                            if has_index and twice:
                                take_out_of_bucket(ends, links, held, place)
                    place = after
            step += 1
            if found > 0 or action in (DELETE, UPDATE):
                continue
            if action == UPSERT and not again and stop - start > 1:
                missed[waiting] = event
                waiting += 1
                continue
            if has_unique and _is_known(unique_ends, unique_links, unique_held, alive, unique_keys, event):
                writers[writer, REFUSED] += 1
                continue
            place = counters[USED]
            counters[USED] += 1
            counters[ALIVE] += 1
            alive[place] = True
            for line in range(cells.shape[0]):
                cells[line, place] = fresh[line, event]
            for line in range(valid.shape[0]):
                valid[line, place] = fresh_valid[line, event]
            if has_unique:
                put_in_with_key(unique_ends, unique_links, unique_held, unique_keys, event, place)
            if has_index and twice:
                put_in_with_key(ends, links, held, fresh_keys, event, place)
            if recorded:
                _note(counters, log, heads, tails, place, unit, place, was=0)
    counters[UNIT] = len(units)
    return True
