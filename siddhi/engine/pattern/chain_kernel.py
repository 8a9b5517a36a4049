"""The compiled state loop of chains of plain elements: patterns and sequences whose elements are all single events.

Partial matches are rows of two arrays. A row stands in the list of the element where it waits (one list per partition
instance and element, in the order in which an event is offered to them) and in a chain of a hash table, so that an
event meets only partials that agree with it on the element's equality condition:

    lists[instance, element] → head ⇄ … ⇄ tail        table[element, hash(instance, key)] → first ⇄ … ⇄ last

The empty partials that wait at the first element are all alike; they are only counted (`SEEDS`, `FRESH_SEEDS`).

All of it stands in one file because numba's cache on disk notices changes of a kernel's own file only.
"""

from __future__ import annotations

from typing import NamedTuple

import numba
import numpy as np

from siddhi.engine.arrays import AnyArray, BoolArray, Int64Array
from siddhi.engine.hashing import mix

# The loops allocate nothing, so numba need not count references to the arrays they pass around: that alone took nine
# tenths of the time. The option has no public name.
kernel = numba.njit(cache=True, _nrt=False)  # type: ignore[call-overload]
inlined = numba.njit(_nrt=False, inline="always")  # type: ignore[call-overload]
called = numba.njit(_nrt=False)  # type: ignore[call-overload]
"""For what happens seldom: every inlined copy costs time to compile."""

NONE = -1
NEVER = 2**62
LONG_AGO = -(2**62)

# columns of a partial's row; behind them one row reference per slot, then the whole-number registers
NEXT, PREVIOUS, CHAIN_NEXT, CHAIN_PREVIOUS, PLACE, ELEMENT, TIME, START, ENTERED, INSTANCE, KEY, NULLS, TOUCHED = range(
    13
)
REFERENCES = 13

# columns of a list: its ends, the number of the event that last fed the element, the first partial that came since
# then, and a time before which none of these began
HEAD, TAIL, UPDATED, FRESH, EARLIEST = range(5)
LIST_WIDTH = 5

# columns of an instance
NUMBER, LATEST, SEEDS, FRESH_SEEDS = range(4)
INSTANCE_WIDTH = 4

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

# columns of a copy: what of an accepted event later conditions compare with
COPY_IS_FLOAT, COPY_COLUMN, COPY_REGISTER = range(3)


class ChainState(NamedTuple):
    """What outlives a batch, and room for results.

    `partials` (room, columns) and `floats` (room, fraction registers) are the partial matches, `lists` (instances ×
    elements, 5), `table` (elements, places, 2) and `bounds` (elements, places) say where they wait, `instances`
    (instances, 4) how far each partition instance is. `touched` holds the partials that refer to rows of the batch,
    `matches` (room, 2 + elements) the matches: place in `rows`, partial, and per slot a row or `NONE` for an event
    kept from before.
    """

    partials: Int64Array
    floats: AnyArray
    lists: Int64Array
    table: Int64Array
    bounds: AnyArray
    instances: Int64Array
    counters: Int64Array
    touched: Int64Array
    matches: Int64Array


class ChainRules(NamedTuple):
    """The chain itself. `offers` (sources, elements): the elements that a source feeds, last first, then `NONE`."""

    settings: Int64Array
    elements: Int64Array
    comparisons: Int64Array
    copies: Int64Array
    offers: Int64Array


class ChainEvents(NamedTuple):
    """One batch. `rows` (n, 4): source, row among all events, timestamp, instance. `passing` (elements, events) says
    which events meet the filters on themselves; `whole` and `fractions` (columns, events) are what conditions
    compare, `nulls` (events) has a bit for each column that is null."""

    rows: Int64Array
    passing: BoolArray
    whole: Int64Array
    fractions: AnyArray
    nulls: Int64Array


