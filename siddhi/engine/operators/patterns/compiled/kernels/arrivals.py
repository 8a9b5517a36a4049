"""Parts of the compiled state machine: partial matches arrive at an element, and the work between two events.

Each function corresponds to a method in `siddhi.engine.operators.patterns.machine.elements`, `logical` and `absent`,
which are the reference.
"""

from __future__ import annotations

import numpy as np

from siddhi.engine.jit.kernels import seldom_part
from siddhi.engine.operators.patterns.compiled.kernels import memory as at
from siddhi.engine.operators.patterns.compiled.kernels.alarms import set_alarm
from siddhi.engine.operators.patterns.compiled.kernels.lists import (
    clear,
    clear_fresh,
    clear_horizon,
    end_of,
    is_expired,
    let_in,
    take_out,
    welcome,
)
from siddhi.engine.operators.patterns.compiled.kernels.pool import copy_up_to, first_event, length_of, new_partial
from siddhi.engine.operators.patterns.compiled.kernels.views import elements, entries, kept, lists, partials, settings


@seldom_part
def wake_at(base, element, due, m):  # type: ignore[no-untyped-def]
    lists(m)[base + element, at.SINCE] = due
    set_alarm(due, base, element, m)


@seldom_part
def wake_after(base, element, time, m):  # type: ignore[no-untyped-def]
    """Start the waiting time at `time`; a late event does not make it end earlier."""
    before = lists(m)[base + element, at.SINCE]
    wake_at(base, element, time + elements(m)[element, at.WAITING], m)
    if time != at.UNSET_TIME:
        lists(m)[base + element, at.SINCE] = max(before, lists(m)[base + element, at.SINCE])


@seldom_part
def wait_from(base, element, time, m):  # type: ignore[no-untyped-def]
    """Start the waiting time of one side of a pair at `time`, if it has one."""
    waiting = elements(m)[element, at.WAITING]
    if waiting != at.NONE:
        set_alarm(time + waiting, base, element, m)


@seldom_part
def wait_of_pair(base, element, time, m):  # type: ignore[no-untyped-def]
    """Start the waiting times of a pair at `time`, if `element` is one."""
    wait_from(base, element, time, m)
    partner = elements(m)[element, at.PARTNER]
    if elements(m)[partner, at.KIND] == at.ABSENT_LOGICAL:
        wait_from(base, partner, time, m)


@seldom_part
def outlasts_newcomers(base, element, m):  # type: ignore[no-untyped-def]
    """Return whether the oldest run already waits for the next element and may still grow."""
    head = lists(m)[base + element, at.FRESH_HEAD]
    if elements(m)[element, at.MAXIMUM] >= 0 or head == at.NONE:
        return False
    length = length_of(entries(m)[head, at.ENTRY_PARTIAL], element, m)
    return length >= elements(m)[element, at.MINIMUM]


@seldom_part
def _lacks(base, element, slot, m):  # type: ignore[no-untyped-def]
    """Return whether `slot` of a partial that has just arrived at the element is empty."""
    entry = lists(m)[base + element, at.FRESH_HEAD]
    while entry != at.NONE:
        if partials(m)[entries(m)[entry, at.ENTRY_PARTIAL], at.SLOTS + slot] == at.NONE:
            return True
        entry = entries(m)[entry, at.ENTRY_NEXT]
    return False


@seldom_part
def _has_room(base, element, m):  # type: ignore[no-untyped-def]
    if elements(m)[element, at.SIDE_BY_SIDE]:
        if _lacks(base, element, element, m):
            return False
        return elements(m)[element, at.STARTS] != 0 or not outlasts_newcomers(base, element, m)
    return settings(m)[at.IS_SEQUENCE] == 0 or lists(m)[base + element, at.FRESH_COUNT] == 0


@seldom_part
def _enter_pair(base, element, partial, m):  # type: ignore[no-untyped-def]
    one_at_a_time = elements(m)[element, at.STARTS] or settings(m)[at.IS_SEQUENCE]
    partner = elements(m)[element, at.PARTNER]
    for side, other in ((element, partner), (partner, element)):
        if elements(m)[side, at.NEIGHBOURS]:
            newcomer = _lacks(base, side, other, m)
        else:
            newcomer = lists(m)[base + side, at.FRESH_COUNT] != 0
        if not (one_at_a_time and newcomer):
            welcome(base, side, partial, m)


