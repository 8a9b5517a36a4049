"""The compiled state loop of chains of plain elements: patterns and sequences whose elements are all single events.

Partial matches are rows of two arrays. A row stands in the list of the element where it waits (one list per partition instance and element,
in the order in which an event is offered to them) and in a chain of a hash table, so that an event meets only partials that
agree with it on the element's equality condition:

    lists[instance, element] → head ⇄ … ⇄ tail          table[element, hash(instance, key)] → first ⇄ … ⇄ last

The empty partials that wait at the first element are all alike; they are only counted (`SEEDS`, `FRESH_SEEDS`).
"""

from __future__ import annotations

import numba
import numpy as np

from siddhi.engine.hashing import mix

# The loops allocate nothing, so numba need not count references to the arrays they pass around: that alone took nine tenths
# of the time.
kernel = numba.njit(cache=True, _nrt=False)
inlined = numba.njit(_nrt=False, inline="always")

NONE = -1
NEVER = 2**62
LONG_AGO = -(2**62)

# columns of a partial's row; behind them one row reference per slot, then the whole-number registers
NEXT, PREVIOUS, CHAIN_NEXT, CHAIN_PREVIOUS, PLACE, ELEMENT, TIME, START, ENTERED, INSTANCE, KEY, NULLS, TOUCHED = range(13)
REFERENCES = 13

# columns of a list
HEAD, TAIL, UPDATED = range(3)
LIST_WIDTH = 3

# columns of an instance
NUMBER, LATEST, LATEST_NUMBER, SEEDS, FRESH_SEEDS = range(5)
INSTANCE_WIDTH = 5

# columns of the table
FIRST, LAST = range(2)

# the counters
FREE, UNUSED, LIVE, MATCHES, TOUCHES, CURSOR = range(6)
COUNTER_COUNT = 6

# the settings
ELEMENTS, WITHIN, IS_SEQUENCE, SCOPE_END, REGISTERS = range(5)
SETTING_COUNT = 5

# columns of a comparison: `event column operator register`
OPERATOR, IS_FLOAT, EVENT_COLUMN, REGISTER = range(4)
EQUAL, NOT_EQUAL, LESS, LESS_EQUAL, GREATER, GREATER_EQUAL = range(6)

# columns of an element's settings
FIRST_COMPARISON, END_COMPARISON, INDEXED, BOUNDED, FIRST_COPY, END_COPY = range(6)
ELEMENT_WIDTH = 6

# columns of a copy: what of an accepted event later conditions compare with
COPY_IS_FLOAT, COPY_COLUMN, COPY_REGISTER = range(3)


@inlined
def _compare(operator, left, right):  # type: ignore[no-untyped-def]  # pragma: no cover - compiled
    if operator == EQUAL:
        return left == right
    if operator == NOT_EQUAL:
        return left != right
    if operator == LESS:
        return left < right
    if operator == LESS_EQUAL:
        return left <= right
    if operator == GREATER:
        return left > right
    return left >= right


@inlined
def _holds(comparison, row, partial, partials, floats, whole, fractions, nulls, settings):  # type: ignore[no-untyped-def]  # pragma: no cover
    """Whether one comparison of event `row` with `partial` holds; null makes it false, and `!=` true."""
    column = comparison[EVENT_COLUMN]
    register = comparison[REGISTER]
    base = settings[REGISTERS]
    if comparison[IS_FLOAT] == 0:
        if ((nulls[row] >> column) | (partials[partial, NULLS] >> register)) & 1:
            return comparison[OPERATOR] == NOT_EQUAL
        return _compare(comparison[OPERATOR], whole[column, row], partials[partial, base + register])
    null_column = column + whole.shape[0]
    null_register = register + partials.shape[1] - base
    if ((nulls[row] >> null_column) | (partials[partial, NULLS] >> null_register)) & 1:
        return comparison[OPERATOR] == NOT_EQUAL
    return _compare(comparison[OPERATOR], fractions[column, row], floats[partial, register])


