"""Parts of the compiled state machine: how partial matches come to an element, and what happens between two events.

Each part does for an element of any kind what the method of the same task does in `siddhi.engine.pattern.elements`,
`logical` and `absent`, which are the reference.
"""

from __future__ import annotations

import numpy as np

from siddhi.engine.kernels import seldom_part
from siddhi.engine.pattern.compiled import memory as at
from siddhi.engine.pattern.compiled.alarms import set_alarm
from siddhi.engine.pattern.compiled.lists import (
    clear,
    clear_fresh,
    clear_horizon,
    end_of,
    is_expired,
    let_in,
    take_out,
    welcome,
)
from siddhi.engine.pattern.compiled.pool import copy_up_to, first_event, length_of, new_partial


@seldom_part
def wake_at(base, element, due, m, rules):  # type: ignore[no-untyped-def]
    m.lists[base + element, at.SINCE] = due
    set_alarm(due, base, element, m, rules)


@seldom_part
def wake_after(base, element, time, m, rules):  # type: ignore[no-untyped-def]
    """The silence counts from `time`; that of a late event ends no later one earlier."""
    before = m.lists[base + element, at.SINCE]
    wake_at(base, element, time + rules.elements[element, at.WAITING], m, rules)
    if time != at.UNSET_TIME:
        m.lists[base + element, at.SINCE] = max(before, m.lists[base + element, at.SINCE])


@seldom_part
def wait_from(base, element, time, m, rules):  # type: ignore[no-untyped-def]
    """The silence of one side of a pair, when it is one of some length, counts from `time`."""
    waiting = rules.elements[element, at.WAITING]
    if waiting != at.NONE:
        set_alarm(time + waiting, base, element, m, rules)


@seldom_part
def outlasts_newcomers(base, element, m, rules):  # type: ignore[no-untyped-def]
    """Whether the oldest run waits for the next element already and may grow on."""
    head = m.lists[base + element, at.FRESH_HEAD]
    if rules.elements[element, at.MAXIMUM] >= 0 or head == at.NONE:
        return False
    length = length_of(m.entries[head, at.ENTRY_PARTIAL], element, m, rules)
    return length >= rules.elements[element, at.MINIMUM]


@seldom_part
def _lacks(base, element, slot, m):  # type: ignore[no-untyped-def]
    """Whether `slot` of a partial that has just come to the element is empty."""
    entry = m.lists[base + element, at.FRESH_HEAD]
    while entry != at.NONE:
        if m.partials[m.entries[entry, at.ENTRY_PARTIAL], at.SLOTS + slot] == at.NONE:
            return True
        entry = m.entries[entry, at.ENTRY_NEXT]
    return False


@seldom_part
def _has_room(base, element, m, rules):  # type: ignore[no-untyped-def]
    if rules.elements[element, at.SIDE_BY_SIDE]:
        if _lacks(base, element, element, m):
            return False
        return rules.elements[element, at.STARTS] != 0 or not outlasts_newcomers(base, element, m, rules)
    return rules.settings[at.IS_SEQUENCE] == 0 or m.lists[base + element, at.FRESH_COUNT] == 0


@seldom_part
def _enter_pair(base, element, partial, m, rules):  # type: ignore[no-untyped-def]
    one_at_a_time = rules.elements[element, at.STARTS] or rules.settings[at.IS_SEQUENCE]
    partner = rules.elements[element, at.PARTNER]
    for side, other in ((element, partner), (partner, element)):
        if rules.elements[side, at.NEIGHBOURS]:
            newcomer = _lacks(base, side, other, m)
        else:
            newcomer = m.lists[base + side, at.FRESH_COUNT] != 0
        if not (one_at_a_time and newcomer):
            welcome(base, side, partial, m, rules)


@seldom_part
def _enter_silence(base, element, partial, m, rules):  # type: ignore[no-untyped-def]
    """`partial` comes to a `not` that stands alone or in a pair."""
    if not m.lists[base + element, at.ACTIVE]:
        return
    starts = rules.elements[element, at.STARTS]
    time = m.partials[partial, at.TIME]
    if rules.elements[element, at.KIND] == at.ABSENT:
        if rules.settings[at.IS_SEQUENCE]:
            clear_fresh(base, element, m, rules)
        welcome(base, element, partial, m, rules)
        if not starts:
            wake_after(base, element, time, m, rules)
        return
    _enter_pair(base, element, partial, m, rules)
    if starts:
        return
    wait_from(base, element, time, m, rules)
    partner = rules.elements[element, at.PARTNER]
    if rules.elements[partner, at.KIND] == at.ABSENT_LOGICAL:
        wait_from(base, partner, time, m, rules)