@seldom_part
def _enter_silence(base, element, partial, m):  # type: ignore[no-untyped-def]
    """Add `partial` to a `not` that is alone or in a pair."""
    if not lists(m)[base + element, at.ACTIVE]:
        return
    starts = elements(m)[element, at.STARTS]
    time = partials(m)[partial, at.TIME]
    if elements(m)[element, at.KIND] == at.ABSENT:
        if time == at.UNSET_TIME and not starts:  # no preceding element has an event
            time = partials(m)[partial, at.TIME] = m[at.NOW]
        if settings(m)[at.IS_SEQUENCE]:
            clear_fresh(base, element, m)
        welcome(base, element, partial, m)
        if not starts:
            wake_after(base, element, time, m)
        return
    _enter_pair(base, element, partial, m)
    if not starts:
        wait_of_pair(base, element, time, m)


@seldom_part
def rearm(base, element, partial, m):  # type: ignore[no-untyped-def]
    """Start a new round of an `every` scope here, with the slots of `partial` before the scope."""
    kind, partner = (elements(m)[element, at.KIND], elements(m)[element, at.PARTNER])
    if kind == at.ABSENT_LOGICAL:
        again = copy_up_to(partial, m[at.ELEMENT_COUNT], m)
        event = first_event(again, element, m)
        if event != at.NONE:
            partials(m)[again, at.TIME] = kept(m)[event, at.KEPT_TIME]
        partials(m)[again, at.SLOTS + element] = at.NONE
    else:
        again = copy_up_to(partial, element, m)
    if partner != at.NONE:
        partials(m)[again, at.SLOTS + partner] = at.NONE
    welcome(base, element, again, m)
    if partner != at.NONE:
        welcome(base, partner, again, m)
    if kind == at.ABSENT:
        wake_after(base, element, partials(m)[partial, at.TIME], m)


@seldom_part
def enter(base, element, partial, m):  # type: ignore[no-untyped-def]
    """Accept `partial` from the previous element; an element that needs no event passes it on at once."""
    current = element
    passed = 0
    while current != at.NONE:
        kind = elements(m)[current, at.KIND]
        if kind >= at.ABSENT:
            _enter_silence(base, current, partial, m)
            break
        if kind == at.LOGICAL:
            _enter_pair(base, current, partial, m)
            break
        if _has_room(base, current, m):
            welcome(base, current, partial, m)
        if kind == at.PLAIN or elements(m)[current, at.MINIMUM]:
            break
        if partials(m)[partial, at.SLOTS + current] != at.NONE:
            break
        if elements(m)[current, at.DELIVERS]:
            lists(m)[base + current, at.CHANGED] = lists(m)[base + current, at.EMITTED] = 1
        passed += 1
        current = elements(m)[current, at.FOLLOWING]
    for back in range(passed - 1, -1, -1):
        current = element
        for _ in range(back):
            current = elements(m)[current, at.FOLLOWING]
        if elements(m)[current, at.REARMS] != at.NONE:
            rearm(base, elements(m)[current, at.REARMS], partial, m)


@seldom_part
def initialise(base, element, m):  # type: ignore[no-untyped-def]
    """Add an empty partial match to a first element: once, or repeatedly under `every`."""
    if not elements(m)[element, at.STARTS]:
        return
    again = elements(m)[element, at.REARMS] != at.NONE or elements(m)[element, at.BEFORE_ABSENT]
    if again or not lists(m)[base + element, at.INITIALISED]:
        enter(base, element, new_partial(m), m)
        lists(m)[base + element, at.INITIALISED] = 1


@seldom_part
def _attempt_runs(base, element, m):  # type: ignore[no-untyped-def]
    following = elements(m)[element, at.FOLLOWING]
    if elements(m)[element, at.REARMS] != at.NONE or following == at.NONE:
        return False
    return lists(m)[base + following, at.PENDING_COUNT] != 0


@seldom_part
def reset(base, element, m):  # type: ignore[no-untyped-def]
    """Drop partials that waited for the event before this one (sequences only)."""
    kind, partner = (elements(m)[element, at.KIND], elements(m)[element, at.PARTNER])
    starts, rearms = (elements(m)[element, at.STARTS], elements(m)[element, at.REARMS])
    side_by_side = elements(m)[element, at.SIDE_BY_SIDE]
    if partner != at.NONE:
        side_by_side = elements(m)[element, at.NEIGHBOURS]
        same = lists(m)[base + element, at.PENDING_COUNT] == lists(m)[base + partner, at.PENDING_COUNT]
        if elements(m)[element, at.CONJUNCTION] and not side_by_side and not same:
            return  # a half-filled `and` of two streams outlives the next event
        clear(base, partner, at.PENDING_HEAD, m)
    clear(base, element, at.PENDING_HEAD, m)
    if side_by_side and starts and rearms != at.NONE:
        initialise(base, element, m)
        return
    begins = starts and (kind == at.ABSENT or lists(m)[base + element, at.FRESH_COUNT] == 0)
    if begins and not _attempt_runs(base, element, m):
        initialise(base, element, m)


