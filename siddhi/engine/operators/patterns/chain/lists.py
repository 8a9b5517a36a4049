"""Parts of the compiled loops of chains: the lists in which partial matches wait, and loops over all of them.

lists[instance, element]        head ⇄ p3 ⇄ p7 ⇄ p4 ⇄ tail
table[element, hash(key)]              first ⇄ p3 ⇄ p4 ⇄ last        (p7 has another key)

Where an element has no equality condition all have one key, and the list does without chains.
"""

from __future__ import annotations

import numpy as np

from siddhi.engine.columnar.hashing import mix
from siddhi.engine.jit.kernels import kernel_part, seldom_part, state_kernel
from siddhi.engine.operators.patterns.chain.conditions import widen
from siddhi.engine.operators.patterns.chain.memory import (
    BOUNDED,
    CHAIN_NEXT,
    CHAIN_PREVIOUS,
    COPY_COLUMN,
    COPY_IS_FLOAT,
    COPY_REGISTER,
    EARLIEST,
    ELEMENT,
    ELEMENTS,
    END_COPY,
    ENTERED,
    EVENT_COLUMNS,
    EVENT_NULLS,
    FIRST,
    FIRST_COPY,
    FRACTION_NULLS,
    FREE,
    FRESH,
    FRESH_SEEDS,
    HEAD,
    INDEXED,
    INSTANCE,
    IS_SEQUENCE,
    KEY,
    LAST,
    LATEST,
    LIVE,
    LONG_AGO,
    NEVER,
    NEXT,
    NONE,
    NULLS,
    NUMBER,
    PLACE,
    PREVIOUS,
    REACHED,
    REFERENCES,
    REGISTER,
    REGISTERS,
    SEEDS,
    TAIL,
    TIME,
    TOUCHED,
    TOUCHES,
    UNUSED,
    UPDATED,
)


@kernel_part
def place_of(element, instance, key, table):  # type: ignore[no-untyped-def]
    """Return the position in `table` of the chain for `key`."""
    return mix(mix(np.int64(element), np.int64(instance)), np.int64(key)) & table.shape[1] - 1


@kernel_part
def _hook_in(partial, before, after, back, forth, partials, ends):  # type: ignore[no-untyped-def]
    """Insert `partial` between two neighbours (`NONE`: at an end) of a doubly linked list.

    Its ends are the first two of `ends`; its members have their neighbours in the columns `back` and `forth`.
    """
    partials[partial, back] = before
    partials[partial, forth] = after
    if before == NONE:
        ends[FIRST] = partial
    else:
        partials[before, forth] = partial
    if after == NONE:
        ends[LAST] = partial
    else:
        partials[after, back] = partial


@kernel_part
def _hook_out(partial, back, forth, partials, ends):  # type: ignore[no-untyped-def]
    """Remove `partial` from such a list."""
    before, after = (partials[partial, back], partials[partial, forth])
    if before == NONE:
        ends[FIRST] = after
    else:
        partials[before, forth] = after
    if after == NONE:
        ends[LAST] = before
    else:
        partials[after, back] = before


@kernel_part
def _comes_after(waiting, newcomer, updated, partials):  # type: ignore[no-untyped-def]
    """Return whether `waiting` must stay after `newcomer`.

    It arrived since the list was last read, and is later in time, or belongs to another instance.
    """
    if partials[waiting, INSTANCE] != partials[newcomer, INSTANCE]:
        return True
    return partials[waiting, ENTERED] >= updated and partials[waiting, TIME] > partials[newcomer, TIME]


@seldom_part
def _chain_in(partial, entry, alone, updated, state, rules):  # type: ignore[no-untyped-def]
    """Insert `partial`, which waits in the list `entry`, into the chain where events find it.

    `alone` means that it is the only one there, as far as is known. Nothing happens when its key is null, since nothing
    equals null.
    """
    element = state.partials[partial, ELEMENT]
    indexed, bounded = rules.elements[element, INDEXED], rules.elements[element, BOUNDED]
    state.partials[partial, PLACE] = NONE
    if indexed == NONE:
        state.partials[partial, KEY] = 0
        if bounded != NONE:
            widen(partial, rules.comparisons[bounded], state.list_bounds, entry, alone, state, rules)
        return
    register = rules.comparisons[indexed, REGISTER]
    if state.partials[partial, NULLS] >> register & 1:
        return
    key = state.partials[partial, rules.settings[REGISTERS] + register]
    state.partials[partial, KEY] = key
    place = place_of(element, state.partials[partial, INSTANCE], key, state.table)
    state.partials[partial, PLACE] = place
    before = state.table[element, place, LAST]
    after = np.int64(NONE)
    while before != NONE and _comes_after(before, partial, updated, state.partials):
        after = before
        before = state.partials[before, CHAIN_PREVIOUS]
    _hook_in(partial, before, after, CHAIN_PREVIOUS, CHAIN_NEXT, state.partials, state.table[element, place])
    if bounded != NONE:
        place += element * state.table.shape[1]
        first = before == NONE and after == NONE
        widen(partial, rules.comparisons[bounded], state.chain_bounds, place, first, state, rules)


@kernel_part
def link(partial, state, rules):  # type: ignore[no-untyped-def]
    """Add `partial`, whose element and instance are set, to that element's list.

    It is inserted after all partials except later ones that arrived as recently.
    """
    entry = state.partials[partial, INSTANCE] * rules.settings[ELEMENTS] + state.partials[partial, ELEMENT]
    updated = state.lists[entry, UPDATED]
    before = state.lists[entry, TAIL]
    after = np.int64(NONE)
    while before != NONE and _comes_after(before, partial, updated, state.partials):
        after = before
        before = state.partials[before, PREVIOUS]
    _hook_in(partial, before, after, PREVIOUS, NEXT, state.partials, state.lists[entry])
    if rules.settings[IS_SEQUENCE] == 0:
        fresh, earliest = state.lists[entry, FRESH], state.partials[partial, REACHED]
        if fresh != NONE:
            earliest = min(earliest, state.partials[fresh, EARLIEST])
        if fresh == after:
            fresh = state.lists[entry, FRESH] = partial
        state.partials[fresh, EARLIEST] = earliest
        _chain_in(partial, entry, before == NONE and after == NONE, updated, state, rules)


