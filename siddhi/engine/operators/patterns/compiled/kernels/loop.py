"""The compiled loop of state machines of every form: alarms and events of a step, in order."""

from __future__ import annotations

import numpy as np

from siddhi.engine.jit.kernels import seldom_part, state_kernel
from siddhi.engine.operators.patterns.compiled.kernels import memory as at
from siddhi.engine.operators.patterns.compiled.kernels.alarms import drop_first, push
from siddhi.engine.operators.patterns.compiled.kernels.arrivals import (
    expire,
    initialise,
    reset,
    update,
    wait_from,
    wake_at,
)
from siddhi.engine.operators.patterns.compiled.kernels.lists import clear_horizon
from siddhi.engine.operators.patterns.compiled.kernels.offers import offer, settle_matches
from siddhi.engine.operators.patterns.compiled.kernels.silences import wake
from siddhi.engine.operators.patterns.compiled.kernels.views import (
    alarms,
    bounds,
    clocks,
    due_alarms,
    elements,
    free_kept,
    hands_out,
    instances,
    lists,
    matches,
    offers,
    opened,
    orders,
    partials,
    ranks,
    resettable,
    row_order,
    settings,
    skipped,
    sources,
    step_clocks,
    timed,
    times,
)


@seldom_part
def _has_room(instance, m):  # type: ignore[no-untyped-def]
    """Return whether there is room for all objects that one event or alarm may create in the instance."""
    count = m[at.ELEMENT_COUNT]
    waiting = lists(m)[instance * (count + 1) + count, at.WAITING_COUNT]
    wanted = (waiting + 2 * count + 2) * settings(m)[at.GROWTH]
    m[at.WANTED] = wanted
    for kind in range(at.FREE_KEPT + 1):
        if m[kind] < wanted:
            return False
    if m[at.ALARM_ROOM] - m[at.ALARMS] < wanted:
        return False
    return m[at.MATCH_ROOM] - m[at.MATCHES] >= wanted


@seldom_part
def _open(instance, clock, m):  # type: ignore[no-untyped-def]
    """Start a new instance, which waits for its first event; waiting times start at `clock`."""
    m[at.NOW] = clock
    count = m[at.ELEMENT_COUNT]
    base = instance * (count + 1)
    for element in range(count):
        row = base + element
        lists(m)[row, :] = 0
        lists(m)[row, at.PENDING_HEAD] = lists(m)[row, at.PENDING_TAIL] = at.NONE
        lists(m)[row, at.FRESH_HEAD] = lists(m)[row, at.FRESH_TAIL] = at.NONE
        lists(m)[row, at.ACTIVE] = 1
        clear_horizon(row, m)
    lists(m)[base + count, :] = 0
    lists(m)[base + count, at.LATEST] = at.LONG_AGO
    lists(m)[base + count, at.OPEN] = 1
    for element in range(count):
        initialise(base, element, m)
    for number in range(m[at.TIMED_COUNT]):
        element = timed(m)[number]
        if elements(m)[element, at.STARTS]:
            if elements(m)[element, at.KIND] == at.ABSENT:
                wake_at(base, element, clock + elements(m)[element, at.WAITING], m)
            else:
                wait_from(base, element, clock, m)


@seldom_part
def _clocks_before(time, m):  # type: ignore[no-untyped-def]
    """Return how many of the step's clocks are before `time`."""
    known = step_clocks(m)
    low, high = 0, m[at.STEP_COUNT]
    while low < high:
        middle = (low + high) // 2
        if known[middle] < time:
            low = middle + 1
        else:
            high = middle
    return low


@seldom_part
def _take_due(latest, m):  # type: ignore[no-untyped-def]
    """Move the alarms due at `latest` to the heap that is also ordered by rank."""
    while m[at.ALARMS] and alarms(m)[0, at.DUE] <= latest:
        instance = alarms(m)[0, at.ALARM_INSTANCE]
        rank = instance
        if m[at.RANK_COUNT]:
            rank = ranks(m)[instance]
        elif m[at.DUE_ALARMS] and due_alarms(m)[0, at.ALARM_INSTANCE] != instance:
            return at.ASKS_FOR_RANKS
        if m[at.DUE_ALARMS] == m[at.DUE_ROOM]:
            return at.SHORT_OF_ROOM
        push(
            due_alarms(m),
            m[at.DUE_ALARMS],
            alarms(m)[0, at.DUE],
            rank,
            instance,
            alarms(m)[0, at.ALARM_TIMED],
            alarms(m)[0, at.ALARM_NUMBER],
        )
        m[at.DUE_ALARMS] += 1
        drop_first(alarms(m), m[at.ALARMS])
        m[at.ALARMS] -= 1
    return at.FINISHED


