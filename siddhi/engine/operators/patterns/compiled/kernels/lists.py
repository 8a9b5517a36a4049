"""Parts of the compiled state machine: the lists of waiting partials, and their expiry."""

from __future__ import annotations

import numpy as np

from siddhi.engine.jit.kernels import seldom_part
from siddhi.engine.operators.patterns.compiled.kernels import memory as at
from siddhi.engine.operators.patterns.compiled.kernels.pool import first_event
from siddhi.engine.operators.patterns.compiled.kernels.views import (
    elements,
    entries,
    free_entries,
    kept,
    limits,
    lists,
    partials,
)


@seldom_part
def _free_entry(base, entry, m):  # type: ignore[no-untyped-def]
    free_entries(m)[m[at.FREE_ENTRIES]] = entry
    m[at.FREE_ENTRIES] += 1
    m[at.LIVE] -= 1
    lists(m)[base + m[at.ELEMENT_COUNT], at.WAITING_COUNT] -= 1


@seldom_part
def take_out(base, element, head, before, entry, m):  # type: ignore[no-untyped-def]
    """Remove `entry`, which follows `before`, from the list with this column `head`; return the next entry."""
    row = base + element
    following = entries(m)[entry, at.ENTRY_NEXT]
    if before == at.NONE:
        lists(m)[row, head] = following
    else:
        entries(m)[before, at.ENTRY_NEXT] = following
    if following == at.NONE:
        lists(m)[row, head + 1] = before
    lists(m)[row, head + 2] -= 1
    _free_entry(base, entry, m)
    return following


@seldom_part
def clear(base, element, head, m):  # type: ignore[no-untyped-def]
    """Empty the list."""
    row = base + element
    entry = lists(m)[row, head]
    while entry != at.NONE:
        following = entries(m)[entry, at.ENTRY_NEXT]
        _free_entry(base, entry, m)
        entry = following
    lists(m)[row, head] = lists(m)[row, head + 1] = at.NONE
    lists(m)[row, head + 2] = 0


@seldom_part
def clear_horizon(row, m):  # type: ignore[no-untyped-def]
    lists(m)[row, at.ORDERED] = 1
    lists(m)[row, at.NEWEST] = -at.NEVER
    lists(m)[row, at.UNTIL] = at.NEVER


@seldom_part
def clear_fresh(base, element, m):  # type: ignore[no-untyped-def]
    clear(base, element, at.FRESH_HEAD, m)
    clear_horizon(base + element, m)


@seldom_part
def is_expired(partial, element, latest, m):  # type: ignore[no-untyped-def]
    """Return whether the machine's time, now `latest`, is more than `within` after `partial` began."""
    for limit in range(elements(m)[element, at.FIRST_LIMIT], elements(m)[element, at.END_LIMIT]):
        event = first_event(partial, limits(m)[limit, 0], m)
        if event == at.NONE:
            continue
        if latest - kept(m)[event, at.KEPT_TIME] - kept(m)[event, at.KEPT_LATE] > limits(m)[limit, 1]:
            return True
    return False


@seldom_part
def is_too_old(partial, element, time, m):  # type: ignore[no-untyped-def]
    """Return whether `partial` began with a late event and `time` is more than `within` after that."""
    for limit in range(elements(m)[element, at.FIRST_LIMIT], elements(m)[element, at.END_LIMIT]):
        event = first_event(partial, limits(m)[limit, 0], m)
        if event == at.NONE or kept(m)[event, at.KEPT_LATE] == 0:
            continue
        if time - kept(m)[event, at.KEPT_TIME] > limits(m)[limit, 1]:
            return True
    return False


@seldom_part
def end_of(partial, element, m):  # type: ignore[no-untyped-def]
    """Return the time until which `partial` is not expired."""
    until = np.int64(at.NEVER)
    for limit in range(elements(m)[element, at.FIRST_LIMIT], elements(m)[element, at.END_LIMIT]):
        event = first_event(partial, limits(m)[limit, 0], m)
        if event != at.NONE:
            own = kept(m)[event, at.KEPT_TIME] + kept(m)[event, at.KEPT_LATE] + limits(m)[limit, 1]
            until = min(until, own)
    return until


@seldom_part
def note_end(base, element, partial, m):  # type: ignore[no-untyped-def]
    """Record that `partial` is now the last of the fresh ones."""
    row = base + element
    until = end_of(partial, element, m)
    if until < lists(m)[row, at.NEWEST]:
        lists(m)[row, at.ORDERED] = 0
    lists(m)[row, at.NEWEST] = until
    lists(m)[row, at.UNTIL] = min(lists(m)[row, at.UNTIL], until)


