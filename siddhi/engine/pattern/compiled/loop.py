"""The compiled loop of state machines of every form: alarms and events of a step, in order."""

from __future__ import annotations

import numpy as np

from siddhi.engine.kernels import seldom_part, state_kernel
from siddhi.engine.pattern.compiled import memory as at
from siddhi.engine.pattern.compiled.alarms import drop_first, push
from siddhi.engine.pattern.compiled.arrivals import expire, initialise, reset, update, wait_from, wake_at
from siddhi.engine.pattern.compiled.lists import clear_horizon
from siddhi.engine.pattern.compiled.offers import offer, settle_matches
from siddhi.engine.pattern.compiled.silences import wake


@seldom_part
def _has_room(instance, m, rules):  # type: ignore[no-untyped-def]
    """Whether there is room for all that one event or alarm may make of what waits in the instance."""
    elements = rules.elements.shape[0]
    waiting = m.lists[instance * (elements + 1) + elements, at.WAITING_COUNT]
    wanted = (waiting + 2 * elements + 2) * rules.settings[at.GROWTH]
    m.counters[at.WANTED] = wanted
    for kind in range(at.FREE_KEPT + 1):
        if m.counters[kind] < wanted:
            return False
    if m.alarms.shape[0] - m.counters[at.ALARMS] < wanted:
        return False
    return m.matches.shape[0] - m.counters[at.MATCHES] >= wanted


@seldom_part
def _open(instance, clock, m, rules):  # type: ignore[no-untyped-def]
    """A new instance waits for its first event; silences count from `clock`."""
    elements = rules.elements.shape[0]
    base = instance * (elements + 1)
    for element in range(elements):
        row = base + element
        m.lists[row, :] = 0
        m.lists[row, at.PENDING_HEAD] = m.lists[row, at.PENDING_TAIL] = at.NONE
        m.lists[row, at.FRESH_HEAD] = m.lists[row, at.FRESH_TAIL] = at.NONE
        m.lists[row, at.ACTIVE] = 1
        clear_horizon(row, m)
    m.lists[base + elements, :] = 0
    m.lists[base + elements, at.LATEST] = at.LONG_AGO
    m.lists[base + elements, at.OPEN] = 1
    for element in range(elements):
        initialise(base, element, m, rules)
    for timed in range(len(rules.timed)):
        element = rules.timed[timed]
        if rules.elements[element, at.STARTS]:
            if rules.elements[element, at.KIND] == at.ABSENT:
                wake_at(base, element, clock + rules.elements[element, at.WAITING], m, rules)
            else:
                wait_from(base, element, clock, m, rules)


@seldom_part
def _clocks_before(time, clocks):  # type: ignore[no-untyped-def]
    """How many of the step's clocks are before `time`."""
    low, high = 0, len(clocks)
    while low < high:
        middle = (low + high) // 2
        if clocks[middle] < time:
            low = middle + 1
        else:
            high = middle
    return low


@seldom_part
def _take_due(latest, m, rows):  # type: ignore[no-untyped-def]
    """Moves the alarms that are due at `latest` to those that are ordered by rank as well."""
    while m.counters[at.ALARMS] and m.alarms[0, at.DUE] <= latest:
        instance = m.alarms[0, at.ALARM_INSTANCE]
        rank = instance
        if len(rows.ranks):
            rank = rows.ranks[instance]
        elif m.counters[at.DUE_ALARMS] and m.due_alarms[0, at.ALARM_INSTANCE] != instance:
            return at.ASKS_FOR_RANKS
        if m.counters[at.DUE_ALARMS] == len(m.due_alarms):
            return at.SHORT_OF_ROOM
        push(
            m.due_alarms,
            m.counters[at.DUE_ALARMS],
            m.alarms[0, at.DUE],
            rank,
            instance,
            m.alarms[0, at.ALARM_TIMED],
            m.alarms[0, at.ALARM_NUMBER],
        )
        m.counters[at.DUE_ALARMS] += 1
        drop_first(m.alarms, m.counters[at.ALARMS])
        m.counters[at.ALARMS] -= 1
    return at.FINISHED


@seldom_part
def _stamp(number, order, clock, instance, chunk, m):  # type: ignore[no-untyped-def]
    m.matches[number, at.MATCH_ORDER] = order
    m.matches[number, at.MATCH_CLOCK] = clock
    m.matches[number, at.MATCH_INSTANCE] = instance
    m.matches[number, at.MATCH_CHUNK] = chunk


