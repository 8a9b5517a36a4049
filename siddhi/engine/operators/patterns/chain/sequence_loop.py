"""The compiled loop of sequences: `every e1, e2, …`, adjacent events only.

An event either advances a partial match by one element or ends it; each element has room for one newcomer for each
event.

    events    a    b    c
              e1 → e2 → match
                   e1 ✗
"""

from __future__ import annotations

import numpy as np

from siddhi.engine.jit.kernels import kernel_part, seldom_part, state_kernel
from siddhi.engine.operators.patterns.chain.advance import (
    advance,
    begin_batch,
    bring_near,
    has_room,
    in_time,
    start_attempts,
)
from siddhi.engine.operators.patterns.chain.conditions import meets, passes
from siddhi.engine.operators.patterns.chain.lists import free, unlink
from siddhi.engine.operators.patterns.chain.memory import (
    CURSOR,
    ELEMENTS,
    ENTERED,
    EVENT_INSTANCE,
    EVENT_SOURCE,
    EVENT_TIME,
    FRESH_SEEDS,
    HEAD,
    LATEST,
    LIVE,
    NEXT,
    NONE,
    NUMBER,
    REACHED,
    ROWS,
    SCOPE_END,
    SEEDS,
    WITHIN,
    ChainEvents,
    ChainRules,
    ChainState,
)


@seldom_part
def _expire(instance, latest, state, rules):  # type: ignore[no-untyped-def]
    """Free every expired partial of a sequence, as `pattern_loop` does for patterns."""
    for element in range(1, rules.settings[ELEMENTS]):
        entry = instance * rules.settings[ELEMENTS] + element
        partial = state.lists[entry, HEAD]
        while partial != NONE:
            following = state.partials[partial, NEXT]
            if latest - state.partials[partial, REACHED] > rules.settings[WITHIN]:
                unlink(partial, element, entry, state, rules)
                free(partial, state.partials, state.counters)
            partial = following


@seldom_part
def _leave_behind(instance, state, rules):  # type: ignore[no-untyped-def]
    """Free every partial that the previous event did not advance."""
    own = instance * rules.settings[ELEMENTS]
    number = state.lists[own, NUMBER]
    for element in range(1, rules.settings[ELEMENTS]):
        partial = state.lists[own + element, HEAD]
        while partial != NONE:
            following = state.partials[partial, NEXT]
            if state.partials[partial, ENTERED] < number - 1:
                unlink(partial, element, own + element, state, rules)
                free(partial, state.partials, state.counters)
            partial = following


@kernel_part
def _begin_event(time, instance, state, rules):  # type: ignore[no-untyped-def]
    """Prepare for an event at `time`: only partials that the previous event advanced wait for it.

    The first element waits once, or repeatedly under `every`.
    """
    own = instance * rules.settings[ELEMENTS]
    state.lists[own, NUMBER] += 1
    latest = state.lists[own, LATEST] = max(state.lists[own, LATEST], time)
    if state.counters[LIVE] > 0:
        if rules.settings[WITHIN] >= 0:
            _expire(instance, latest, state, rules)
        if rules.offers.shape[0] > 1:  # with a single stream every event advances or ends all partials
            _leave_behind(instance, state, rules)
    seeds = state.lists[own, FRESH_SEEDS]
    if seeds == 0 and rules.settings[SCOPE_END] != NONE:
        seeds = np.int64(1)
    state.lists[own, SEEDS] = seeds
    state.lists[own, FRESH_SEEDS] = 0


@kernel_part
def _offer(element, passed, cursor, row, time, instance, state, rules, events):  # type: ignore[no-untyped-def]
    """Offer the event in `row` to the partials at `element` of a sequence; those that do not match are freed."""
    own = instance * rules.settings[ELEMENTS]
    partial = state.lists[own + element, HEAD]
    while partial != NONE:
        following = state.partials[partial, NEXT]
        if state.partials[partial, ENTERED] != state.lists[own, NUMBER]:
            if passed and in_time(partial, time, state, rules) and meets(element, row, partial, state, rules, events):
                advance(partial, element, cursor, row, time, instance, state, rules, events)
            else:
                unlink(partial, element, own + element, state, rules)
                free(partial, state.partials, state.counters)
        partial = following


@state_kernel
def run_sequence(  # type: ignore[no-untyped-def]
    partials,
    floats,
    lists,
    list_bounds,
    table,
    chain_bounds,
    counters,
    touched,
    matches,
    settings,
    elements,
    tests,
    constants,
    comparisons,
    copies,
    offers,
    texts,
    order,
    whole,
    fractions,
):
    """Process the events of a batch in a sequence, as `run_pattern` does in a pattern."""
    state = ChainState(partials, floats, lists, list_bounds, table, chain_bounds, counters, touched, matches)
    rules = ChainRules(settings, elements, tests, constants, comparisons, copies, offers, texts)
    events = ChainEvents(order, whole, fractions)
    if counters[CURSOR] == 0:
        begin_batch(counters, settings, texts, whole)
    for cursor in range(counters[CURSOR], counters[ROWS]):
        counters[CURSOR] = cursor
        row = order[cursor] if order.shape[0] > 0 else cursor
        source, time, instance = whole[EVENT_SOURCE, row], whole[EVENT_TIME, row], whole[EVENT_INSTANCE, row]
        bring_near(cursor, state, rules, events)
        if not has_room(instance, partials, lists, counters, settings, matches):
            return False
        _begin_event(time, instance, state, rules)
        for position in range(offers.shape[1]):
            element = offers[source, position]
            if element == NONE:
                break
            if element > 0:
                if lists[instance * settings[ELEMENTS] + element, HEAD] != NONE:
                    passed = passes(element, row, rules, events)
                    _offer(element, passed, cursor, row, time, instance, state, rules, events)
            elif passes(element, row, rules, events):
                start_attempts(cursor, row, time, instance, state, rules, events)
            else:
                lists[instance * settings[ELEMENTS], SEEDS] = 0
    counters[CURSOR] = counters[ROWS]
    return True
