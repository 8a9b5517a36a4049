"""Parts of the compiled state machine: who waits at which element, and what is too old."""

from __future__ import annotations

import numpy as np

from siddhi.engine.kernels import seldom_part
from siddhi.engine.pattern.compiled import memory as at
from siddhi.engine.pattern.compiled.pool import first_event


@seldom_part
def _free_entry(base, entry, m, rules):  # type: ignore[no-untyped-def]
    m.free_entries[m.counters[at.FREE_ENTRIES]] = entry
    m.counters[at.FREE_ENTRIES] += 1
    m.counters[at.LIVE] -= 1
    m.lists[base + rules.elements.shape[0], at.WAITING_COUNT] -= 1


@seldom_part
def take_out(base, element, head, before, entry, m, rules):  # type: ignore[no-untyped-def]
    """`entry`, which stands behind `before`, leaves the list with this column `head`; returns what comes next."""
    row = base + element
    following = m.entries[entry, at.ENTRY_NEXT]
    if before == at.NONE:
        m.lists[row, head] = following
    else:
        m.entries[before, at.ENTRY_NEXT] = following
    if following == at.NONE:
        m.lists[row, head + 1] = before
    m.lists[row, head + 2] -= 1
    _free_entry(base, entry, m, rules)
    return following


@seldom_part
def clear(base, element, head, m, rules):  # type: ignore[no-untyped-def]
    """Nobody stands in the list any more."""
    row = base + element
    entry = m.lists[row, head]
    while entry != at.NONE:
        following = m.entries[entry, at.ENTRY_NEXT]
        _free_entry(base, entry, m, rules)
        entry = following
    m.lists[row, head] = m.lists[row, head + 1] = at.NONE
    m.lists[row, head + 2] = 0


@seldom_part
def clear_horizon(row, m):  # type: ignore[no-untyped-def]
    m.lists[row, at.ORDERED] = 1
    m.lists[row, at.NEWEST] = -at.NEVER
    m.lists[row, at.UNTIL] = at.NEVER


@seldom_part
def clear_fresh(base, element, m, rules):  # type: ignore[no-untyped-def]
    clear(base, element, at.FRESH_HEAD, m, rules)
    clear_horizon(base + element, m)


@seldom_part
def is_expired(partial, element, latest, m, rules):  # type: ignore[no-untyped-def]
    """Whether the time of the machine, now `latest`, has moved on by more than `within` since `partial` began."""
    for limit in range(rules.elements[element, at.FIRST_LIMIT], rules.elements[element, at.END_LIMIT]):
        event = first_event(partial, rules.limits[limit, 0], m, rules)
        if event == at.NONE:
            continue
        if latest - m.kept[event, at.KEPT_TIME] - m.kept[event, at.KEPT_LATE] > rules.limits[limit, 1]:
            return True
    return False


@seldom_part
def is_too_old(partial, element, time, m, rules):  # type: ignore[no-untyped-def]
    """Whether `partial` began with a late event and `time` is more than `within` after that."""
    for limit in range(rules.elements[element, at.FIRST_LIMIT], rules.elements[element, at.END_LIMIT]):
        event = first_event(partial, rules.limits[limit, 0], m, rules)
        if event == at.NONE or m.kept[event, at.KEPT_LATE] == 0:
            continue
        if time - m.kept[event, at.KEPT_TIME] > rules.limits[limit, 1]:
            return True
    return False


@seldom_part
def end_of(partial, element, m, rules):  # type: ignore[no-untyped-def]
    """Until when `partial` is not expired."""
    until = np.int64(at.NEVER)
    for limit in range(rules.elements[element, at.FIRST_LIMIT], rules.elements[element, at.END_LIMIT]):
        event = first_event(partial, rules.limits[limit, 0], m, rules)
        if event != at.NONE:
            own = m.kept[event, at.KEPT_TIME] + m.kept[event, at.KEPT_LATE] + rules.limits[limit, 1]
            until = min(until, own)
    return until


@seldom_part
def note_end(base, element, partial, m, rules):  # type: ignore[no-untyped-def]
    """`partial` is the last of the fresh ones now."""
    row = base + element
    until = end_of(partial, element, m, rules)
    if until < m.lists[row, at.NEWEST]:
        m.lists[row, at.ORDERED] = 0
    m.lists[row, at.NEWEST] = until
    m.lists[row, at.UNTIL] = min(m.lists[row, at.UNTIL], until)