@kernel_part
def unlink(partial, element, entry, state, rules):  # type: ignore[no-untyped-def]
    """Remove `partial`, which waits at `element`, from the list `entry`."""
    after = state.partials[partial, NEXT]
    _hook_out(partial, PREVIOUS, NEXT, state.partials, state.lists[entry])
    if rules.settings[IS_SEQUENCE] == 1:
        return
    if state.lists[entry, FRESH] == partial:
        state.lists[entry, FRESH] = after
        if after != NONE:
            state.partials[after, EARLIEST] = state.partials[partial, EARLIEST]
    place = state.partials[partial, PLACE]
    if place == NONE:
        return
    _hook_out(partial, CHAIN_PREVIOUS, CHAIN_NEXT, state.partials, state.table[element, place])


@kernel_part
def free(partial, partials, counters):  # type: ignore[no-untyped-def]
    """Free `partial`, which is in no list; its row may be reused."""
    partials[partial, ELEMENT] = NONE
    partials[partial, NEXT] = counters[FREE]
    counters[FREE] = partial
    counters[LIVE] -= 1


@kernel_part
def new(partials, counters):  # type: ignore[no-untyped-def]
    """Allocate a partial match that is in no list."""
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


@kernel_part
def fill(partial, element, row, state, rules, events):  # type: ignore[no-untyped-def]
    """Set the event in `row` as slot `element` of `partial`."""
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
            state.partials[partial, base + register] = events.whole[EVENT_COLUMNS + column, row]
            null = events.whole[EVENT_NULLS, row] >> column & 1
            bit = register
        else:
            state.floats[partial, register] = events.fractions[column, row]
            null = events.whole[EVENT_NULLS, row] >> column + events.whole.shape[0] - EVENT_COLUMNS & 1
            bit = register + rules.settings[FRACTION_NULLS]
        if null:
            state.partials[partial, NULLS] |= np.int64(1) << bit


@state_kernel
def settle(kept, partials, touched, counters):  # type: ignore[no-untyped-def]
    """Write every event of the finished batch that a live partial contains to `kept` (3: partial, slot, event; room).

    Return their number. From then on these partials mark the event of that slot as stored (`NONE`).
    """
    count = 0
    for place in range(counters[TOUCHES]):
        partial = touched[place]
        partials[partial, TOUCHED] = 0
        for slot in range(partials[partial, ELEMENT]):
            row = partials[partial, REFERENCES + slot]
            if row != NONE:
                kept[0, count] = partial
                kept[1, count] = slot
                kept[2, count] = row
                count += 1
                partials[partial, REFERENCES + slot] = NONE
    counters[TOUCHES] = 0
    return count


@seldom_part
def fill_table(state, rules):  # type: ignore[no-untyped-def]
    """Fill an empty `table` from the lists."""
    for entry in range(state.lists.shape[0]):
        partial = state.lists[entry, HEAD] if entry % rules.settings[ELEMENTS] else np.int64(NONE)
        alone = True
        while partial != NONE:
            _chain_in(partial, np.int64(entry), alone, np.int64(NEVER), state, rules)
            alone = False
            partial = state.partials[partial, NEXT]


@state_kernel
def live_partials(out, state, rules):  # type: ignore[no-untyped-def]
    """Write the live partials to `out`, list by list in order; return their number."""
    count = 0
    for entry in range(state.lists.shape[0]):
        partial = state.lists[entry, HEAD] if entry % rules.settings[ELEMENTS] else np.int64(NONE)
        while partial != NONE:
            out[count] = partial
            count += 1
            partial = state.partials[partial, NEXT]
    return count


@state_kernel
def relink(count, state, rules):  # type: ignore[no-untyped-def]
    """Add partials 0 … count - 1, in the order of their lists, to empty `lists`."""
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
            state.partials[partial, EARLIEST] = LONG_AGO


@state_kernel
def drop_partials(dropped, state, rules):  # type: ignore[no-untyped-def]
    """Free these live partials."""
    for place in range(dropped.shape[0]):
        partial = dropped[place]
        element = state.partials[partial, ELEMENT]
        entry = state.partials[partial, INSTANCE] * rules.settings[ELEMENTS] + element
        unlink(partial, element, entry, state, rules)
        free(partial, state.partials, state.counters)


@state_kernel
def open_instances(opened, elements, lists):  # type: ignore[no-untyped-def]
    """Initialize the instances `opened`: one empty partial waits at the first element."""
    for place in range(opened.shape[0]):
        own = opened[place] * elements
        lists[own : own + elements] = NONE
        lists[own, NUMBER] = lists[own, SEEDS] = 0
        lists[own, LATEST] = LONG_AGO
        lists[own, FRESH_SEEDS] = 1


@state_kernel
def close_instances(closed, state, rules):  # type: ignore[no-untyped-def]
    """Free every partial of the instances `closed`."""
    for place in range(closed.shape[0]):
        for element in range(1, rules.settings[ELEMENTS]):
            entry = closed[place] * rules.settings[ELEMENTS] + element
            while state.lists[entry, HEAD] != NONE:
                partial = state.lists[entry, HEAD]
                unlink(partial, element, entry, state, rules)
                free(partial, state.partials, state.counters)
