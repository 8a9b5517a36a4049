"""Free objects that no list of the compiled state machine reaches, and enforce the limit of partial matches."""

from __future__ import annotations

import numpy as np

from siddhi.engine.jit.kernels import seldom_part, state_kernel
from siddhi.engine.operators.patterns.compiled.kernels import memory as at
from siddhi.engine.operators.patterns.compiled.kernels.lists import take_out
from siddhi.engine.operators.patterns.compiled.kernels.views import (
    chains,
    chunks,
    elements,
    entries,
    free_chains,
    free_chunks,
    free_kept,
    free_partials,
    lists,
    matches,
    partials,
)


@seldom_part
def _mark_list(head, marks, m):  # type: ignore[no-untyped-def]
    entry = head
    while entry != at.NONE:
        marks[entries(m)[entry, at.ENTRY_PARTIAL]] = 1
        entry = entries(m)[entry, at.ENTRY_NEXT]


@seldom_part
def _is_list(row, m):  # type: ignore[no-untyped-def]
    """Return whether `row` is the list of an element of an open instance."""
    stride = m[at.ELEMENT_COUNT] + 1
    own = row - row % stride + stride - 1
    return row != own and lists(m)[own, at.OPEN] != 0


@seldom_part
def _mark_matches(kept_marks, m):  # type: ignore[no-untyped-def]
    found = matches(m)
    for number in range(m[at.MATCHES]):
        for reference in range(m[at.REFERENCE_COUNT]):
            event = found[number, at.MATCH_EVENTS + reference]
            if event != at.NONE:
                kept_marks[event] = 1


@seldom_part
def _mark_chain(chain, chunk_marks, kept_marks, m):  # type: ignore[no-untyped-def]
    own_chains, own_chunks = chains(m), chunks(m)
    chunk = own_chains[chain, at.FIRST_CHUNK]
    left = own_chains[chain, at.LENGTH]
    while left > 0:
        chunk_marks[chunk] = 1
        for number in range(min(left, at.CHUNK_SIZE)):
            kept_marks[own_chunks[chunk, at.CHUNK_EVENTS + number]] = 1
        left -= at.CHUNK_SIZE
        chunk = np.int64(own_chunks[chunk, at.CHUNK_NEXT])


@seldom_part
def _sweep(marks, free):  # type: ignore[no-untyped-def]
    """Write the numbers without a mark into `free`, the lowest last, so that it is reused first.

    Return their number.
    """
    count = 0
    for number in range(len(marks) - 1, -1, -1):
        if not marks[number]:
            free[count] = number
            count += 1
    return count


@state_kernel
def collect(m, partial_marks, chain_marks, chunk_marks, kept_marks):  # type: ignore[no-untyped-def]
    """Free all unreachable objects; the marks must be clear."""
    for row in range(m[at.LIST_ROWS]):
        if _is_list(row, m):
            _mark_list(lists(m)[row, at.PENDING_HEAD], partial_marks, m)
            _mark_list(lists(m)[row, at.FRESH_HEAD], partial_marks, m)
    _mark_matches(kept_marks, m)
    for partial in range(len(partial_marks)):
        if not partial_marks[partial]:
            continue
        for place in range(m[at.ELEMENT_COUNT]):
            value = partials(m)[partial, at.SLOTS + place]
            if value == at.NONE:
                continue
            if elements(m)[place, at.KIND] != at.COUNTED:
                kept_marks[value] = 1
            elif not chain_marks[value]:
                chain_marks[value] = 1
                _mark_chain(value, chunk_marks, kept_marks, m)
    m[at.FREE_PARTIALS] = _sweep(partial_marks, free_partials(m))
    m[at.FREE_CHAINS] = _sweep(chain_marks, free_chains(m))
    m[at.FREE_CHUNKS] = _sweep(chunk_marks, free_chunks(m))
    m[at.FREE_KEPT] = _sweep(kept_marks, free_kept(m))


@seldom_part
def _holds_event(partial, m):  # type: ignore[no-untyped-def]
    held = False
    for place in range(m[at.ELEMENT_COUNT]):
        held = held or partials(m)[partial, at.SLOTS + place] != at.NONE
    return held


@state_kernel
def waiting_partials(m, found):  # type: ignore[no-untyped-def]
    """Write (partial, time) of those that have an event and wait, element by element; return their number."""
    count = 0
    for row in range(m[at.LIST_ROWS]):
        if not _is_list(row, m):
            continue
        for head in (at.PENDING_HEAD, at.FRESH_HEAD):
            entry = lists(m)[row, head]
            while entry != at.NONE:
                partial = entries(m)[entry, at.ENTRY_PARTIAL]
                if _holds_event(partial, m):
                    found[count, 0] = partial
                    found[count, 1] = partials(m)[partial, at.TIME]
                    count += 1
                entry = entries(m)[entry, at.ENTRY_NEXT]
    return count


@seldom_part
def _drop_from(base, element, head, dropped, m):  # type: ignore[no-untyped-def]
    before = np.int64(at.NONE)
    entry = lists(m)[base + element, head]
    while entry != at.NONE:
        if dropped[entries(m)[entry, at.ENTRY_PARTIAL]]:
            entry = take_out(base, element, head, before, entry, m)
        else:
            before, entry = entry, entries(m)[entry, at.ENTRY_NEXT]


@state_kernel
def drop_partials(m, dropped):  # type: ignore[no-untyped-def]
    """Remove the marked partial matches from all lists."""
    stride = m[at.ELEMENT_COUNT] + 1
    for row in range(m[at.LIST_ROWS]):
        if _is_list(row, m):
            element = row % stride
            _drop_from(row - element, element, at.PENDING_HEAD, dropped, m)
            _drop_from(row - element, element, at.FRESH_HEAD, dropped, m)


@state_kernel
def close_instances(m, closed):  # type: ignore[no-untyped-def]
    """Remove all partials from the instances `closed`; the caller drops their alarms."""
    count = m[at.ELEMENT_COUNT]
    for instance in closed:
        base = instance * (count + 1)
        if base + count < m[at.LIST_ROWS] and lists(m)[base + count, at.OPEN]:
            for element in range(count):
                for head in (at.PENDING_HEAD, at.FRESH_HEAD):
                    while lists(m)[base + element, head] != at.NONE:
                        take_out(base, element, head, at.NONE, lists(m)[base + element, head], m)
            lists(m)[base + count, at.OPEN] = 0