@seldom_part
def rearm(base, element, partial, m, rules):  # type: ignore[no-untyped-def]
    """A new round of an `every` scope begins here, with what `partial` held before the scope."""
    kind, partner = (rules.elements[element, at.KIND], rules.elements[element, at.PARTNER])
    if kind == at.ABSENT_LOGICAL:
        again = copy_up_to(partial, rules.elements.shape[0], m)
        event = first_event(again, element, m, rules)
        if event != at.NONE:
            m.partials[again, at.TIME] = m.kept[event, at.KEPT_TIME]
        m.partials[again, at.SLOTS + element] = at.NONE
    else:
        again = copy_up_to(partial, element, m)
    if partner != at.NONE:
        m.partials[again, at.SLOTS + partner] = at.NONE
    welcome(base, element, again, m, rules)
    if partner != at.NONE:
        welcome(base, partner, again, m, rules)
    if kind == at.ABSENT:
        wake_after(base, element, m.partials[partial, at.TIME], m, rules)


@seldom_part
def enter(base, element, partial, m, rules):  # type: ignore[no-untyped-def]
    """`partial` has come here from the element before; an element that needs no event passes it on at once."""
    current = element
    passed = 0
    while current != at.NONE:
        kind = rules.elements[current, at.KIND]
        if kind >= at.ABSENT:
            _enter_silence(base, current, partial, m, rules)
            break
        if kind == at.LOGICAL:
            _enter_pair(base, current, partial, m, rules)
            break
        if _has_room(base, current, m, rules):
            welcome(base, current, partial, m, rules)
        if kind == at.PLAIN or rules.elements[current, at.MINIMUM]:
            break
        if m.partials[partial, at.SLOTS + current] != at.NONE:
            break
        if rules.elements[current, at.DELIVERS]:
            m.lists[base + current, at.CHANGED] = m.lists[base + current, at.EMITTED] = 1
        passed += 1
        current = rules.elements[current, at.FOLLOWING]
    for back in range(passed - 1, -1, -1):
        current = element
        for _ in range(back):
            current = rules.elements[current, at.FOLLOWING]
        if rules.elements[current, at.REARMS] != at.NONE:
            rearm(base, rules.elements[current, at.REARMS], partial, m, rules)


@seldom_part
def initialise(base, element, m, rules):  # type: ignore[no-untyped-def]
    """An empty partial match waits at a first element: once, or always again under `every`."""
    if not rules.elements[element, at.STARTS]:
        return
    again = rules.elements[element, at.REARMS] != at.NONE or rules.elements[element, at.BEFORE_ABSENT]
    if again or not m.lists[base + element, at.INITIALISED]:
        enter(base, element, new_partial(m), m, rules)
        m.lists[base + element, at.INITIALISED] = 1


@seldom_part
def _attempt_runs(base, element, m, rules):  # type: ignore[no-untyped-def]
    following = rules.elements[element, at.FOLLOWING]
    if rules.elements[element, at.REARMS] != at.NONE or following == at.NONE:
        return False
    return m.lists[base + following, at.PENDING_COUNT] != 0


@seldom_part
def reset(base, element, m, rules):  # type: ignore[no-untyped-def]
    """What waited for the event before this one is given up (sequences only)."""
    kind, partner = (rules.elements[element, at.KIND], rules.elements[element, at.PARTNER])
    starts, rearms = (rules.elements[element, at.STARTS], rules.elements[element, at.REARMS])
    side_by_side = rules.elements[element, at.SIDE_BY_SIDE]
    if partner != at.NONE:
        side_by_side = rules.elements[element, at.NEIGHBOURS]
        same = m.lists[base + element, at.PENDING_COUNT] == m.lists[base + partner, at.PENDING_COUNT]
        if rules.elements[element, at.CONJUNCTION] and not side_by_side and not same:
            return  # a half-filled `and` of two streams outlives the next event
        clear(base, partner, at.PENDING_HEAD, m, rules)
    clear(base, element, at.PENDING_HEAD, m, rules)
    if side_by_side and starts and rearms != at.NONE:
        initialise(base, element, m, rules)
        return
    begins = starts and (kind == at.ABSENT or m.lists[base + element, at.FRESH_COUNT] == 0)
    if begins and not _attempt_runs(base, element, m, rules):
        initialise(base, element, m, rules)