@inlined
def _place_of(element, instance, key, table):  # type: ignore[no-untyped-def]  # pragma: no cover - compiled
    return mix(mix(np.int64(element), np.int64(instance)), np.int64(key)) & (table.shape[1] - 1)


@inlined
def _chain_in(partial, partials, floats, table, bounds, elements, comparisons, settings, updated):  # type: ignore[no-untyped-def]  # pragma: no cover
    """Puts `partial` into the table, unless its key is null and nothing can equal it."""
    element = partials[partial, ELEMENT]
    indexed = elements[element, INDEXED]
    partials[partial, PLACE] = NONE
    key = np.int64(0)
    if indexed != NONE:
        register = comparisons[indexed, REGISTER]
        if (partials[partial, NULLS] >> register) & 1:
            return
        key = partials[partial, settings[REGISTERS] + register]
    partials[partial, KEY] = key
    place = _place_of(element, partials[partial, INSTANCE], key, table)
    partials[partial, PLACE] = place
    before = table[element, place, LAST]
    after = np.int64(NONE)
    while before != NONE and _comes_after(before, partial, partials, updated):
        after = before
        before = partials[before, CHAIN_PREVIOUS]
    partials[partial, CHAIN_PREVIOUS] = before
    partials[partial, CHAIN_NEXT] = after
    if before == NONE:
        table[element, place, FIRST] = partial
    else:
        partials[before, CHAIN_NEXT] = partial
    if after == NONE:
        table[element, place, LAST] = partial
    else:
        partials[after, CHAIN_PREVIOUS] = partial
    bounded = elements[element, BOUNDED]
    if bounded != NONE:
        _widen(partial, partials, floats, comparisons[bounded], settings, bounds, element, place, before == NONE and after == NONE)


@inlined
def _widen(partial, partials, floats, comparison, settings, bounds, element, place, first):  # type: ignore[no-untyped-def]  # pragma: no cover
    """Makes the bound of a chain take in `partial`: the least (for `>`) or greatest value an event has to beat."""
    register = comparison[REGISTER]
    upward = comparison[OPERATOR] >= GREATER
    if first:
        bounds[element, place] = np.inf if upward else -np.inf
    if (partials[partial, NULLS] >> (register + partials.shape[1] - settings[REGISTERS])) & 1:
        return
    value = floats[partial, register]
    if upward:
        bounds[element, place] = min(bounds[element, place], value)
    elif value > bounds[element, place]:
        bounds[element, place] = value


@inlined
def _comes_after(waiting, newcomer, partials, updated):  # type: ignore[no-untyped-def]  # pragma: no cover - compiled
    """Whether `waiting` came since the last look at the list and is later in time than `newcomer`, or concerns another
    instance."""
    if partials[waiting, INSTANCE] != partials[newcomer, INSTANCE]:
        return True
    return partials[waiting, ENTERED] >= updated and partials[waiting, TIME] > partials[newcomer, TIME]


@inlined
def _link(partial, partials, floats, lists, table, bounds, elements, comparisons, settings):  # type: ignore[no-untyped-def]  # pragma: no cover
    """`partial`, with its element and instance set, waits in that element's list: behind all but later ones that came as recently."""
    entry = partials[partial, INSTANCE] * settings[ELEMENTS] + partials[partial, ELEMENT]
    updated = lists[entry, UPDATED]
    before = lists[entry, TAIL]
    after = np.int64(NONE)
    while before != NONE and _comes_after(before, partial, partials, updated):
        after = before
        before = partials[before, PREVIOUS]
    partials[partial, PREVIOUS] = before
    partials[partial, NEXT] = after
    if before == NONE:
        lists[entry, HEAD] = partial
    else:
        partials[before, NEXT] = partial
    if after == NONE:
        lists[entry, TAIL] = partial
    else:
        partials[after, PREVIOUS] = partial
    if settings[IS_SEQUENCE] == 0:
        _chain_in(partial, partials, floats, table, bounds, elements, comparisons, settings, updated)