@seldom_part
def _stamp(number, order, clock, instance, chunk, m):  # type: ignore[no-untyped-def]
    matches(m)[number, at.MATCH_ORDER] = order
    matches(m)[number, at.MATCH_CLOCK] = clock
    matches(m)[number, at.MATCH_INSTANCE] = instance
    matches(m)[number, at.MATCH_CHUNK] = chunk


@seldom_part
def _next_chunk(m):  # type: ignore[no-untyped-def]
    count = m[at.MATCHES]
    return matches(m)[count - 1, at.MATCH_CHUNK] + 1 if count else 0


@seldom_part
def _fire(latest, order, clock, m):  # type: ignore[no-untyped-def]
    """Fire every alarm that precedes a row of (`order`, `clock`), earliest first."""
    count = m[at.ELEMENT_COUNT]
    floor = bounds(m)[0]
    while True:
        state = _take_due(latest, m)
        if state != at.FINISHED:
            return state
        if not m[at.DUE_ALARMS]:
            return at.FINISHED
        due = due_alarms(m)[0, at.DUE]
        done = m[at.DONE_ORDER]
        due_order = max(2 * _clocks_before(due, m), done + (done & 1))
        if due_order > order or (due_order == order and due >= clock):
            return at.FINISHED
        instance = due_alarms(m)[0, at.ALARM_INSTANCE]
        if not _has_room(instance, m):
            return at.SHORT_OF_ROOM
        element = timed(m)[due_alarms(m)[0, at.ALARM_TIMED]]
        drop_first(due_alarms(m), m[at.DUE_ALARMS])
        m[at.DUE_ALARMS] -= 1
        first = m[at.MATCHES]
        reached = step_clocks(m)[(due_order - 1) // 2] if due_order else floor
        now = max(due, m[at.SHOWN_CLOCK], reached)
        chunk = _next_chunk(m)
        if first:
            now = max(now, matches(m)[first - 1, at.MATCH_CLOCK])
        m[at.SHOWN_CLOCK] = m[at.NOW] = now
        m[at.DONE_ORDER] = due_order
        wake(instance * (count + 1), element, due, now, m)
        settle_matches(first, m)
        for number in range(first, m[at.MATCHES]):
            _stamp(number, due_order, now, instance, chunk + number - first, m)


@seldom_part
def _take_row(row, source, order, clock, m):  # type: ignore[no-untyped-def]
    """Process one event in its instance."""
    count = m[at.ELEMENT_COUNT]
    instance = instances(m)[row]
    base = instance * (count + 1)
    m[at.DONE_ORDER] = order
    m[at.NOW] = clock
    m[at.ROW_KEPT] = at.NONE
    m[at.ROW_TAKEN] = 0
    latest = max(lists(m)[base + count, at.LATEST], times(m)[row])
    lists(m)[base + count, at.LATEST] = latest
    for element in range(count):
        expire(base, element, latest, m)
    fed = 0
    while fed < count and offers(m)[source, fed] != at.NONE:
        fed += 1
    if settings(m)[at.IS_SEQUENCE]:
        for unit in range(m[at.RESETTABLE_COUNT] - 1, -1, -1):
            reset(base, resettable(m)[unit], m)
        for unit in range(m[at.RESETTABLE_COUNT]):
            update(base, resettable(m)[unit], m)
    else:
        for place in range(fed - 1, -1, -1):
            update(base, offers(m)[source, place], m)
    first = m[at.MATCHES]
    for place in range(fed):
        start = m[at.MATCHES]
        chunk = _next_chunk(m)
        offer(base, offers(m)[source, place], row, latest, m)
        if not hands_out(m)[source]:
            m[at.MATCHES] = start
        for number in range(start, m[at.MATCHES]):
            _stamp(number, order, clock, instance, chunk if fed > 1 else chunk + number - start, m)
    for number in range(first, m[at.MATCHES]):
        matches(m)[number, at.MATCH_TIME] = partials(m)[matches(m)[number, at.MATCH_PARTIAL], at.TIME]
    if m[at.ROW_KEPT] != at.NONE and not m[at.ROW_TAKEN]:  # it was tested, and no partial match contains it
        free_kept(m)[m[at.FREE_KEPT]] = m[at.ROW_KEPT]
        m[at.FREE_KEPT] += 1


@seldom_part
def _open_until(order, latest, m):  # type: ignore[no-untyped-def]
    """Open the instances that were created before a row of `order`, each after the alarms that precede it."""
    while m[at.OPENED] < m[at.OPENED_COUNT]:
        number = m[at.OPENED]
        own_order = opened(m)[1, number]
        if own_order > order:
            break
        if settings(m)[at.HAS_TIMERS] and own_order < order:
            state = _fire(latest, own_order, np.int64(at.LONG_AGO), m)
            if state != at.FINISHED:
                return state
            m[at.DONE_ORDER] = max(m[at.DONE_ORDER], own_order)
        instance = opened(m)[0, number]
        if not _has_room(instance, m):
            return at.SHORT_OF_ROOM
        _open(instance, opened(m)[2, number], m)
        m[at.OPENED] += 1
    return at.FINISHED


@seldom_part
def _come_to(order, clock, m):  # type: ignore[no-untyped-def]
    """Process everything that precedes a row of (`order`, `clock`)."""
    latest = clock
    if not settings(m)[at.HAS_TIMERS]:
        return _open_until(order, latest, m)
    latest = max(clock, step_clocks(m)[min(order // 2, m[at.STEP_COUNT] - 1)])
    state = _open_until(order - 1, latest, m)
    if state == at.FINISHED:
        state = _fire(latest, order, clock, m)
    if state == at.FINISHED:
        state = _open_until(order, latest, m)
    return state


@state_kernel
def run_machine(m):  # type: ignore[no-untyped-def]
    """Process the rows from the cursor on and the alarms of the step; return whether it has finished, or why not."""
    ends = bounds(m)
    while m[at.CURSOR] < m[at.ROW_COUNT]:
        place = m[at.CURSOR]
        row, source = row_order(m)[place], sources(m)[place]
        row_clock = clocks(m)[place]
        state = _come_to(orders(m)[place], row_clock, m)
        if state != at.FINISHED:
            return state
        if not skipped(m)[row]:
            if not _has_room(instances(m)[row], m):
                return np.int64(at.SHORT_OF_ROOM)
            _take_row(row, source, orders(m)[place], row_clock, m)
        m[at.CURSOR] += 1
        m[at.SHOWN_CLOCK] = ends[0]
    return _come_to(ends[1], ends[2] + 1, m)


@state_kernel
def open_instance(m, instance, clock):  # type: ignore[no-untyped-def]
    """Open one instance, for which there is room."""
    _open(instance, clock, m)


@state_kernel
def return_due(m):  # type: ignore[no-untyped-def]
    """Return alarms that were due but wait for a later step to the other alarms."""
    heap, due_heap = alarms(m), due_alarms(m)
    for place in range(m[at.DUE_ALARMS]):
        push(
            heap,
            m[at.ALARMS],
            due_heap[place, at.DUE],
            0,
            due_heap[place, at.ALARM_INSTANCE],
            due_heap[place, at.ALARM_TIMED],
            due_heap[place, at.ALARM_NUMBER],
        )
        m[at.ALARMS] += 1
    m[at.DUE_ALARMS] = 0


@state_kernel
def order_alarms(m):  # type: ignore[no-untyped-def]
    """Rebuild the heap of alarms from any order."""
    heap, count = alarms(m), m[at.ALARMS]
    for place in range(count):
        push(
            heap,
            place,
            heap[place, at.DUE],
            0,
            heap[place, at.ALARM_INSTANCE],
            heap[place, at.ALARM_TIMED],
            heap[place, at.ALARM_NUMBER],
        )
