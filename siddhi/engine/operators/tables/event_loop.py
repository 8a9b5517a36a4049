"""The loop in which a few events pass all queries that use a table, each event one query after the other.

    operations   query 0   UPSERT           event 0    query 0, 1, 2
                 query 1   DELETE           event 1    query 0, 1, 2
                 query 2   ASK, EMIT        …

So each event reads the table after all earlier events and preceding queries, and earlier contents need not be stored.
Values of events are lines of `inputs`; programs over them and a row of the table are as in
`siddhi.engine.operators.tables.write_kernels`.
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

ASK, EMIT, JOIN, INSERT, DELETE, UPDATE, UPSERT = range(7)
"""Operations: go on with the query only if a row matches (or none does), pass the event on, pass the event on with each
row that matches, and the writes."""
(
    DO, QUERY, OPENS, NEXT, INDEX, KEY, TEXTS, WANTED, TEST, CHANGE, END, FRESH, KEY_OF_FIRST, KEY_OF_SECOND,
    TAKEN, TAKEN_END, LINE, REFUSED,
) = range(18)  # fmt: skip
"""Fields of an operation: what it does for which query, whether it is the first one of the query, the first one of the
next query; the index that finds rows (0: none), where the keys of the events begin, the parts of the key in which a
null finds nothing (as bits); whether a row is wanted (of `JOIN`: whether events without a row are passed on, too);
where its program tests, changes and ends; where the lines of a new row are in `parts`, and its keys for both indexes;
the columns of a row to pass on, in `parts`, and their first line in the results; how many rows were refused."""
OPERATION_FIELDS = 18
NO_INDEX, FIRST_INDEX, SECOND_INDEX = range(3)

USED, ALIVE, GONE, ROW, OPERATION = range(5)
"""Counters: places in use, rows, rows deleted, and the event and the operation with which the loop goes on (below 0:
it has not begun)."""
COUNTERS = 5


@kernel_part
def _is_null(keys, row, texts):  # type: ignore[no-untyped-def]
    null = False
    for part in range(keys.shape[1]):
        null |= (texts >> part) & 1 != 0 and keys[row, part] < 0
    return null


@kernel_part
def _known(ends, links, held, keys, row):  # type: ignore[no-untyped-def]
    """Return whether a row has the key."""
    place = ends[bucket_of(keys, row, len(ends) - 1), FIRST]
    while place >= 0 and not same_key(held, place, keys, row):
        place = links[place, AFTER]
    return place >= 0


@state_kernel
def run_events(  # type: ignore[no-untyped-def] # noqa: C901, PLR0912, PLR0915 - one loop, compiled as a whole
    counters, operations, parts, lines, rows, passing, counts, reached, unique, inputs, inputs_f, known,
    keys, other_keys, cells, cells_f, cells_f4, valid, alive, ends, links, held,
    other_ends, other_links, other_held, r, f, v, gone, emitted, sources, taken, taken_valid,
):  # fmt: skip
    """Run `rows` events from counter `ROW` on through `operations`; return whether all are done.

    Return False when there is no room for the results of a `JOIN`, which must be repeated for its event.

    `counts` has the number of events that pass the filter of each query (-1: all), at the positions `passing`; those
    before `reached` are done. `ends`, `links`, `held` and `keys` are the first index and the keys of events, `other_*`
    the second one (none: no buckets); `unique` is the number of the index with unique keys, 0 without one. For the
    results of each query, `emitted` has their number, `sources` the rows of the events, and lines of `taken` the values
    of the table's rows.
    """
    first, goes_on = max(counters[OPERATION], 0), counters[OPERATION] >= 0
    for row in range(counters[ROW], rows):
        number = first
        first = 0
        while number < len(operations):
            query, do = operations[number, QUERY], operations[number, DO]
            if operations[number, OPENS] != 0 and counts[query] >= 0 and not goes_on:
                if reached[query] == counts[query] or passing[query, reached[query]] != row:
                    number = operations[number, NEXT]
                    continue
                reached[query] += 1
            goes_on = False
            if do == EMIT:
                sources[query, emitted[query]] = row
                emitted[query] += 1
                number += 1
                continue
            by, before, found, place = operations[number, INDEX], emitted[query], 0, -1
            at = operations[number, KEY] + row
            if do == INSERT:
                place = -1
            elif by == FIRST_INDEX:
                if not _is_null(keys, at, operations[number, TEXTS]):
                    place = ends[bucket_of(keys, at, len(ends) - 1), FIRST]
            elif by == SECOND_INDEX:
                if not _is_null(other_keys, at, operations[number, TEXTS]):
                    place = other_ends[bucket_of(other_keys, at, len(other_ends) - 1), FIRST]
            elif counters[USED] > 0:
                place = 0
            base = operations[number, TEST]
            while place >= 0:
                if by == FIRST_INDEX:
                    after, matches = links[place, AFTER], same_key(held, place, keys, at)
                elif by == SECOND_INDEX:
                    after, matches = other_links[place, AFTER], same_key(other_held, place, other_keys, at)
                else:
                    after, matches = place + 1 if place + 1 < counters[USED] else -1, alive[place]
                for part in range(2):
                    start, stop = operations[number, TEST + part], operations[number, CHANGE + part]
                    if matches and start < stop:
                        truth = run_program(base, start, stop, lines, row, inputs, inputs_f, known, place,
                                            cells, cells_f, cells_f4, valid, r, f, v)  # fmt: skip
                        matches = truth or part == 1
                if matches:
                    found += 1
                    if do == ASK:
                        break
                    if do == JOIN:
                        if emitted[query] == sources.shape[1]:
                            counters[ROW], counters[OPERATION], emitted[query] = row, number, before
                            return False
                        for part in range(operations[number, TAKEN], operations[number, TAKEN_END]):
                            line = operations[number, LINE] + part - operations[number, TAKEN]
                            taken[line, emitted[query]] = cells[parts[part], place]
                            held_there = valid.shape[0] == 0 or valid[parts[part], place]
                            taken_valid[line, emitted[query]] = held_there
                        sources[query, emitted[query]] = row
                        emitted[query] += 1
                    elif do == DELETE:
                        alive[place] = False
                        counters[ALIVE] -= 1
                        gone[counters[GONE]] = place
                        counters[GONE] += 1
                        if len(ends) > 0:
                            take_out_of_bucket(ends, links, held, place)
                        if len(other_ends) > 0:
                            take_out_of_bucket(other_ends, other_links, other_held, place)
                place = after
            number += 1
            if do == ASK:
                if (found > 0) != (operations[number - 1, WANTED] != 0):
                    number = operations[number - 1, NEXT]
                continue
            operation = number - 1
            if do == JOIN:
                if found == 0 and operations[operation, WANTED] != 0:
                    if emitted[query] == sources.shape[1]:
                        counters[ROW], counters[OPERATION] = row, operation
                        return False
                    for part in range(operations[operation, TAKEN], operations[operation, TAKEN_END]):
                        line = operations[operation, LINE] + part - operations[operation, TAKEN]
                        taken[line, emitted[query]] = -1
                        taken_valid[line, emitted[query]] = False
                    sources[query, emitted[query]] = row
                    emitted[query] += 1
                continue
            if do in (DELETE, UPDATE) or found > 0:
                continue
            key, other_key = operations[operation, KEY_OF_FIRST] + row, operations[operation, KEY_OF_SECOND] + row
            if unique == FIRST_INDEX:
                refused = _known(ends, links, held, keys, key)
            else:
                refused = unique == SECOND_INDEX and _known(other_ends, other_links, other_held, other_keys, other_key)
            if refused:
                operations[operation, REFUSED] += 1
                continue
            place = counters[USED]
            counters[USED] += 1
            counters[ALIVE] += 1
            alive[place] = True
            for line in range(cells.shape[0]):
                cells[line, place] = inputs[parts[operations[operation, FRESH] + line], row]
            for line in range(valid.shape[0]):
                valid[line, place] = True
            if len(ends) > 0:
                put_in_with_key(ends, links, held, keys, key, place)
            if len(other_ends) > 0:
                put_in_with_key(other_ends, other_links, other_held, other_keys, other_key, place)
    return True