@inlined
def _compare(operator, left, right):  # type: ignore[no-untyped-def]
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
def _holds(comparison, row, partial, state, rules, events):  # type: ignore[no-untyped-def]
    """Whether one comparison of event `row` with `partial` holds; null makes it false, and `!=` true."""
    column = comparison[EVENT_COLUMN]
    register = comparison[REGISTER]
    base = rules.settings[REGISTERS]
    if comparison[IS_FLOAT] == 0:
        if (events.nulls[row] >> column | state.partials[partial, NULLS] >> register) & 1:
            return comparison[OPERATOR] == NOT_EQUAL
        return _compare(comparison[OPERATOR], events.whole[column, row], state.partials[partial, base + register])
    null_column = column + events.whole.shape[0]
    null_register = register + state.partials.shape[1] - base
    if (events.nulls[row] >> null_column | state.partials[partial, NULLS] >> null_register) & 1:
        return comparison[OPERATOR] == NOT_EQUAL
    return _compare(comparison[OPERATOR], events.fractions[column, row], state.floats[partial, register])


@inlined
def _place_of(element, instance, key, state):  # type: ignore[no-untyped-def]
    return mix(mix(np.int64(element), np.int64(instance)), np.int64(key)) & state.table.shape[1] - 1


@called
def _chain_in(partial, updated, state, rules):  # type: ignore[no-untyped-def]
    """Puts `partial` into the table, unless its key is null and nothing can equal it."""
    element = state.partials[partial, ELEMENT]
    indexed = rules.elements[element, INDEXED]
    state.partials[partial, PLACE] = NONE
    key = np.int64(0)
    if indexed != NONE:
        register = rules.comparisons[indexed, REGISTER]
        if state.partials[partial, NULLS] >> register & 1:
            return
        key = state.partials[partial, rules.settings[REGISTERS] + register]
    state.partials[partial, KEY] = key
    place = _place_of(element, state.partials[partial, INSTANCE], key, state)
    state.partials[partial, PLACE] = place
    before = state.table[element, place, LAST]
    after = np.int64(NONE)
    while before != NONE and _comes_after(before, partial, updated, state):
        after = before
        before = state.partials[before, CHAIN_PREVIOUS]
    state.partials[partial, CHAIN_PREVIOUS] = before
    state.partials[partial, CHAIN_NEXT] = after
    if before == NONE:
        state.table[element, place, FIRST] = partial
    else:
        state.partials[before, CHAIN_NEXT] = partial
    if after == NONE:
        state.table[element, place, LAST] = partial
    else:
        state.partials[after, CHAIN_PREVIOUS] = partial
    bounded = rules.elements[element, BOUNDED]
    if bounded != NONE:
        _widen(partial, rules.comparisons[bounded], element, place, before == NONE and after == NONE, state, rules)


@called
def _widen(partial, comparison, element, place, first, state, rules):  # type: ignore[no-untyped-def]
    """Makes the bound of a chain take in `partial`: the least (for `>`) or greatest value an event has to beat."""
    register = comparison[REGISTER]
    upward = comparison[OPERATOR] >= GREATER
    if first:
        state.bounds[element, place] = np.inf if upward else -np.inf
    if state.partials[partial, NULLS] >> register + state.partials.shape[1] - rules.settings[REGISTERS] & 1:
        return
    value = state.floats[partial, register]
    if upward:
        state.bounds[element, place] = min(state.bounds[element, place], value)
    elif value > state.bounds[element, place]:
        state.bounds[element, place] = value


@inlined
def _comes_after(waiting, newcomer, updated, state):  # type: ignore[no-untyped-def]
    """Whether `waiting` came since the last look at the list and is later in time than `newcomer`, or concerns another
    instance."""
    if state.partials[waiting, INSTANCE] != state.partials[newcomer, INSTANCE]:
        return True
    return (
        state.partials[waiting, ENTERED] >= updated and state.partials[waiting, TIME] > state.partials[newcomer, TIME]
    )