@inlined
def _unlink(partial, partials, lists, table, settings):  # type: ignore[no-untyped-def]  # pragma: no cover - compiled
    """`partial` waits nowhere."""
    element = partials[partial, ELEMENT]
    entry = partials[partial, INSTANCE] * settings[ELEMENTS] + element
    before, after = partials[partial, PREVIOUS], partials[partial, NEXT]
    if before == NONE:
        lists[entry, HEAD] = after
    else:
        partials[before, NEXT] = after
    if after == NONE:
        lists[entry, TAIL] = before
    else:
        partials[after, PREVIOUS] = before
    if settings[IS_SEQUENCE] == 1:
        return
    place = partials[partial, PLACE]
    if place == NONE:
        return
    before, after = partials[partial, CHAIN_PREVIOUS], partials[partial, CHAIN_NEXT]
    if before == NONE:
        table[element, place, FIRST] = after
    else:
        partials[before, CHAIN_NEXT] = after
    if after == NONE:
        table[element, place, LAST] = before
    else:
        partials[after, CHAIN_PREVIOUS] = before


@inlined
def _free(partial, partials, counters):  # type: ignore[no-untyped-def]  # pragma: no cover - compiled
    partials[partial, ELEMENT] = NONE
    partials[partial, NEXT] = counters[FREE]
    counters[FREE] = partial
    counters[LIVE] -= 1


@inlined
def _new(partials, counters):  # type: ignore[no-untyped-def]  # pragma: no cover - compiled
    partial = counters[FREE]
    if partial == NONE:
        partial = counters[UNUSED]
        counters[UNUSED] += 1
        partials[partial, TOUCHED] = 0
    else:
        counters[FREE] = partials[partial, NEXT]
    counters[LIVE] += 1
    partials[partial, NULLS] = 0
    return partial


@inlined
def _fill(partial, element, row, partials, floats, whole, fractions, nulls, elements, copies, touched, counters, settings):  # type: ignore[no-untyped-def]  # pragma: no cover
    """The event in `row` stands in slot `element` of `partial`."""
    partials[partial, REFERENCES + element] = row
    if partials[partial, TOUCHED] == 0:
        partials[partial, TOUCHED] = 1
        touched[counters[TOUCHES]] = partial
        counters[TOUCHES] += 1
    base = settings[REGISTERS]
    for copy in range(elements[element, FIRST_COPY], elements[element, END_COPY]):
        column = copies[copy, COPY_COLUMN]
        register = copies[copy, COPY_REGISTER]
        if copies[copy, COPY_IS_FLOAT] == 0:
            partials[partial, base + register] = whole[column, row]
            null = (nulls[row] >> column) & 1
            bit = register
        else:
            floats[partial, register] = fractions[column, row]
            null = (nulls[row] >> (column + whole.shape[0])) & 1
            bit = register + partials.shape[1] - base
        if null:
            partials[partial, NULLS] |= np.int64(1) << bit


@inlined
def _expire_all(instance, time, latest, number, partials, lists, table, instances, counters, settings):  # type: ignore[no-untyped-def]  # pragma: no cover
    """Frees every partial of `instance` that starts more than `within` from `time`, or did from `latest` when that was current.

    An `every` scope that lost one of its partials starts again.
    """
    within = settings[WITHIN]
    for element in range(1, settings[ELEMENTS]):
        partial = lists[instance * settings[ELEMENTS] + element, HEAD]
        lost = False
        while partial != NONE:
            following = partials[partial, NEXT]
            start = partials[partial, START]
            missed = latest - start > within and partials[partial, ENTERED] < number
            if abs(start - time) > within or missed:
                _unlink(partial, partials, lists, table, settings)
                _free(partial, partials, counters)
                lost = True
            partial = following
        if lost and element <= settings[SCOPE_END]:
            instances[instance, SEEDS] += instances[instance, FRESH_SEEDS] + 1
            instances[instance, FRESH_SEEDS] = 0