@seldom_part
def update(base, element, m):  # type: ignore[no-untyped-def]
    """Make arrivals since the last event pending, oldest first; at both sides of a pair."""
    if elements(m)[element, at.KIND] == at.COUNTED and lists(m)[base + element, at.RESTART_DUE]:
        lists(m)[base + element, at.RESTART_DUE] = 0
        initialise(base, element, m)
    let_in(base, element, m)
    partner = elements(m)[element, at.PARTNER]
    if partner != at.NONE:
        let_in(base, partner, m)


@seldom_part
def _mark_expired(base, element, before, entry, head, last, m):  # type: ignore[no-untyped-def]
    """Remove the expired partial of `entry` from the list.

    Return the next entry, and the last partial that was not known to be expired. The mark of one found now is twice the
    number of the search, plus one if it was known before.
    """
    partial = entries(m)[entry, at.ENTRY_PARTIAL]
    mark, search = (partials(m)[partial, at.EXPIRED], m[at.SEARCH])
    if mark == 0:
        partials(m)[partial, at.EXPIRED] = mark = 2 * search
    elif mark // 2 != search:
        partials(m)[partial, at.EXPIRED] = mark = 2 * search + 1
    if mark == 2 * search:
        last = partial
    return take_out(base, element, head, before, entry, m), last


@seldom_part
def _fresh_expired(base, element, latest, last, m):  # type: ignore[no-untyped-def]
    """Remove expired partials from the fresh ones.

    Return their number, and the last that was not known to be expired.
    """
    row = base + element
    gone = 0
    later = elements(m)[element, at.BEGIN_LATER]
    if not later and latest <= lists(m)[row, at.UNTIL]:
        return gone, last
    in_front = not later and lists(m)[row, at.ORDERED]
    if not in_front:
        clear_horizon(row, m)
    before = np.int64(at.NONE)
    entry = lists(m)[row, at.FRESH_HEAD]
    while entry != at.NONE:
        partial = entries(m)[entry, at.ENTRY_PARTIAL]
        if is_expired(partial, element, latest, m):
            entry, last = _mark_expired(base, element, before, entry, at.FRESH_HEAD, last, m)
            gone += 1
            continue
        if in_front:
            break
        until = end_of(partial, element, m)
        if until < lists(m)[row, at.NEWEST]:
            lists(m)[row, at.ORDERED] = 0
        lists(m)[row, at.NEWEST] = until
        lists(m)[row, at.UNTIL] = min(lists(m)[row, at.UNTIL], until)
        before, entry = entry, entries(m)[entry, at.ENTRY_NEXT]
    if in_front:
        first = lists(m)[row, at.FRESH_HEAD]
        lists(m)[row, at.UNTIL] = at.NEVER
        if first != at.NONE:
            lists(m)[row, at.UNTIL] = end_of(entries(m)[first, at.ENTRY_PARTIAL], element, m)
    return gone, last


@seldom_part
def _drop_again(base, element, m):  # type: ignore[no-untyped-def]
    """Drop partials that were just found to be expired."""
    before = np.int64(at.NONE)
    entry = lists(m)[base + element, at.PENDING_HEAD]
    while entry != at.NONE:
        if partials(m)[entries(m)[entry, at.ENTRY_PARTIAL], at.EXPIRED] // 2 == m[at.SEARCH]:
            entry = take_out(base, element, at.PENDING_HEAD, before, entry, m)
        else:
            before, entry = entry, entries(m)[entry, at.ENTRY_NEXT]


@seldom_part
def expire(base, element, latest, m):  # type: ignore[no-untyped-def]
    """Drop partial matches that have expired at `latest`.

    The last of them restarts the `every` scope that it was in.
    """
    if elements(m)[element, at.FIRST_LIMIT] == elements(m)[element, at.END_LIMIT]:
        return
    m[at.SEARCH] += 1
    gone = 0
    last = np.int64(at.NONE)
    entry = lists(m)[base + element, at.PENDING_HEAD]
    while entry != at.NONE and is_expired(entries(m)[entry, at.ENTRY_PARTIAL], element, latest, m):
        entry, last = _mark_expired(base, element, at.NONE, entry, at.PENDING_HEAD, last, m)
        gone += 1
    fresh, last = _fresh_expired(base, element, latest, last, m)
    if gone + fresh == 0:
        return
    if elements(m)[element, at.SHOWN_TWICE]:
        _drop_again(base, element, m)
    head = elements(m)[element, at.SCOPE_HEAD]
    if last >= 0 and head >= 0:
        rearm(base, head, last, m)
        update(base, head, m)