@inlined
def _link(partial, state, rules):  # type: ignore[no-untyped-def]
    """`partial`, its element and instance set, waits in that element's list: behind all but later ones that came as
    recently."""
    entry = state.partials[partial, INSTANCE] * rules.settings[ELEMENTS] + state.partials[partial, ELEMENT]
    updated = state.lists[entry, UPDATED]
    before = state.lists[entry, TAIL]
    after = np.int64(NONE)
    while before != NONE and _comes_after(before, partial, updated, state):
        after = before
        before = state.partials[before, PREVIOUS]
    state.partials[partial, PREVIOUS] = before
    state.partials[partial, NEXT] = after
    if before == NONE:
        state.lists[entry, HEAD] = partial
    else:
        state.partials[before, NEXT] = partial
    if after == NONE:
        state.lists[entry, TAIL] = partial
    else:
        state.partials[after, PREVIOUS] = partial
    if rules.settings[IS_SEQUENCE] == 0:
        start = state.partials[partial, START]
        fresh = state.lists[entry, FRESH]
        if fresh == NONE or start < state.lists[entry, EARLIEST]:
            state.lists[entry, EARLIEST] = start
        if fresh == after:
            state.lists[entry, FRESH] = partial
        _chain_in(partial, updated, state, rules)


@inlined
def _unlink(partial, state, rules):  # type: ignore[no-untyped-def]
    """`partial` waits nowhere."""
    element = state.partials[partial, ELEMENT]
    entry = state.partials[partial, INSTANCE] * rules.settings[ELEMENTS] + element
    before, after = (state.partials[partial, PREVIOUS], state.partials[partial, NEXT])
    if before == NONE:
        state.lists[entry, HEAD] = after
    else:
        state.partials[before, NEXT] = after
    if after == NONE:
        state.lists[entry, TAIL] = before
    else:
        state.partials[after, PREVIOUS] = before
    if rules.settings[IS_SEQUENCE] == 1:
        return
    if state.lists[entry, FRESH] == partial:
        state.lists[entry, FRESH] = after
    place = state.partials[partial, PLACE]
    if place == NONE:
        return
    before, after = (state.partials[partial, CHAIN_PREVIOUS], state.partials[partial, CHAIN_NEXT])
    if before == NONE:
        state.table[element, place, FIRST] = after
    else:
        state.partials[before, CHAIN_NEXT] = after
    if after == NONE:
        state.table[element, place, LAST] = before
    else:
        state.partials[after, CHAIN_PREVIOUS] = before


@inlined
def _free(partial, state):  # type: ignore[no-untyped-def]
    state.partials[partial, ELEMENT] = NONE
    state.partials[partial, NEXT] = state.counters[FREE]
    state.counters[FREE] = partial
    state.counters[LIVE] -= 1


@inlined
def _new(state):  # type: ignore[no-untyped-def]
    partial = state.counters[FREE]
    if partial == NONE:
        partial = state.counters[UNUSED]
        state.counters[UNUSED] += 1
        state.partials[partial, TOUCHED] = 0
    else:
        state.counters[FREE] = state.partials[partial, NEXT]
    state.counters[LIVE] += 1
    state.partials[partial, NULLS] = 0
    return partial


@inlined
def _fill(partial, element, row, state, rules, events):  # type: ignore[no-untyped-def]
    """The event in `row` stands in slot `element` of `partial`."""
    state.partials[partial, REFERENCES + element] = row
    if state.partials[partial, TOUCHED] == 0:
        state.partials[partial, TOUCHED] = 1
        state.touched[state.counters[TOUCHES]] = partial
        state.counters[TOUCHES] += 1
    base = rules.settings[REGISTERS]
    for copy in range(rules.elements[element, FIRST_COPY], rules.elements[element, END_COPY]):
        column = rules.copies[copy, COPY_COLUMN]
        register = rules.copies[copy, COPY_REGISTER]
        if rules.copies[copy, COPY_IS_FLOAT] == 0:
            state.partials[partial, base + register] = events.whole[column, row]
            null = events.nulls[row] >> column & 1
            bit = register
        else:
            state.floats[partial, register] = events.fractions[column, row]
            null = events.nulls[row] >> column + events.whole.shape[0] & 1
            bit = register + state.partials.shape[1] - base
        if null:
            state.partials[partial, NULLS] |= np.int64(1) << bit