@inlined
def _expire_oldest(instance, time, partials, lists, table, counters, settings):  # type: ignore[no-untyped-def]  # pragma: no cover
    """Frees expired partials from the head of each list; those behind a live one are found when they are looked at."""
    within = settings[WITHIN]
    for element in range(1, settings[ELEMENTS]):
        entry = instance * settings[ELEMENTS] + element
        partial = lists[entry, HEAD]
        while partial != NONE and time - partials[partial, START] > within:
            _unlink(partial, partials, lists, table, settings)
            _free(partial, partials, counters)
            partial = lists[entry, HEAD]


@inlined
def _reset_sequence(instance, partials, lists, table, instances, counters, settings):  # type: ignore[no-untyped-def]  # pragma: no cover
    """Only what the event before this one brought forward is left; the first element waits once, or again under `every`."""
    number = instances[instance, NUMBER]
    for element in range(1, settings[ELEMENTS]):
        partial = lists[instance * settings[ELEMENTS] + element, HEAD]
        while partial != NONE:
            following = partials[partial, NEXT]
            if partials[partial, ENTERED] < number - 1:
                _unlink(partial, partials, lists, table, settings)
                _free(partial, partials, counters)
            partial = following
    seeds = instances[instance, FRESH_SEEDS]
    if seeds == 0 and settings[SCOPE_END] != NONE:
        seeds = 1
    instances[instance, SEEDS] = seeds
    instances[instance, FRESH_SEEDS] = 0


@inlined
def _has_newcomer(instance, element, partials, lists, instances, settings):  # type: ignore[no-untyped-def]  # pragma: no cover
    """Whether a partial came to `element` with this event (a sequence has room for one)."""
    tail = lists[instance * settings[ELEMENTS] + element, TAIL]
    return tail != NONE and partials[tail, ENTERED] == instances[instance, NUMBER]


