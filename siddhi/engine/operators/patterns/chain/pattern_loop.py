"""The compiled loop of patterns: `every e1 -> e2 -> …`.

For each event in turn, expired partials are dropped, partials that arrived since the element was last fed become
active, and the event is offered to the elements that its stream feeds, the last one first.

    lists[instance, element]   ● ● ● ● │ ○ ○          ● waiting  ○ came since (`FRESH`)
                               └ oldest first: expiry stops at the first ● that is live; every ○ is looked at
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
from siddhi.engine.operators.patterns.chain.conditions import beats_bound, key_of, meets, passes, tightened
from siddhi.engine.operators.patterns.chain.lists import fill_table, free, place_of, unlink
from siddhi.engine.operators.patterns.chain.memory import (
    BOUNDED,
    CHAIN_NEXT,
    CURSOR,
    EARLIEST,
    ELEMENTS,
    EMPTY_TABLE,
    ENTERED,
    EVENT_INSTANCE,
    EVENT_SOURCE,
    EVENT_TIME,
    FIRST,
    FRESH,
    FRESH_SEEDS,
    GREATER,
    HEAD,
    INDEXED,
    INSTANCE,
    KEY,
    LATEST,
    NEVER,
    NEXT,
    NONE,
    NUMBER,
    OPERATOR,
    REACHED,
    ROWS,
    SCOPE_END,
    SEEDS,
    START,
    UPDATED,
    WITHIN,
    ChainEvents,
    ChainRules,
    ChainState,
)


@seldom_part
def _expire_fresh(element, entry, latest, state, rules):  # type: ignore[no-untyped-def]
    """Free every partial that arrived since its element was last fed and has expired at `latest`.

    Return whether there was one. After the first element these are sorted by `START`: all partials after one that was
    not late expire no earlier.
    """
    within = rules.settings[WITHIN]
    lost = False
    earliest = np.int64(NEVER)
    partial = state.lists[entry, FRESH]
    while partial != NONE:
        following = state.partials[partial, NEXT]
        reached = state.partials[partial, REACHED]
        if latest - reached > within:
            unlink(partial, element, entry, state, rules)
            free(partial, state.partials, state.counters)
            lost = True
        else:
            earliest = min(earliest, reached)
            if element == 1 and state.partials[partial, START] == reached:
                break
        partial = following
    fresh = state.lists[entry, FRESH]
    if fresh != NONE:
        state.partials[fresh, EARLIEST] = earliest
    return lost


@kernel_part
def _expire(instance, latest, state, rules):  # type: ignore[no-untyped-def]
    """Free expired partials.

    The instance's time has advanced to `latest`, by more than `within` since their first event arrived. Waiting ones
    are freed until the first live one, and all expired ones among those that arrived since the element was last fed. An
    `every` scope that lost one restarts.
    """
    within = rules.settings[WITHIN]
    own = instance * rules.settings[ELEMENTS]
    for element in range(1, rules.settings[ELEMENTS]):
        entry = own + element
        lost = False
        partial = state.lists[entry, HEAD]
        if partial == NONE:
            continue
        while (
            partial != NONE
            and partial != state.lists[entry, FRESH]
            and latest - state.partials[partial, REACHED] > within
        ):
            unlink(partial, element, entry, state, rules)
            free(partial, state.partials, state.counters)
            lost = True
            partial = state.lists[entry, HEAD]
        fresh = state.lists[entry, FRESH]
        if fresh != NONE and latest - state.partials[fresh, EARLIEST] > within:
            lost = _expire_fresh(element, entry, latest, state, rules) or lost
        if lost and element <= rules.settings[SCOPE_END]:
            state.lists[own, SEEDS] += state.lists[own, FRESH_SEEDS] + 1
            state.lists[own, FRESH_SEEDS] = 0


@kernel_part
def _begin_event(source, time, instance, state, rules):  # type: ignore[no-untyped-def]
    """Prepare for an event of `source` at `time`: drop expired partials, and activate those from earlier events."""
    own = instance * rules.settings[ELEMENTS]
    state.lists[own, NUMBER] += 1
    if rules.settings[WITHIN] >= 0:
        latest = state.lists[own, LATEST] = max(state.lists[own, LATEST], time)
        _expire(instance, latest, state, rules)
    for position in range(rules.offers.shape[1]):
        element = rules.offers[source, position]
        if element == NONE:
            break
        if element == 0:
            state.lists[own, SEEDS] += state.lists[own, FRESH_SEEDS]
            state.lists[own, FRESH_SEEDS] = 0
        elif state.lists[own + element, HEAD] != NONE:
            entry = own + element
            state.lists[entry, UPDATED] = state.lists[own, NUMBER]
            state.lists[entry, FRESH] = NONE


@kernel_part
def _offer(element, cursor, row, time, instance, state, rules, events):  # type: ignore[no-untyped-def]
    """Offer the event in `row`, which meets its own filters, to the partials at `element` of a pattern."""
    comparable, key = key_of(element, row, rules, events)
    if not comparable:
        return
    place = instance * rules.settings[ELEMENTS] + element
    partial, forth, bounds = state.lists[place, HEAD], NEXT, state.list_bounds
    if rules.elements[element, INDEXED] != NONE:
        place = place_of(element, instance, key, state.table)
        partial, forth, bounds = state.table[element, place, FIRST], CHAIN_NEXT, state.chain_bounds
        place += element * state.table.shape[1]
    bounded = rules.elements[element, BOUNDED]
    if bounded != NONE and not beats_bound(bounded, row, bounds[place], rules, events):
        return
    number = state.lists[instance * rules.settings[ELEMENTS], NUMBER]
    bound = np.inf
    if bounded != NONE and rules.comparisons[bounded, OPERATOR] < GREATER:
        bound = -np.inf
    while partial != NONE:
        following = state.partials[partial, forth]
        candidate = (
            state.partials[partial, ENTERED] != number
            and state.partials[partial, KEY] == key
            and (state.partials[partial, INSTANCE] == instance)
        )
        if candidate and in_time(partial, time, state, rules) and meets(element, row, partial, state, rules, events):
            advance(partial, element, cursor, row, time, instance, state, rules, events)
        elif bounded != NONE:
            bound = tightened(bound, partial, bounded, state, rules)
        partial = following
    if bounded != NONE:
        bounds[place] = bound


@state_kernel
def run_pattern(  # type: ignore[no-untyped-def]
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
    """Process the events of a batch in a pattern from position `counters[CURSOR]` on.

    The arguments are those of `ChainState`, `ChainRules` and `ChainEvents`. Returns False before an event for which the
    room in `partials` or `matches` may be insufficient; the caller makes room and calls again.
    """
    state = ChainState(partials, floats, lists, list_bounds, table, chain_bounds, counters, touched, matches)
    rules = ChainRules(settings, elements, tests, constants, comparisons, copies, offers, texts)
    events = ChainEvents(order, whole, fractions)
    if counters[CURSOR] == 0:
        begin_batch(counters, settings, texts, whole)
    if counters[EMPTY_TABLE] == 1:
        counters[EMPTY_TABLE] = 0
        fill_table(state, rules)
    for cursor in range(counters[CURSOR], counters[ROWS]):
        counters[CURSOR] = cursor
        row = order[cursor] if order.shape[0] > 0 else cursor
        source, time, instance = whole[EVENT_SOURCE, row], whole[EVENT_TIME, row], whole[EVENT_INSTANCE, row]
        bring_near(cursor, state, rules, events)
        if not has_room(instance, partials, lists, counters, settings, matches):
            return False
        _begin_event(source, time, instance, state, rules)
        for position in range(offers.shape[1]):
            element = offers[source, position]
            if element == NONE:
                break
            if element > 0 and lists[instance * settings[ELEMENTS] + element, HEAD] == NONE:
                continue
            if not passes(element, row, rules, events):
                continue
            if element == 0:
                start_attempts(cursor, row, time, instance, state, rules, events)
            else:
                _offer(element, cursor, row, time, instance, state, rules, events)
    counters[CURSOR] = counters[ROWS]
    return True
