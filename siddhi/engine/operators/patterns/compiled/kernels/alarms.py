"""Parts of the compiled state machine: alarms of absent events, in one heap for all elements of all instances."""

from __future__ import annotations

from siddhi.engine.jit.kernels import seldom_part
from siddhi.engine.operators.patterns.compiled.kernels import memory as at
from siddhi.engine.operators.patterns.compiled.kernels.views import alarms, elements


@seldom_part
def _before(heap, one, other):  # type: ignore[no-untyped-def]
    for column in range(at.ALARM_WIDTH):
        if heap[one, column] != heap[other, column]:
            return heap[one, column] < heap[other, column]
    return False


@seldom_part
def _swap(heap, one, other):  # type: ignore[no-untyped-def]
    for column in range(at.ALARM_WIDTH):
        heap[one, column], heap[other, column] = heap[other, column], heap[one, column]


@seldom_part
def push(heap, count, due, rank, instance, place_among_timed, number):  # type: ignore[no-untyped-def]
    """Add an alarm to a heap of `count`."""
    place = count
    heap[place, at.DUE] = due
    heap[place, at.RANK] = rank
    heap[place, at.ALARM_INSTANCE] = instance
    heap[place, at.ALARM_TIMED] = place_among_timed
    heap[place, at.ALARM_NUMBER] = number
    while place and _before(heap, place, (place - 1) // 2):
        _swap(heap, place, (place - 1) // 2)
        place = (place - 1) // 2


@seldom_part
def drop_first(heap, count):  # type: ignore[no-untyped-def]
    """Remove the first alarm from a heap of `count`."""
    last = count - 1
    for column in range(at.ALARM_WIDTH):
        heap[0, column] = heap[last, column]
    place = 0
    while True:
        least = place
        for child in (2 * place + 1, 2 * place + 2):
            if child < last and _before(heap, child, least):
                least = child
        if least == place:
            return
        _swap(heap, place, least)
        place = least


@seldom_part
def set_alarm(due, base, element, m):  # type: ignore[no-untyped-def]
    """Set an alarm for the element of the instance at `due`."""
    count = m[at.ALARMS]
    instance = base // (m[at.ELEMENT_COUNT] + 1)
    push(
        alarms(m),
        count,
        due,
        0,
        instance,
        elements(m)[element, at.TIMED_PLACE],
        m[at.ALARM_COUNT],
    )
    m[at.ALARMS] = count + 1
    m[at.ALARM_COUNT] += 1