@called
def _expire_sequence(instance, time, state, rules):  # type: ignore[no-untyped-def]
    """Frees every partial of a sequence that began more than `within` before or after `time`."""
    for element in range(1, rules.settings[ELEMENTS]):
        partial = state.lists[instance * rules.settings[ELEMENTS] + element, HEAD]
        while partial != NONE:
            following = state.partials[partial, NEXT]
            if abs(state.partials[partial, START] - time) > rules.settings[WITHIN]:
                _unlink(partial, state, rules)
                _free(partial, state)
            partial = following


@called
def _expire_fresh(element, entry, time, in_order, state, rules):  # type: ignore[no-untyped-def]
    """Frees every partial that came to a list since its element was last fed and began too far from `time`; says
    whether there was one. Behind the first element these are in the order in which they began."""
    within = rules.settings[WITHIN]
    lost = False
    earliest = np.int64(NEVER)
    partial = state.lists[entry, FRESH]
    while partial != NONE:
        following = state.partials[partial, NEXT]
        start = state.partials[partial, START]
        if abs(start - time) > within:
            _unlink(partial, state, rules)
            _free(partial, state)
            lost = True
        else:
            earliest = min(earliest, start)
            if element == 1 and in_order:
                break
        partial = following
    state.lists[entry, EARLIEST] = earliest
    return lost


@inlined
def _expire_pattern(instance, time, state, rules):  # type: ignore[no-untyped-def]
    """Frees partials that began more than `within` before or after `time`: of those that wait, from the oldest until
    one is live, and all that came since the element was last fed. An `every` scope that lost one starts again."""
    within = rules.settings[WITHIN]
    in_order = time + within >= state.instances[instance, LATEST]
    for element in range(1, rules.settings[ELEMENTS]):
        entry = instance * rules.settings[ELEMENTS] + element
        lost = False
        partial = state.lists[entry, HEAD]
        while (
            partial != NONE
            and partial != state.lists[entry, FRESH]
            and abs(state.partials[partial, START] - time) > within
        ):
            _unlink(partial, state, rules)
            _free(partial, state)
            lost = True
            partial = state.lists[entry, HEAD]
        if state.lists[entry, FRESH] != NONE and not (in_order and time - state.lists[entry, EARLIEST] <= within):
            lost = _expire_fresh(element, entry, time, in_order, state, rules) or lost
        if lost and element <= rules.settings[SCOPE_END]:
            state.instances[instance, SEEDS] += state.instances[instance, FRESH_SEEDS] + 1
            state.instances[instance, FRESH_SEEDS] = 0


@called
def _reset_sequence(instance, state, rules):  # type: ignore[no-untyped-def]
    """Only what the event before this one brought forward is left; the first element waits once, or again under
    `every`."""
    number = state.instances[instance, NUMBER]
    for element in range(1, rules.settings[ELEMENTS]):
        partial = state.lists[instance * rules.settings[ELEMENTS] + element, HEAD]
        while partial != NONE:
            following = state.partials[partial, NEXT]
            if state.partials[partial, ENTERED] < number - 1:
                _unlink(partial, state, rules)
                _free(partial, state)
            partial = following
    seeds = state.instances[instance, FRESH_SEEDS]
    if seeds == 0 and rules.settings[SCOPE_END] != NONE:
        seeds = 1
    state.instances[instance, SEEDS] = seeds
    state.instances[instance, FRESH_SEEDS] = 0


@inlined
def _has_newcomer(instance, element, state, rules):  # type: ignore[no-untyped-def]
    """Whether a partial came to `element` with this event (a sequence has room for one)."""
    tail = state.lists[instance * rules.settings[ELEMENTS] + element, TAIL]
    return tail != NONE and state.partials[tail, ENTERED] == state.instances[instance, NUMBER]


@inlined
def _begin_pattern_event(source, time, instance, state, rules):  # type: ignore[no-untyped-def]
    """Everything is settled for an event of `source` at `time`: what is too old is gone, what came before waits for
    it."""
    state.instances[instance, NUMBER] += 1
    if rules.settings[WITHIN] >= 0:
        _expire_pattern(instance, time, state, rules)
        state.instances[instance, LATEST] = max(state.instances[instance, LATEST], time)
    for position in range(rules.offers.shape[1]):
        element = rules.offers[source, position]
        if element == NONE:
            break
        entry = instance * rules.settings[ELEMENTS] + element
        state.lists[entry, UPDATED] = state.instances[instance, NUMBER]
        state.lists[entry, FRESH] = NONE
        if element == 0:
            state.instances[instance, SEEDS] += state.instances[instance, FRESH_SEEDS]
            state.instances[instance, FRESH_SEEDS] = 0


