"""Parts of the compiled state machine: partial matches, and the events in their slots."""

from __future__ import annotations

import numpy as np

from siddhi.engine.jit.kernels import seldom_part
from siddhi.engine.operators.patterns.compiled.kernels import memory as at
from siddhi.engine.operators.patterns.compiled.kernels.views import (
    chains,
    chunks,
    elements,
    fractions,
    free_chains,
    free_chunks,
    free_kept,
    free_partials,
    kept,
    kept_fractions,
    nulls,
    partials,
    times,
    whole,
)


@seldom_part
def new_partial(m):  # type: ignore[no-untyped-def]
    """Return a partial match without events."""
    free = m[at.FREE_PARTIALS] - 1
    m[at.FREE_PARTIALS] = free
    partial = free_partials(m)[free]
    partials(m)[partial, :] = at.NONE
    partials(m)[partial, at.EXPIRED] = 0
    return partial


@seldom_part
def copy_up_to(partial, place, m):  # type: ignore[no-untyped-def]
    """Return a new, live partial match with the slots before `place`; it shares their chains."""
    copy = new_partial(m)
    partials(m)[copy, at.TIME] = partials(m)[partial, at.TIME]
    for slot in range(place):
        partials(m)[copy, at.SLOTS + slot] = partials(m)[partial, at.SLOTS + slot]
    return copy


@seldom_part
def length_of(partial, place, m):  # type: ignore[no-untyped-def]
    """Return the number of events in the slot."""
    value = partials(m)[partial, at.SLOTS + place]
    if value == at.NONE:
        return 0
    if elements(m)[place, at.KIND] != at.COUNTED:
        return 1
    return chains(m)[value, at.LENGTH]


@seldom_part
def first_event(partial, place, m):  # type: ignore[no-untyped-def]
    """Return the first event in the slot, `NONE` when it is empty."""
    value = partials(m)[partial, at.SLOTS + place]
    if value == at.NONE or elements(m)[place, at.KIND] != at.COUNTED:
        return value
    return np.int64(chunks(m)[chains(m)[value, at.FIRST_CHUNK], at.CHUNK_EVENTS])


@seldom_part
def event_at(partial, place, position, m):  # type: ignore[no-untyped-def]
    """Return the event at `position` in the slot, which has more events."""
    value = partials(m)[partial, at.SLOTS + place]
    if elements(m)[place, at.KIND] != at.COUNTED:
        return value
    hops = position // at.CHUNK_SIZE
    behind = (chains(m)[value, at.LENGTH] - 1) // at.CHUNK_SIZE - hops
    if hops <= behind:
        chunk = chains(m)[value, at.FIRST_CHUNK]
        for _ in range(hops):
            chunk = np.int64(chunks(m)[chunk, at.CHUNK_NEXT])
    else:
        chunk = chains(m)[value, at.LAST_CHUNK]
        for _ in range(behind):
            chunk = np.int64(chunks(m)[chunk, at.CHUNK_PREVIOUS])
    return np.int64(chunks(m)[chunk, at.CHUNK_EVENTS + position % at.CHUNK_SIZE])


@seldom_part
def pick(partial, place, way, offset, under_test, m):  # type: ignore[no-untyped-def]
    """Return the event of the slot that a reference selects, `NONE` when there is none."""
    length = length_of(partial, place, m)
    position = offset
    if way == at.LAST_EVENT:
        position = length - 1
    elif way == at.FROM_LAST:
        position = length - 1 - offset - under_test
    if position < 0 or position >= length:
        return np.int64(at.NONE)
    return event_at(partial, place, position, m)


@seldom_part
def _new_chunk(previous, m):  # type: ignore[no-untyped-def]
    free = m[at.FREE_CHUNKS] - 1
    m[at.FREE_CHUNKS] = free
    chunk = free_chunks(m)[free]
    chunks(m)[chunk, at.CHUNK_NEXT] = at.NONE
    chunks(m)[chunk, at.CHUNK_PREVIOUS] = previous
    return chunk


@seldom_part
def append(partial, place, event, m):  # type: ignore[no-untyped-def]
    """Append `event` to the counted slot."""
    chain = partials(m)[partial, at.SLOTS + place]
    if chain == at.NONE:
        free = m[at.FREE_CHAINS] - 1
        m[at.FREE_CHAINS] = free
        chain = free_chains(m)[free]
        chunk = _new_chunk(at.NONE, m)
        chains(m)[chain, at.FIRST_CHUNK] = chains(m)[chain, at.LAST_CHUNK] = chunk
        chains(m)[chain, at.LENGTH] = 0
        partials(m)[partial, at.SLOTS + place] = chain
    length = chains(m)[chain, at.LENGTH]
    chunk = chains(m)[chain, at.LAST_CHUNK]
    if length and length % at.CHUNK_SIZE == 0:
        following = _new_chunk(chunk, m)
        chunks(m)[chunk, at.CHUNK_NEXT] = following
        chains(m)[chain, at.LAST_CHUNK] = chunk = following
    chunks(m)[chunk, at.CHUNK_EVENTS + length % at.CHUNK_SIZE] = event
    chains(m)[chain, at.LENGTH] = length + 1


@seldom_part
def drop_last(partial, place, m):  # type: ignore[no-untyped-def]
    """Remove the last event of the counted slot; a slot that had one event becomes empty."""
    chain = partials(m)[partial, at.SLOTS + place]
    if chain == at.NONE:
        return
    length = chains(m)[chain, at.LENGTH]
    if length == 1:
        partials(m)[partial, at.SLOTS + place] = at.NONE
        return
    chains(m)[chain, at.LENGTH] = length - 1
    if (length - 1) % at.CHUNK_SIZE == 0:
        chains(m)[chain, at.LAST_CHUNK] = np.int64(chunks(m)[chains(m)[chain, at.LAST_CHUNK], at.CHUNK_PREVIOUS])


@seldom_part
def kept_event(row, latest, m):  # type: ignore[no-untyped-def]
    """Return the number of the stored copy of the event in `row`, which is created on first use."""
    event = m[at.ROW_KEPT]
    if event != at.NONE:
        return event
    free = m[at.FREE_KEPT] - 1
    m[at.FREE_KEPT] = free
    event = free_kept(m)[free]
    m[at.ROW_KEPT] = event
    time = times(m)[row]
    kept(m)[event, at.KEPT_TIME] = time
    kept(m)[event, at.KEPT_LATE] = latest - time
    kept(m)[event, at.KEPT_NULLS] = nulls(m)[row]
    for column in range(m[at.WHOLE_COUNT]):
        kept(m)[event, at.KEPT_COLUMNS + column] = whole(m)[row, column]
    for column in range(m[at.FRACTION_COUNT]):
        kept_fractions(m)[event, column] = fractions(m)[row, column]
    return event
