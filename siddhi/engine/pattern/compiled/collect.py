"""Frees what no list of the compiled state machine reaches any more, and keeps to the limit of partial matches."""

from __future__ import annotations

import numpy as np

from siddhi.engine.kernels import seldom_part, state_kernel
from siddhi.engine.pattern.compiled import memory as at
from siddhi.engine.pattern.compiled.lists import take_out


@seldom_part
def _mark_list(head, entries, marks):  # type: ignore[no-untyped-def]
    entry = head
    while entry != at.NONE:
        marks[entries[entry, at.ENTRY_PARTIAL]] = 1
        entry = entries[entry, at.ENTRY_NEXT]


@seldom_part
def _mark_matches(matches, count, references, kept_marks):  # type: ignore[no-untyped-def]
    for number in range(count):
        for reference in range(references):
            event = matches[number, at.MATCH_EVENTS + reference]
            if event != at.NONE:
                kept_marks[event] = 1


@seldom_part
def _mark_chain(chain, chains, chunks, chunk_marks, kept_marks):  # type: ignore[no-untyped-def]
    chunk = chains[chain, at.FIRST_CHUNK]
    left = chains[chain, at.LENGTH]
    while left > 0:
        chunk_marks[chunk] = 1
        for number in range(min(left, at.CHUNK_SIZE)):
            kept_marks[chunks[chunk, at.CHUNK_EVENTS + number]] = 1
        left -= at.CHUNK_SIZE
        chunk = np.int64(chunks[chunk, at.CHUNK_NEXT])


@seldom_part
def _sweep(marks, free):  # type: ignore[no-untyped-def]
    """Writes what is not marked into `free`, the lowest number last, so that it is taken first; returns how many."""
    count = 0
    for number in range(len(marks) - 1, -1, -1):
        if not marks[number]:
            free[count] = number
            count += 1
    return count


@state_kernel
def collect(  # type: ignore[no-untyped-def]
    lists,
    entries,
    partials,
    chains,
    chunks,
    free_partials,
    free_chains,
    free_chunks,
    free_kept,
    matches,
    counters,
    elements,
    references,
    partial_marks,
    chain_marks,
    chunk_marks,
    kept_marks,
):
    """Frees all that is not reached; the marks are clear when it is called."""
    stride = elements.shape[0] + 1
    for row in range(lists.shape[0]):
        if lists[row - row % stride + stride - 1, at.OPEN] and row % stride != stride - 1:
            _mark_list(lists[row, at.PENDING_HEAD], entries, partial_marks)
            _mark_list(lists[row, at.FRESH_HEAD], entries, partial_marks)
    _mark_matches(matches, counters[at.MATCHES], references.shape[0], kept_marks)
    for partial in range(len(partial_marks)):
        if not partial_marks[partial]:
            continue
        for place in range(elements.shape[0]):
            value = partials[partial, at.SLOTS + place]
            if value == at.NONE:
                continue
            if elements[place, at.KIND] != at.COUNTED:
                kept_marks[value] = 1
            elif not chain_marks[value]:
                chain_marks[value] = 1
                _mark_chain(value, chains, chunks, chunk_marks, kept_marks)
    counters[at.FREE_PARTIALS] = _sweep(partial_marks, free_partials)
    counters[at.FREE_CHAINS] = _sweep(chain_marks, free_chains)
    counters[at.FREE_CHUNKS] = _sweep(chunk_marks, free_chunks)
    counters[at.FREE_KEPT] = _sweep(kept_marks, free_kept)


@state_kernel
def waiting_partials(lists, entries, partials, elements, found):  # type: ignore[no-untyped-def]
    """Writes (partial, time) of those that hold an event and wait, place by place in order; returns how many."""
    stride = elements.shape[0] + 1
    count = 0
    for row in range(lists.shape[0]):
        if not lists[row - row % stride + stride - 1, at.OPEN] or row % stride == stride - 1:
            continue
        for head in (at.PENDING_HEAD, at.FRESH_HEAD):
            entry = lists[row, head]
            while entry != at.NONE:
                partial = entries[entry, at.ENTRY_PARTIAL]
                for place in range(elements.shape[0]):
                    if partials[partial, at.SLOTS + place] != at.NONE:
                        found[count, 0] = partial
                        found[count, 1] = partials[partial, at.TIME]
                        count += 1
                        break
                entry = entries[entry, at.ENTRY_NEXT]
    return count


@seldom_part
def _drop_from(base, element, head, dropped, m, rules):  # type: ignore[no-untyped-def]
    before = np.int64(at.NONE)
    entry = m.lists[base + element, head]
    while entry != at.NONE:
        if dropped[m.entries[entry, at.ENTRY_PARTIAL]]:
            entry = take_out(base, element, head, before, entry, m, rules)
        else:
            before, entry = entry, m.entries[entry, at.ENTRY_NEXT]


@state_kernel
def drop_partials(memory, rules, dropped):  # type: ignore[no-untyped-def]
    """The marked partial matches wait nowhere any more."""
    stride = rules.elements.shape[0] + 1
    for row in range(memory.lists.shape[0]):
        element = row % stride
        base = row - element
        if element != stride - 1 and memory.lists[base + stride - 1, at.OPEN]:
            _drop_from(base, element, at.PENDING_HEAD, dropped, memory, rules)
            _drop_from(base, element, at.FRESH_HEAD, dropped, memory, rules)


@state_kernel
def close_instances(memory, rules, closed):  # type: ignore[no-untyped-def]
    """Nothing waits in the instances `closed` any more; their alarms are dropped by the caller."""
    elements = rules.elements.shape[0]
    for instance in closed:
        base = instance * (elements + 1)
        if (base + elements) < memory.lists.shape[0] and memory.lists[base + elements, at.OPEN]:
            for element in range(elements):
                for head in (at.PENDING_HEAD, at.FRESH_HEAD):
                    while memory.lists[base + element, head] != at.NONE:
                        take_out(base, element, head, at.NONE, memory.lists[base + element, head], memory, rules)
            memory.lists[base + elements, at.OPEN] = 0