@inlined
def _begin_sequence_event(time, instance, state, rules):  # type: ignore[no-untyped-def]
    """Everything is settled for an event at `time`: only what the event before brought forward waits for it."""
    state.instances[instance, NUMBER] += 1
    if rules.settings[WITHIN] >= 0:
        _expire_sequence(instance, time, state, rules)
    _reset_sequence(instance, state, rules)


@inlined
def _start_attempts(cursor, row, time, instance, state, rules, events):  # type: ignore[no-untyped-def]
    """The event in `row` passed the first element: every empty partial that waits there becomes a partial with it."""
    seeds = state.instances[instance, SEEDS]
    state.instances[instance, SEEDS] = 0
    sequence = rules.settings[IS_SEQUENCE] == 1
    if rules.settings[SCOPE_END] == 0:
        state.instances[instance, FRESH_SEEDS] += seeds
    for _ in range(seeds):
        if rules.settings[ELEMENTS] == 1:
            state.matches[state.counters[MATCHES], 0] = cursor
            state.matches[state.counters[MATCHES], 1] = NONE
            state.matches[state.counters[MATCHES], 2] = row
            state.counters[MATCHES] += 1
        elif not (sequence and _has_newcomer(instance, 1, state, rules)):
            partial = _new(state)
            state.partials[partial, ELEMENT] = 1
            state.partials[partial, INSTANCE] = instance
            state.partials[partial, TIME] = time
            state.partials[partial, START] = time
            state.partials[partial, ENTERED] = state.instances[instance, NUMBER]
            _fill(partial, 0, row, state, rules, events)
            _link(partial, state, rules)


@inlined
def _key_of(element, row, rules, events):  # type: ignore[no-untyped-def]
    """(whether anything can equal it, the key) of the event in `row` under the element's equality condition."""
    indexed = rules.elements[element, INDEXED]
    if indexed == NONE:
        return (True, np.int64(0))
    column = rules.comparisons[indexed, EVENT_COLUMN]
    return (events.nulls[row] >> column & 1 == 0, events.whole[column, row])


@inlined
def _beats_bound(element, place, row, state, rules, events):  # type: ignore[no-untyped-def]
    """Whether the event in `row` can meet the element's ordering condition with any partial of the chain at `place`."""
    bounded = rules.elements[element, BOUNDED]
    if bounded == NONE:
        return True
    column = rules.comparisons[bounded, EVENT_COLUMN]
    if events.nulls[row] >> column + events.whole.shape[0] & 1:
        return False
    return _compare(rules.comparisons[bounded, OPERATOR], events.fractions[column, row], state.bounds[element, place])


@inlined
def _meets(element, row, partial, state, rules, events):  # type: ignore[no-untyped-def]
    """Whether every comparison of the element holds between the event in `row` and `partial`."""
    for comparison in range(rules.elements[element, FIRST_COMPARISON], rules.elements[element, END_COMPARISON]):
        if not _holds(rules.comparisons[comparison], row, partial, state, rules, events):
            return False
    return True


@inlined
def _tightened(bound, partial, comparison, state, rules):  # type: ignore[no-untyped-def]
    """`bound` so that it takes in `partial`, which stays."""
    register = comparison[REGISTER]
    if state.partials[partial, NULLS] >> register + state.partials.shape[1] - rules.settings[REGISTERS] & 1:
        return bound
    value = state.floats[partial, register]
    if comparison[OPERATOR] >= GREATER:
        return value if value < bound else bound
    return value if value > bound else bound