@seldom_part
def _next_chunk(m):  # type: ignore[no-untyped-def]
    count = m.counters[at.MATCHES]
    return m.matches[count - 1, at.MATCH_CHUNK] + 1 if count else 0


@seldom_part
def _fire(latest, order, clock, m, rules, rows):  # type: ignore[no-untyped-def]
    """Fires, earliest first, every alarm that comes before a row of (`order`, `clock`)."""
    elements = rules.elements.shape[0]
    floor = rows.bounds[0]
    while True:
        state = _take_due(latest, m, rows)
        if state != at.FINISHED:
            return state
        if not m.counters[at.DUE_ALARMS]:
            return at.FINISHED
        due = m.due_alarms[0, at.DUE]
        done = m.counters[at.DONE_ORDER]
        due_order = max(2 * _clocks_before(due, rows.step_clocks), done + (done & 1))
        if due_order > order or (due_order == order and due >= clock):
            return at.FINISHED
        instance = m.due_alarms[0, at.ALARM_INSTANCE]
        if not _has_room(instance, m, rules):
            return at.SHORT_OF_ROOM
        element = rules.timed[m.due_alarms[0, at.ALARM_TIMED]]
        drop_first(m.due_alarms, m.counters[at.DUE_ALARMS])
        m.counters[at.DUE_ALARMS] -= 1
        first = m.counters[at.MATCHES]
        reached = rows.step_clocks[(due_order - 1) // 2] if due_order else floor
        now = max(due, m.counters[at.SHOWN_CLOCK], reached)
        chunk = _next_chunk(m)
        if first:
            now = max(now, m.matches[first - 1, at.MATCH_CLOCK])
        m.counters[at.SHOWN_CLOCK] = now
        m.counters[at.DONE_ORDER] = due_order
        wake(instance * (elements + 1), element, due, now, m, rules)
        settle_matches(first, m, rules)
        for number in range(first, m.counters[at.MATCHES]):
            _stamp(number, due_order, now, instance, chunk + number - first, m)


@seldom_part
def _take_row(row, source, order, clock, m, rules, rows):  # type: ignore[no-untyped-def]
    """Takes one event through its instance."""
    elements = rules.elements.shape[0]
    instance = rows.instances[row]
    base = instance * (elements + 1)
    m.counters[at.DONE_ORDER] = order
    m.counters[at.ROW_KEPT] = at.NONE
    latest = max(m.lists[base + elements, at.LATEST], rows.times[row])
    m.lists[base + elements, at.LATEST] = latest
    for element in range(elements):
        expire(base, element, latest, m, rules)
    fed = 0
    while fed < elements and rules.offers[source, fed] != at.NONE:
        fed += 1
    if rules.settings[at.IS_SEQUENCE]:
        for unit in range(len(rules.resettable) - 1, -1, -1):
            reset(base, rules.resettable[unit], m, rules)
        for unit in range(len(rules.resettable)):
            update(base, rules.resettable[unit], m, rules)
    else:
        for place in range(fed - 1, -1, -1):
            update(base, rules.offers[source, place], m, rules)
    first = m.counters[at.MATCHES]
    for place in range(fed):
        start = m.counters[at.MATCHES]
        chunk = _next_chunk(m)
        offer(base, rules.offers[source, place], row, latest, m, rules, rows)
        if not rules.hands_out[source]:
            m.counters[at.MATCHES] = start
        for number in range(start, m.counters[at.MATCHES]):
            _stamp(number, order, clock, instance, chunk if fed > 1 else chunk + number - start, m)
    for number in range(first, m.counters[at.MATCHES]):
        m.matches[number, at.MATCH_TIME] = m.partials[m.matches[number, at.MATCH_PARTIAL], at.TIME]


@seldom_part
def _open_until(order, latest, m, rules, rows):  # type: ignore[no-untyped-def]
    """Opens the instances that came into being before a row of `order`, each behind the alarms that come before it."""
    while m.counters[at.OPENED] < rows.opened.shape[1]:
        number = m.counters[at.OPENED]
        own_order = rows.opened[1, number]
        if own_order > order:
            break
        if rules.settings[at.HAS_TIMERS] and own_order < order:
            state = _fire(latest, own_order, np.int64(at.LONG_AGO), m, rules, rows)
            if state != at.FINISHED:
                return state
            m.counters[at.DONE_ORDER] = max(m.counters[at.DONE_ORDER], own_order)
        instance = rows.opened[0, number]
        if not _has_room(instance, m, rules):
            return at.SHORT_OF_ROOM
        _open(instance, rows.opened[2, number], m, rules)
        m.counters[at.OPENED] += 1
    return at.FINISHED


@seldom_part
def _come_to(order, clock, m, rules, rows):  # type: ignore[no-untyped-def]
    """All that comes before a row of (`order`, `clock`) is done."""
    latest = clock
    if not rules.settings[at.HAS_TIMERS]:
        return _open_until(order, latest, m, rules, rows)
    latest = max(clock, rows.step_clocks[min(order // 2, len(rows.step_clocks) - 1)])
    state = _open_until(order - 1, latest, m, rules, rows)
    if state == at.FINISHED:
        state = _fire(latest, order, clock, m, rules, rows)
    if state == at.FINISHED:
        state = _open_until(order, latest, m, rules, rows)
    return state


@state_kernel
def run_machine(  # type: ignore[no-untyped-def]
    lists,
    entries,
    partials,
    chains,
    chunks,
    kept,
    kept_fractions,
    free_entries,
    free_partials,
    free_chains,
    free_chunks,
    free_kept,
    alarms,
    due_alarms,
    matches,
    counters,
    registers,
    fraction_registers,
    null_registers,
    settings,
    elements,
    offers,
    hands_out,
    limits,
    resettable,
    timed,
    instructions,
    constants,
    fraction_constants,
    references,
    times,
    instances,
    skipped,
    nulls,
    whole,
    fractions,
    passing,
    order,
    sources,
    orders,
    clocks,
    step_clocks,
    bounds,
    opened,
    ranks,
):
    """Takes the rows from the cursor on and the alarms of the step; says whether it has finished, or why not."""
    m = at.Memory(
        lists, entries, partials, chains, chunks, kept, kept_fractions,
        free_entries, free_partials, free_chains, free_chunks, free_kept,
        alarms, due_alarms, matches, counters, registers, fraction_registers, null_registers,
    )  # fmt: skip
    rules = at.Rules(
        settings, elements, offers, hands_out, limits, resettable, timed, instructions, constants, fraction_constants,
        references,
    )  # fmt: skip
    rows = at.Rows(
        times, instances, skipped, nulls, whole, fractions, passing, order, sources, orders, clocks, step_clocks,
        bounds, opened, ranks,
    )  # fmt: skip
    while counters[at.CURSOR] < len(order):
        place = counters[at.CURSOR]
        row, source = order[place], sources[place]
        state = _come_to(orders[place], clocks[place], m, rules, rows)
        if state != at.FINISHED:
            return state
        if not skipped[row]:
            if not _has_room(instances[row], m, rules):
                return np.int64(at.SHORT_OF_ROOM)
            _take_row(row, source, orders[place], clocks[place], m, rules, rows)
        counters[at.CURSOR] += 1
        counters[at.SHOWN_CLOCK] = bounds[0]
    return _come_to(bounds[1], bounds[2] + 1, m, rules, rows)


@state_kernel
def open_instance(memory, rules, instance, clock):  # type: ignore[no-untyped-def]
    """Opens one instance, for which there is room."""
    _open(np.int64(instance), np.int64(clock), memory, rules)


@state_kernel
def return_due(alarms, due_alarms, counters):  # type: ignore[no-untyped-def]
    """Alarms that were due but wait for a later step go back among the others."""
    for place in range(counters[at.DUE_ALARMS]):
        push(
            alarms,
            counters[at.ALARMS],
            due_alarms[place, at.DUE],
            0,
            due_alarms[place, at.ALARM_INSTANCE],
            due_alarms[place, at.ALARM_TIMED],
            due_alarms[place, at.ALARM_NUMBER],
        )
        counters[at.ALARMS] += 1
    counters[at.DUE_ALARMS] = 0


@state_kernel
def order_alarms(alarms, count):  # type: ignore[no-untyped-def]
    """The first `count` alarms become a heap."""
    for place in range(count):
        push(
            alarms,
            place,
            alarms[place, at.DUE],
            0,
            alarms[place, at.ALARM_INSTANCE],
            alarms[place, at.ALARM_TIMED],
            alarms[place, at.ALARM_NUMBER],
        )