@kernel
def run_chain(  # type: ignore[no-untyped-def]  # pragma: no cover - compiled
    rows,
    passing,
    whole,
    fractions,
    nulls,
    offers,
    settings,
    elements,
    comparisons,
    copies,
    partials,
    floats,
    lists,
    table,
    bounds,
    instances,
    counters,
    touched,
    matches,
):
    """Takes `rows` (n, 4: source, row among all events, timestamp, instance) through the machine from `counters[CURSOR]` on.

    `passing` (element, event) says which events meet the filters on themselves. Stops before a row for which the room in `partials` or
    `matches` might not do; the caller makes room and calls again. A match is (place in rows, partial, row reference per slot).
    """
    last = settings[ELEMENTS] - 1
    within = settings[WITHIN]
    sequence = settings[IS_SEQUENCE] == 1
    eager = sequence or settings[SCOPE_END] > 0
    for cursor in range(counters[CURSOR], rows.shape[0]):
        counters[CURSOR] = cursor
        instance = rows[cursor, 3]
        room = instances[instance, SEEDS] + instances[instance, FRESH_SEEDS] + 1
        if counters[LIVE] + room > partials.shape[0] or counters[MATCHES] + counters[LIVE] + room > matches.shape[0]:
            return
        source, row, time = rows[cursor, 0], rows[cursor, 1], rows[cursor, 2]
        instances[instance, NUMBER] += 1
        number = instances[instance, NUMBER]
        if within >= 0:
            latest = instances[instance, LATEST]
            if eager:
                _expire_all(instance, time, time, number, partials, lists, table, instances, counters, settings)
            elif time < latest:
                _expire_all(
                    instance, time, latest, instances[instance, LATEST_NUMBER], partials, lists, table, instances, counters, settings
                )
            else:
                _expire_oldest(instance, time, partials, lists, table, counters, settings)
            if time >= latest:
                instances[instance, LATEST] = time
                instances[instance, LATEST_NUMBER] = number
        if sequence:
            _reset_sequence(instance, partials, lists, table, instances, counters, settings)
        else:
            for position in range(offers.shape[1]):
                element = offers[source, position]
                if element == NONE:
                    break
                lists[instance * settings[ELEMENTS] + element, UPDATED] = number
                if element == 0:
                    instances[instance, SEEDS] += instances[instance, FRESH_SEEDS]
                    instances[instance, FRESH_SEEDS] = 0
        for position in range(offers.shape[1]):
            element = offers[source, position]
            if element == NONE:
                break
            passes = passing[element, row]
            if element == 0:
                seeds = instances[instance, SEEDS]
                if passes and seeds > 0:
                    instances[instance, SEEDS] = 0
                    for _ in range(seeds):
                        if settings[SCOPE_END] == 0:
                            instances[instance, FRESH_SEEDS] += 1
                        if last == 0:
                            matches[counters[MATCHES], 0] = cursor
                            matches[counters[MATCHES], 1] = NONE
                            matches[counters[MATCHES], 2] = row
                            counters[MATCHES] += 1
                            continue
                        if sequence and _has_newcomer(instance, 1, partials, lists, instances, settings):
                            continue
                        partial = _new(partials, counters)
                        partials[partial, ELEMENT] = 1
                        partials[partial, INSTANCE] = instance
                        partials[partial, TIME] = time
                        partials[partial, START] = time
                        partials[partial, ENTERED] = number
                        _fill(
                            partial, 0, row, partials, floats, whole, fractions, nulls, elements, copies, touched, counters, settings
                        )
                        _link(partial, partials, floats, lists, table, bounds, elements, comparisons, settings)
                elif sequence:
                    instances[instance, SEEDS] = 0
                continue
            if not passes and not sequence:
                continue
            # the partials to be looked at
            first_comparison = elements[element, FIRST_COMPARISON]
            end_comparison = elements[element, END_COMPARISON]
            indexed = elements[element, INDEXED]
            bounded = elements[element, BOUNDED]
            key = np.int64(0)
            place = np.int64(0)
            bound = np.inf
            upward = True
            if sequence:
                partial = lists[instance * settings[ELEMENTS] + element, HEAD]
            else:
                if indexed != NONE:
                    column = comparisons[indexed, EVENT_COLUMN]
                    if (nulls[row] >> column) & 1:
                        continue
                    key = whole[column, row]
                place = _place_of(element, instance, key, table)
                if bounded != NONE:
                    column = comparisons[bounded, EVENT_COLUMN]
                    if (nulls[row] >> (column + whole.shape[0])) & 1:
                        continue
                    if not _compare(comparisons[bounded, OPERATOR], fractions[column, row], bounds[element, place]):
                        continue
                    upward = comparisons[bounded, OPERATOR] >= GREATER
                    bound = np.inf if upward else -np.inf
                partial = table[element, place, FIRST]
                if partial == NONE:
                    continue
            while partial != NONE:
                following = partials[partial, NEXT] if sequence else partials[partial, CHAIN_NEXT]
                if partials[partial, ENTERED] == number:
                    accepted = False
                    candidate = False
                else:
                    candidate = sequence or (partials[partial, KEY] == key and partials[partial, INSTANCE] == instance)
                    if candidate and not eager and within >= 0 and time >= instances[instance, LATEST]:
                        if time - partials[partial, START] > within:
                            _unlink(partial, partials, lists, table, settings)
                            _free(partial, partials, counters)
                            partial = following
                            continue
                    accepted = candidate and passes
                    if accepted:
                        for comparison in range(first_comparison, end_comparison):
                            if not _holds(
                                comparisons[comparison], row, partial, partials, floats, whole, fractions, nulls, settings
                            ):
                                accepted = False
                                break
                if not accepted:
                    if sequence:
                        if candidate:
                            _unlink(partial, partials, lists, table, settings)
                            _free(partial, partials, counters)
                    elif bounded != NONE:
                        register = comparisons[bounded, REGISTER]
                        if not (partials[partial, NULLS] >> (register + partials.shape[1] - settings[REGISTERS])) & 1:
                            value = floats[partial, register]
                            if (upward and value < bound) or (not upward and value > bound):
                                bound = value
                    partial = following
                    continue
                _unlink(partial, partials, lists, table, settings)
                if settings[SCOPE_END] == element:
                    instances[instance, FRESH_SEEDS] += 1
                if element == last:
                    match = counters[MATCHES]
                    matches[match, 0] = cursor
                    matches[match, 1] = partial
                    for slot in range(last):
                        matches[match, 2 + slot] = partials[partial, REFERENCES + slot]
                    matches[match, 2 + last] = row
                    counters[MATCHES] += 1
                    _free(partial, partials, counters)
                elif sequence and _has_newcomer(instance, element + 1, partials, lists, instances, settings):
                    _free(partial, partials, counters)
                else:
                    partials[partial, ELEMENT] = element + 1
                    partials[partial, TIME] = time
                    partials[partial, ENTERED] = number
                    _fill(
                        partial, element, row, partials, floats, whole, fractions, nulls, elements, copies, touched, counters, settings
                    )
                    _link(partial, partials, floats, lists, table, bounds, elements, comparisons, settings)
                partial = following
            if bounded != NONE and not sequence:
                bounds[element, place] = bound
    counters[CURSOR] = rows.shape[0]