@seldom_part
def update(base, element, m, rules):  # type: ignore[no-untyped-def]
    """What arrived since the last event is pending, oldest first; at both sides of a pair."""
    if rules.elements[element, at.KIND] == at.COUNTED and m.lists[base + element, at.RESTART_DUE]:
        m.lists[base + element, at.RESTART_DUE] = 0
        initialise(base, element, m, rules)
    let_in(base, element, m)
    partner = rules.elements[element, at.PARTNER]
    if partner != at.NONE:
        let_in(base, partner, m)


@seldom_part
def _mark_expired(base, element, before, entry, head, last, m, rules):  # type: ignore[no-untyped-def]
    """The partial of `entry` has expired and leaves the list; returns what comes next, and the last partial that was
    not known to be expired. Of one that is found now the mark is twice the number of the search, one more if it was
    known before."""
    partial = m.entries[entry, at.ENTRY_PARTIAL]
    mark, search = (m.partials[partial, at.EXPIRED], m.counters[at.SEARCH])
    if mark == 0:
        m.partials[partial, at.EXPIRED] = mark = 2 * search
    elif mark // 2 != search:
        m.partials[partial, at.EXPIRED] = mark = 2 * search + 1
    if mark == 2 * search:
        last = partial
    return take_out(base, element, head, before, entry, m, rules), last


@seldom_part
def _fresh_expired(base, element, latest, last, m, rules):  # type: ignore[no-untyped-def]
    """Takes expired partials out of the fresh ones; returns how many, and the last that was not known to be."""
    row = base + element
    gone = 0
    later = rules.elements[element, at.BEGIN_LATER]
    if not later and latest <= m.lists[row, at.UNTIL]:
        return gone, last
    in_front = not later and m.lists[row, at.ORDERED]
    if not in_front:
        clear_horizon(row, m)
    before = np.int64(at.NONE)
    entry = m.lists[row, at.FRESH_HEAD]
    while entry != at.NONE:
        partial = m.entries[entry, at.ENTRY_PARTIAL]
        if is_expired(partial, element, latest, m, rules):
            entry, last = _mark_expired(base, element, before, entry, at.FRESH_HEAD, last, m, rules)
            gone += 1
            continue
        if in_front:
            break
        until = end_of(partial, element, m, rules)
        if until < m.lists[row, at.NEWEST]:
            m.lists[row, at.ORDERED] = 0
        m.lists[row, at.NEWEST] = until
        m.lists[row, at.UNTIL] = min(m.lists[row, at.UNTIL], until)
        before, entry = entry, m.entries[entry, at.ENTRY_NEXT]
    if in_front:
        first = m.lists[row, at.FRESH_HEAD]
        m.lists[row, at.UNTIL] = at.NEVER
        if first != at.NONE:
            m.lists[row, at.UNTIL] = end_of(m.entries[first, at.ENTRY_PARTIAL], element, m, rules)
    return gone, last


@seldom_part
def _drop_again(base, element, m, rules):  # type: ignore[no-untyped-def]
    """Partials that were found to be expired just now wait here no second time."""
    before = np.int64(at.NONE)
    entry = m.lists[base + element, at.PENDING_HEAD]
    while entry != at.NONE:
        if m.partials[m.entries[entry, at.ENTRY_PARTIAL], at.EXPIRED] // 2 == m.counters[at.SEARCH]:
            entry = take_out(base, element, at.PENDING_HEAD, before, entry, m, rules)
        else:
            before, entry = entry, m.entries[entry, at.ENTRY_NEXT]


@seldom_part
def expire(base, element, latest, m, rules):  # type: ignore[no-untyped-def]
    """Partial matches whose time is over at `latest` are gone; the last of them restarts the `every` scope that it was
    in."""
    if rules.elements[element, at.FIRST_LIMIT] == rules.elements[element, at.END_LIMIT]:
        return
    m.counters[at.SEARCH] += 1
    gone = 0
    last = np.int64(at.NONE)
    entry = m.lists[base + element, at.PENDING_HEAD]
    while entry != at.NONE and is_expired(m.entries[entry, at.ENTRY_PARTIAL], element, latest, m, rules):
        entry, last = _mark_expired(base, element, at.NONE, entry, at.PENDING_HEAD, last, m, rules)
        gone += 1
    fresh, last = _fresh_expired(base, element, latest, last, m, rules)
    if gone + fresh == 0:
        return
    if rules.elements[element, at.SHOWN_TWICE]:
        _drop_again(base, element, m, rules)
    head = rules.elements[element, at.SCOPE_HEAD]
    if last >= 0 and head >= 0:
        rearm(base, head, last, m, rules)
        update(base, head, m, rules)