@inlined
def _advance(partial, element, cursor, row, time, instance, state, rules, events):  # type: ignore[no-untyped-def]
    """The event in `row` passed `element` for `partial`: a match, or a newcomer at the next element."""
    _unlink(partial, state, rules)
    last = rules.settings[ELEMENTS] - 1
    if rules.settings[SCOPE_END] == element:
        state.instances[instance, FRESH_SEEDS] += 1
    if element == last:
        match = state.counters[MATCHES]
        state.matches[match, 0] = cursor
        state.matches[match, 1] = partial
        for slot in range(last):
            state.matches[match, 2 + slot] = state.partials[partial, REFERENCES + slot]
        state.matches[match, 2 + last] = row
        state.counters[MATCHES] += 1
        _free(partial, state)
    elif rules.settings[IS_SEQUENCE] == 1 and _has_newcomer(instance, element + 1, state, rules):
        _free(partial, state)
    else:
        state.partials[partial, ELEMENT] = element + 1
        state.partials[partial, TIME] = time
        state.partials[partial, ENTERED] = state.instances[instance, NUMBER]
        _fill(partial, element, row, state, rules, events)
        _link(partial, state, rules)


@inlined
def _offer_sequence(element, passes, cursor, row, time, instance, state, rules, events):  # type: ignore[no-untyped-def]
    """Offers the event in `row` to the partials at `element` of a sequence; those that it does not pass are gone."""
    partial = state.lists[instance * rules.settings[ELEMENTS] + element, HEAD]
    while partial != NONE:
        following = state.partials[partial, NEXT]
        if state.partials[partial, ENTERED] != state.instances[instance, NUMBER]:
            if passes and _meets(element, row, partial, state, rules, events):
                _advance(partial, element, cursor, row, time, instance, state, rules, events)
            else:
                _unlink(partial, state, rules)
                _free(partial, state)
        partial = following


@inlined
def _offer_pattern(element, cursor, row, time, instance, state, rules, events):  # type: ignore[no-untyped-def]
    """Offers the event in `row`, which meets the filters on itself, to the partials at `element` of a pattern."""
    comparable, key = _key_of(element, row, rules, events)
    place = _place_of(element, instance, key, state)
    if not comparable or not _beats_bound(element, place, row, state, rules, events):
        return
    bounded = rules.elements[element, BOUNDED]
    bound = np.inf
    if bounded != NONE and rules.comparisons[bounded, OPERATOR] < GREATER:
        bound = -np.inf
    partial = state.table[element, place, FIRST]
    while partial != NONE:
        following = state.partials[partial, CHAIN_NEXT]
        candidate = (
            state.partials[partial, ENTERED] != state.instances[instance, NUMBER]
            and state.partials[partial, KEY] == key
            and (state.partials[partial, INSTANCE] == instance)
        )
        if candidate and _meets(element, row, partial, state, rules, events):
            _advance(partial, element, cursor, row, time, instance, state, rules, events)
        elif bounded != NONE:
            bound = _tightened(bound, partial, rules.comparisons[bounded], state, rules)
        partial = following
    if bounded != NONE:
        state.bounds[element, place] = bound


@inlined
def _has_room(instance, state):  # type: ignore[no-untyped-def]
    """Whether one more event of `instance` surely finds room for its partials and matches."""
    wanted = state.counters[LIVE] + state.instances[instance, SEEDS] + state.instances[instance, FRESH_SEEDS] + 1
    return wanted <= state.partials.shape[0] and state.counters[MATCHES] + wanted <= state.matches.shape[0]


@kernel
def run_pattern(state, rules, events):  # type: ignore[no-untyped-def]
    """Takes the rows of `events` through a pattern from `counters[CURSOR]` on.

    Stops before a row for which the room in `partials` or `matches` might not do; the caller makes room and calls
    again.
    """
    for cursor in range(state.counters[CURSOR], events.rows.shape[0]):
        state.counters[CURSOR] = cursor
        source, row = events.rows[cursor, 0], events.rows[cursor, 1]
        time, instance = events.rows[cursor, 2], events.rows[cursor, 3]
        if not _has_room(instance, state):
            return
        _begin_pattern_event(source, time, instance, state, rules)
        for position in range(rules.offers.shape[1]):
            element = rules.offers[source, position]
            if element == NONE:
                break
            if not events.passing[element, row]:
                continue
            if element == 0:
                _start_attempts(cursor, row, time, instance, state, rules, events)
            else:
                _offer_pattern(element, cursor, row, time, instance, state, rules, events)
    state.counters[CURSOR] = events.rows.shape[0]