@seldom_part
def add_last(base, element, head, partial, m, rules):  # type: ignore[no-untyped-def]
    """`partial` stands last in the list with this column `head`."""
    row = base + element
    free = m.counters[at.FREE_ENTRIES] - 1
    m.counters[at.FREE_ENTRIES] = free
    m.counters[at.LIVE] += 1
    m.lists[base + rules.elements.shape[0], at.WAITING_COUNT] += 1
    entry = m.free_entries[free]
    m.entries[entry, at.ENTRY_PARTIAL] = partial
    m.entries[entry, at.ENTRY_NEXT] = at.NONE
    last = m.lists[row, head + 1]
    if last == at.NONE:
        m.lists[row, head] = entry
    else:
        m.entries[last, at.ENTRY_NEXT] = entry
    m.lists[row, head + 1] = entry
    m.lists[row, head + 2] += 1


@seldom_part
def welcome(base, element, partial, m, rules):  # type: ignore[no-untyped-def]
    """`partial` is the newest that waits at the element."""
    add_last(base, element, at.FRESH_HEAD, partial, m, rules)
    if rules.elements[element, at.FIRST_LIMIT] < rules.elements[element, at.END_LIMIT]:
        note_end(base, element, partial, m, rules)


@seldom_part
def _comes_before(one, other, m):  # type: ignore[no-untyped-def]
    """Whether the partial of entry `one` has to stand in front of that of `other`, which came first."""
    left = m.partials[m.entries[one, at.ENTRY_PARTIAL], at.TIME]
    right = m.partials[m.entries[other, at.ENTRY_PARTIAL], at.TIME]
    if right == at.UNSET_TIME:
        return left != at.UNSET_TIME
    return left != at.UNSET_TIME and left < right


@seldom_part
def _sort(row, m):  # type: ignore[no-untyped-def]
    """Sorts the fresh ones by time, those without an event last: merges runs of growing width, in place."""
    width = 1
    while width < m.lists[row, at.FRESH_COUNT]:
        rest = m.lists[row, at.FRESH_HEAD]
        tail = np.int64(at.NONE)
        while rest != at.NONE:
            left, right = rest, rest
            left_count = right_count = 0
            while left_count < width and right != at.NONE:
                right = m.entries[right, at.ENTRY_NEXT]
                left_count += 1
            rest = right
            while right_count < width and rest != at.NONE:
                rest = m.entries[rest, at.ENTRY_NEXT]
                right_count += 1
            while left_count or right_count:
                if not left_count or (right_count and _comes_before(right, left, m)):
                    entry, right = right, m.entries[right, at.ENTRY_NEXT]
                    right_count -= 1
                else:
                    entry, left = left, m.entries[left, at.ENTRY_NEXT]
                    left_count -= 1
                if tail == at.NONE:
                    m.lists[row, at.FRESH_HEAD] = entry
                else:
                    m.entries[tail, at.ENTRY_NEXT] = entry
                tail = entry
        m.entries[tail, at.ENTRY_NEXT] = at.NONE
        m.lists[row, at.FRESH_TAIL] = tail
        width *= 2


@seldom_part
def let_in(base, element, m):  # type: ignore[no-untyped-def]
    """What arrived since the last event is pending, oldest first."""
    row = base + element
    head = m.lists[row, at.FRESH_HEAD]
    if head != at.NONE:
        entry, following = head, m.entries[head, at.ENTRY_NEXT]
        while following != at.NONE:
            if _comes_before(following, entry, m):
                _sort(row, m)
                break
            entry, following = following, m.entries[following, at.ENTRY_NEXT]
        last = m.lists[row, at.PENDING_TAIL]
        if last == at.NONE:
            m.lists[row, at.PENDING_HEAD] = m.lists[row, at.FRESH_HEAD]
        else:
            m.entries[last, at.ENTRY_NEXT] = m.lists[row, at.FRESH_HEAD]
        m.lists[row, at.PENDING_TAIL] = m.lists[row, at.FRESH_TAIL]
        m.lists[row, at.PENDING_COUNT] += m.lists[row, at.FRESH_COUNT]
        m.lists[row, at.FRESH_HEAD] = m.lists[row, at.FRESH_TAIL] = at.NONE
        m.lists[row, at.FRESH_COUNT] = 0
    clear_horizon(row, m)
