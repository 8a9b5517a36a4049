"""Parts of the compiled loops of chains: start a partial match, advance it, and complete a match.

element 0 ──start_attempts──▶ waits at 1 ──advance──▶ waits at 2 … ──advance──▶ match
"""

from __future__ import annotations

import numpy as np

from siddhi.engine.jit.kernels import kernel_part
from siddhi.engine.jit.memory import fetch
from siddhi.engine.operators.patterns.chain.conditions import passes
from siddhi.engine.operators.patterns.chain.lists import fill, free, link, new, unlink
from siddhi.engine.operators.patterns.chain.memory import (
    BOUNDED,
    ELEMENT,
    ELEMENTS,
    ENTERED,
    EVENT_COLUMNS,
    EVENT_INSTANCE,
    EVENT_NULLS,
    FRESH_SEEDS,
    FROM_BEFORE,
    HEAD,
    INDEXED,
    INSTANCE,
    IS_SEQUENCE,
    LATEST,
    LIST_WIDTH,
    LIVE,
    MATCH_CAUSE,
    MATCH_PARTIAL,
    MATCH_REFERENCES,
    MATCHES,
    NONE,
    NUMBER,
    REACHED,
    REFERENCES,
    ROWS,
    SCOPE_END,
    SEEDS,
    START,
    TAIL,
    TIME,
    WITHIN,
)
from siddhi.engine.tuning import (
    CHAIN_LIST_PREFETCH_EVENTS,
    CHAIN_LISTS_PER_CACHE_LINE,
    CHAIN_PARTIAL_PREFETCH_EVENTS,
    CHAIN_PREFETCH_MIN_LISTS,
)


@kernel_part
def has_newcomer(entry, number, partials, lists):  # type: ignore[no-untyped-def]
    """Return whether a partial match entered the list `entry` with the event `number` (a sequence has room for one)."""
    tail = lists[entry, TAIL]
    return tail != NONE and partials[tail, ENTERED] == number


@kernel_part
def has_room(instance, partials, lists, counters, settings, matches):  # type: ignore[no-untyped-def]
    """Return whether there is certainly room for the partials and matches of one more event of `instance`."""
    own = instance * settings[ELEMENTS]
    wanted = counters[LIVE] + lists[own, SEEDS] + lists[own, FRESH_SEEDS] + 1
    return wanted <= partials.shape[0] and counters[MATCHES] + wanted <= matches.shape[1]


@kernel_part
def _row_at(cursor, events):  # type: ignore[no-untyped-def]
    return events.order[cursor] if events.order.shape[0] > 0 else cursor


@kernel_part
def bring_near(cursor, state, rules, events):  # type: ignore[no-untyped-def]
    """Prefetch the memory of instances with upcoming events.

    Call it only if there are so many instances that it is not in the cache anyway. Lists are requested first, then the
    partials at their heads, and the bounds of these.
    """
    if state.lists.shape[0] < CHAIN_PREFETCH_MIN_LISTS or cursor + CHAIN_LIST_PREFETCH_EVENTS >= state.counters[ROWS]:
        return
    elements = rules.settings[ELEMENTS]
    entry = events.whole[EVENT_INSTANCE, _row_at(cursor + CHAIN_LIST_PREFETCH_EVENTS, events)] * elements
    for element in range(0, elements, CHAIN_LISTS_PER_CACHE_LINE):
        fetch(np.int64(state.lists.ctypes.data) + 8 * LIST_WIDTH * (entry + element))
    row = _row_at(cursor + CHAIN_PARTIAL_PREFETCH_EVENTS, events)
    instance = events.whole[EVENT_INSTANCE, row]
    for element in range(1, elements):
        partial = state.lists[instance * elements + element, HEAD]
        if partial != NONE:
            size = 8 * state.partials.shape[1]
            address = np.int64(state.partials.ctypes.data) + size * partial
            fetch(address)
            fetch(address + size - 1)
            fetch(np.int64(state.floats.ctypes.data) + 8 * state.floats.shape[1] * partial)
        elif element > 1 or not passes(np.int64(0), row, rules, events):
            continue
        if rules.elements[element, BOUNDED] != NONE and rules.elements[element, INDEXED] == NONE:
            fetch(np.int64(state.list_bounds.ctypes.data) + 8 * (instance * elements + element))