@kernel
def run_sequence(state, rules, events):  # type: ignore[no-untyped-def]
    """Takes the rows of `events` through a sequence, as `run_pattern` does through a pattern."""
    for cursor in range(state.counters[CURSOR], events.rows.shape[0]):
        state.counters[CURSOR] = cursor
        source, row = events.rows[cursor, 0], events.rows[cursor, 1]
        time, instance = events.rows[cursor, 2], events.rows[cursor, 3]
        if not _has_room(instance, state):
            return
        _begin_sequence_event(time, instance, state, rules)
        for position in range(rules.offers.shape[1]):
            element = rules.offers[source, position]
            if element == NONE:
                break
            passes = events.passing[element, row]
            if element > 0:
                _offer_sequence(element, passes, cursor, row, time, instance, state, rules, events)
            elif passes:
                _start_attempts(cursor, row, time, instance, state, rules, events)
            else:
                state.instances[instance, SEEDS] = 0
    state.counters[CURSOR] = events.rows.shape[0]


@kernel
def settle_chain(kept, state):  # type: ignore[no-untyped-def]
    """Writes to `kept` (n, 3: partial, slot, row) every event of the finished batch that a live partial holds;
    returns how many.

    From then on these partials say of that slot that its event is kept (`NONE`).
    """
    count = 0
    for place in range(state.counters[TOUCHES]):
        partial = state.touched[place]
        state.partials[partial, TOUCHED] = 0
        element = state.partials[partial, ELEMENT]
        for slot in range(max(element, 0)):
            row = state.partials[partial, REFERENCES + slot]
            if row != NONE:
                kept[count, 0] = partial
                kept[count, 1] = slot
                kept[count, 2] = row
                count += 1
                state.partials[partial, REFERENCES + slot] = NONE
    state.counters[TOUCHES] = 0
    return count


@kernel
def rebuild_table(state, rules):  # type: ignore[no-untyped-def]
    """Fills an empty `table` from the lists."""
    for entry in range(state.lists.shape[0]):
        partial = state.lists[entry, HEAD]
        while partial != NONE:
            _chain_in(partial, NEVER, state, rules)
            partial = state.partials[partial, NEXT]


@kernel
def live_partials(out, state):  # type: ignore[no-untyped-def]
    """Writes the live partials to `out`, list by list in order; returns how many."""
    count = 0
    for entry in range(state.lists.shape[0]):
        partial = state.lists[entry, HEAD]
        while partial != NONE:
            out[count] = partial
            count += 1
            partial = state.partials[partial, NEXT]
    return count


@kernel
def relink(count, state, rules):  # type: ignore[no-untyped-def]
    """Puts partials 0 … count - 1, in the order of their lists, into empty `lists`."""
    for partial in range(count):
        entry = state.partials[partial, INSTANCE] * rules.settings[ELEMENTS] + state.partials[partial, ELEMENT]
        before = state.lists[entry, TAIL]
        state.partials[partial, PREVIOUS] = before
        state.partials[partial, NEXT] = NONE
        if before == NONE:
            state.lists[entry, HEAD] = partial
        else:
            state.partials[before, NEXT] = partial
        state.lists[entry, TAIL] = partial
        if state.lists[entry, FRESH] == NONE and state.partials[partial, ENTERED] >= state.lists[entry, UPDATED]:
            state.lists[entry, FRESH] = partial
            state.lists[entry, EARLIEST] = LONG_AGO


@kernel
def close_instance(instance, state, rules):  # type: ignore[no-untyped-def]
    """Frees every partial of `instance`."""
    for element in range(1, rules.settings[ELEMENTS]):
        entry = instance * rules.settings[ELEMENTS] + element
        while state.lists[entry, HEAD] != NONE:
            partial = state.lists[entry, HEAD]
            _unlink(partial, state, rules)
            _free(partial, state)