@seldom_part
def add_last(base, element, head, partial, m):  # type: ignore[no-untyped-def]
    """Append `partial` to the list with this column `head`."""
    row = base + element
    free = m[at.FREE_ENTRIES] - 1
    m[at.FREE_ENTRIES] = free
    m[at.LIVE] += 1
    lists(m)[base + m[at.ELEMENT_COUNT], at.WAITING_COUNT] += 1
    entry = free_entries(m)[free]
    entries(m)[entry, at.ENTRY_PARTIAL] = partial
    entries(m)[entry, at.ENTRY_NEXT] = at.NONE
    last = lists(m)[row, head + 1]
    if last == at.NONE:
        lists(m)[row, head] = entry
    else:
        entries(m)[last, at.ENTRY_NEXT] = entry
    lists(m)[row, head + 1] = entry
    lists(m)[row, head + 2] += 1


@seldom_part
def welcome(base, element, partial, m):  # type: ignore[no-untyped-def]
    """Add `partial` as the newest that waits at the element."""
    add_last(base, element, at.FRESH_HEAD, partial, m)
    if elements(m)[element, at.FIRST_LIMIT] < elements(m)[element, at.END_LIMIT]:
        note_end(base, element, partial, m)


@seldom_part
def _comes_before(one, other, m):  # type: ignore[no-untyped-def]
    """Return whether the partial of entry `one` belongs before that of `other`, which arrived first."""
    left = partials(m)[entries(m)[one, at.ENTRY_PARTIAL], at.TIME]
    right = partials(m)[entries(m)[other, at.ENTRY_PARTIAL], at.TIME]
    if right == at.UNSET_TIME:
        return left != at.UNSET_TIME
    return left != at.UNSET_TIME and left < right


@seldom_part
def _sort(row, m):  # type: ignore[no-untyped-def]
    """Sort the fresh ones by time, those without an event last: merge runs of growing width in place."""
    width = 1
    while width < lists(m)[row, at.FRESH_COUNT]:
        rest = lists(m)[row, at.FRESH_HEAD]
        tail = np.int64(at.NONE)
        while rest != at.NONE:
            left, right = rest, rest
            left_count = right_count = 0
            while left_count < width and right != at.NONE:
                right = entries(m)[right, at.ENTRY_NEXT]
                left_count += 1
            rest = right
            while right_count < width and rest != at.NONE:
                rest = entries(m)[rest, at.ENTRY_NEXT]
                right_count += 1
            while left_count or right_count:
                if not left_count or (right_count and _comes_before(right, left, m)):
                    entry, right = right, entries(m)[right, at.ENTRY_NEXT]
                    right_count -= 1
                else:
                    entry, left = left, entries(m)[left, at.ENTRY_NEXT]
                    left_count -= 1
                if tail == at.NONE:
                    lists(m)[row, at.FRESH_HEAD] = entry
                else:
                    entries(m)[tail, at.ENTRY_NEXT] = entry
                tail = entry
        entries(m)[tail, at.ENTRY_NEXT] = at.NONE
        lists(m)[row, at.FRESH_TAIL] = tail
        width *= 2


@seldom_part
def let_in(base, element, m):  # type: ignore[no-untyped-def]
    """Make arrivals since the last event pending, oldest first."""
    row = base + element
    head = lists(m)[row, at.FRESH_HEAD]
    if head != at.NONE:
        entry, following = head, entries(m)[head, at.ENTRY_NEXT]
        while following != at.NONE:
            if _comes_before(following, entry, m):
                _sort(row, m)
                break
            entry, following = following, entries(m)[following, at.ENTRY_NEXT]
        last = lists(m)[row, at.PENDING_TAIL]
        if last == at.NONE:
            lists(m)[row, at.PENDING_HEAD] = lists(m)[row, at.FRESH_HEAD]
        else:
            entries(m)[last, at.ENTRY_NEXT] = lists(m)[row, at.FRESH_HEAD]
        lists(m)[row, at.PENDING_TAIL] = lists(m)[row, at.FRESH_TAIL]
        lists(m)[row, at.PENDING_COUNT] += lists(m)[row, at.FRESH_COUNT]
        lists(m)[row, at.FRESH_HEAD] = lists(m)[row, at.FRESH_TAIL] = at.NONE
        lists(m)[row, at.FRESH_COUNT] = 0
    clear_horizon(row, m)