@kernel_part
def begin_batch(counters, settings, texts, whole):  # type: ignore[no-untyped-def]
    """Clear the matches, and set the bit of each null string of the batch."""
    counters[MATCHES] = 0
    for slot in range(settings[ELEMENTS]):
        counters[FROM_BEFORE + slot] = 0
    for place in range(texts.shape[0]):
        column = texts[place]
        for row in range(counters[ROWS]):
            if whole[EVENT_COLUMNS + column, row] < 0:
                whole[EVENT_NULLS, row] |= np.int64(1) << column


@kernel_part
def _add_match(cursor, partial, row, last, partials, counters, matches):  # type: ignore[no-untyped-def]
    """Append the match of `partial`, completed by the event in `row` at element `last`."""
    match = counters[MATCHES]
    counters[MATCHES] += 1
    matches[MATCH_CAUSE, match] = cursor
    matches[MATCH_PARTIAL, match] = partial
    matches[MATCH_REFERENCES + last, match] = row
    for slot in range(last):
        reference = partials[partial, REFERENCES + slot]
        matches[MATCH_REFERENCES + slot, match] = reference
        if reference == NONE:
            counters[FROM_BEFORE + slot] += 1


@kernel_part
def start_attempts(cursor, row, time, instance, state, rules, events):  # type: ignore[no-untyped-def]
    """Process the event in `row`, which passed the first element.

    Every empty partial that waits there becomes a partial with it.
    """
    own = instance * rules.settings[ELEMENTS]
    seeds = state.lists[own, SEEDS]
    state.lists[own, SEEDS] = 0
    sequence = rules.settings[IS_SEQUENCE] == 1
    number = state.lists[own, NUMBER]
    entry = own + 1
    if rules.settings[SCOPE_END] == 0:
        state.lists[own, FRESH_SEEDS] += seeds
    for _ in range(seeds):
        if rules.settings[ELEMENTS] == 1:
            _add_match(cursor, np.int64(NONE), row, np.int64(0), state.partials, state.counters, state.matches)
        elif not (sequence and has_newcomer(entry, number, state.partials, state.lists)):
            partial = new(state.partials, state.counters)
            state.partials[partial, ELEMENT] = 1
            state.partials[partial, INSTANCE] = instance
            state.partials[partial, TIME] = time
            state.partials[partial, START] = time
            state.partials[partial, REACHED] = state.lists[own, LATEST]
            state.partials[partial, ENTERED] = number
            fill(partial, np.int64(0), row, state, rules, events)
            link(partial, state, rules)


@kernel_part
def in_time(partial, time, state, rules):  # type: ignore[no-untyped-def]
    """Return whether an event at `time` is no more than `within` newer than the first of `partial`.

    This is only needed for partials that began late: others are dropped in time.
    """
    start = state.partials[partial, START]
    within = rules.settings[WITHIN]
    return within < 0 or start == state.partials[partial, REACHED] or time - start <= within


@kernel_part
def advance(partial, element, cursor, row, time, instance, state, rules, events):  # type: ignore[no-untyped-def]
    """Process an event in `row` that passed `element` for `partial`: emit a match, or advance to the next element."""
    last = rules.settings[ELEMENTS] - 1
    own = instance * rules.settings[ELEMENTS]
    unlink(partial, element, own + element, state, rules)
    number = state.lists[own, NUMBER]
    entry = own + element + 1
    if rules.settings[SCOPE_END] == element:
        state.lists[own, FRESH_SEEDS] += 1
    if element == last:
        _add_match(cursor, partial, row, last, state.partials, state.counters, state.matches)
        free(partial, state.partials, state.counters)
    elif rules.settings[IS_SEQUENCE] == 1 and has_newcomer(entry, number, state.partials, state.lists):
        free(partial, state.partials, state.counters)
    else:
        state.partials[partial, ELEMENT] = element + 1
        state.partials[partial, TIME] = time
        state.partials[partial, ENTERED] = number
        fill(partial, element, row, state, rules, events)
        link(partial, state, rules)