@kernel
def settle_chain(partials, touched, counters, kept, settings):  # type: ignore[no-untyped-def]  # pragma: no cover - compiled
    """Writes to `kept` (n, 3: partial, slot, row) every event of the finished batch that a live partial holds; returns how many.

    From then on these partials say of that slot that its event is kept (`NONE`).
    """
    count = 0
    for place in range(counters[TOUCHES]):
        partial = touched[place]
        partials[partial, TOUCHED] = 0
        element = partials[partial, ELEMENT]
        for slot in range(max(element, 0)):
            row = partials[partial, REFERENCES + slot]
            if row != NONE:
                kept[count, 0] = partial
                kept[count, 1] = slot
                kept[count, 2] = row
                count += 1
                partials[partial, REFERENCES + slot] = NONE
    counters[TOUCHES] = 0
    return count


@kernel
def rebuild_table(partials, floats, lists, table, bounds, elements, comparisons, settings):  # type: ignore[no-untyped-def]  # pragma: no cover
    """Fills an empty `table` from the lists."""
    for entry in range(lists.shape[0]):
        partial = lists[entry, HEAD]
        while partial != NONE:
            _chain_in(
                partial, partials, floats, table, bounds, elements, comparisons, settings, NEVER
            )
            partial = partials[partial, NEXT]


@kernel
def live_partials(partials, lists, out):  # type: ignore[no-untyped-def]  # pragma: no cover - compiled
    """Writes the live partials to `out`, list by list in order; returns how many."""
    count = 0
    for entry in range(lists.shape[0]):
        partial = lists[entry, HEAD]
        while partial != NONE:
            out[count] = partial
            count += 1
            partial = partials[partial, NEXT]
    return count


@kernel
def relink(count, partials, lists, settings):  # type: ignore[no-untyped-def]  # pragma: no cover - compiled
    """Puts partials 0 … count - 1, in the order of their lists, into empty `lists`."""
    for partial in range(count):
        entry = partials[partial, INSTANCE] * settings[ELEMENTS] + partials[partial, ELEMENT]
        before = lists[entry, TAIL]
        partials[partial, PREVIOUS] = before
        partials[partial, NEXT] = NONE
        if before == NONE:
            lists[entry, HEAD] = partial
        else:
            partials[before, NEXT] = partial
        lists[entry, TAIL] = partial


@kernel
def close_instance(instance, partials, lists, table, counters, settings):  # type: ignore[no-untyped-def]  # pragma: no cover
    """Frees every partial of `instance`."""
    for element in range(1, settings[ELEMENTS]):
        entry = instance * settings[ELEMENTS] + element
        while lists[entry, HEAD] != NONE:
            partial = lists[entry, HEAD]
            _unlink(partial, partials, lists, table, settings)
            _free(partial, partials, counters)
