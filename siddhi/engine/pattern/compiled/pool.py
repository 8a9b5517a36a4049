"""Parts of the compiled state machine: partial matches, the events in their slots, and room for both."""

from __future__ import annotations

import numpy as np

from siddhi.engine.kernels import seldom_part
from siddhi.engine.pattern.compiled import memory as at


@seldom_part
def new_partial(m):  # type: ignore[no-untyped-def]
    """A partial match without events."""
    free = m.counters[at.FREE_PARTIALS] - 1
    m.counters[at.FREE_PARTIALS] = free
    partial = m.free_partials[free]
    m.partials[partial, :] = at.NONE
    m.partials[partial, at.EXPIRED] = 0
    return partial


@seldom_part
def copy_up_to(partial, place, m):  # type: ignore[no-untyped-def]
    """A new, live partial match with the slots before `place`; it shares their chains."""
    copy = new_partial(m)
    m.partials[copy, at.TIME] = m.partials[partial, at.TIME]
    for slot in range(place):
        m.partials[copy, at.SLOTS + slot] = m.partials[partial, at.SLOTS + slot]
    return copy


@seldom_part
def length_of(partial, place, m, rules):  # type: ignore[no-untyped-def]
    """How many events stand in the slot."""
    value = m.partials[partial, at.SLOTS + place]
    if value == at.NONE:
        return 0
    if rules.elements[place, at.KIND] != at.COUNTED:
        return 1
    return m.chains[value, at.LENGTH]


@seldom_part
def first_event(partial, place, m, rules):  # type: ignore[no-untyped-def]
    """The first event in the slot, `NONE` when it is empty."""
    value = m.partials[partial, at.SLOTS + place]
    if value == at.NONE or rules.elements[place, at.KIND] != at.COUNTED:
        return value
    return np.int64(m.chunks[m.chains[value, at.FIRST_CHUNK], at.CHUNK_EVENTS])


@seldom_part
def event_at(partial, place, position, m, rules):  # type: ignore[no-untyped-def]
    """The event at `position` in the slot, which holds more events."""
    value = m.partials[partial, at.SLOTS + place]
    if rules.elements[place, at.KIND] != at.COUNTED:
        return value
    hops = position // at.CHUNK_SIZE
    behind = (m.chains[value, at.LENGTH] - 1) // at.CHUNK_SIZE - hops
    if hops <= behind:
        chunk = m.chains[value, at.FIRST_CHUNK]
        for _ in range(hops):
            chunk = np.int64(m.chunks[chunk, at.CHUNK_NEXT])
    else:
        chunk = m.chains[value, at.LAST_CHUNK]
        for _ in range(behind):
            chunk = np.int64(m.chunks[chunk, at.CHUNK_PREVIOUS])
    return np.int64(m.chunks[chunk, at.CHUNK_EVENTS + position % at.CHUNK_SIZE])


@seldom_part
def pick(partial, place, way, offset, under_test, m, rules):  # type: ignore[no-untyped-def]
    """The event of the slot that a reference means, `NONE` when there is none."""
    length = length_of(partial, place, m, rules)
    position = offset
    if way == at.LAST_EVENT:
        position = length - 1
    elif way == at.FROM_LAST:
        position = length - 1 - offset - under_test
    if position < 0 or position >= length:
        return np.int64(at.NONE)
    return event_at(partial, place, position, m, rules)


@seldom_part
def _new_chunk(previous, m):  # type: ignore[no-untyped-def]
    free = m.counters[at.FREE_CHUNKS] - 1
    m.counters[at.FREE_CHUNKS] = free
    chunk = m.free_chunks[free]
    m.chunks[chunk, at.CHUNK_NEXT] = at.NONE
    m.chunks[chunk, at.CHUNK_PREVIOUS] = previous
    return chunk


@seldom_part
def append(partial, place, event, m):  # type: ignore[no-untyped-def]
    """`event` stands last in the counted slot."""
    chain = m.partials[partial, at.SLOTS + place]
    if chain == at.NONE:
        free = m.counters[at.FREE_CHAINS] - 1
        m.counters[at.FREE_CHAINS] = free
        chain = m.free_chains[free]
        chunk = _new_chunk(at.NONE, m)
        m.chains[chain, at.FIRST_CHUNK] = m.chains[chain, at.LAST_CHUNK] = chunk
        m.chains[chain, at.LENGTH] = 0
        m.partials[partial, at.SLOTS + place] = chain
    length = m.chains[chain, at.LENGTH]
    chunk = m.chains[chain, at.LAST_CHUNK]
    if length and length % at.CHUNK_SIZE == 0:
        following = _new_chunk(chunk, m)
        m.chunks[chunk, at.CHUNK_NEXT] = following
        m.chains[chain, at.LAST_CHUNK] = chunk = following
    m.chunks[chunk, at.CHUNK_EVENTS + length % at.CHUNK_SIZE] = event
    m.chains[chain, at.LENGTH] = length + 1


@seldom_part
def drop_last(partial, place, m):  # type: ignore[no-untyped-def]
    """The last event of the counted slot is gone; a slot that had one event is empty."""
    chain = m.partials[partial, at.SLOTS + place]
    if chain == at.NONE:
        return
    length = m.chains[chain, at.LENGTH]
    if length == 1:
        m.partials[partial, at.SLOTS + place] = at.NONE
        return
    m.chains[chain, at.LENGTH] = length - 1
    if (length - 1) % at.CHUNK_SIZE == 0:
        m.chains[chain, at.LAST_CHUNK] = np.int64(m.chunks[m.chains[chain, at.LAST_CHUNK], at.CHUNK_PREVIOUS])


@seldom_part
def kept_event(row, latest, m, rows):  # type: ignore[no-untyped-def]
    """The number of the event in `row` among the kept ones; it is kept when it is first asked for."""
    event = m.counters[at.ROW_KEPT]
    if event != at.NONE:
        return event
    free = m.counters[at.FREE_KEPT] - 1
    m.counters[at.FREE_KEPT] = free
    event = m.free_kept[free]
    m.counters[at.ROW_KEPT] = event
    time = rows.times[row]
    m.kept[event, at.KEPT_TIME] = time
    m.kept[event, at.KEPT_LATE] = latest - time
    m.kept[event, at.KEPT_NULLS] = rows.nulls[row]
    for column in range(rows.whole.shape[1]):
        m.kept[event, at.KEPT_COLUMNS + column] = rows.whole[row, column]
    for column in range(rows.fractions.shape[1]):
        m.kept_fractions[event, column] = rows.fractions[row, column]
    return event
