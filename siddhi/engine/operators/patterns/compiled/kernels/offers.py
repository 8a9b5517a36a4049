"""Parts of the compiled state machine: offer an event to an element.

As in `arrivals`, each function corresponds to methods of the element classes, for one candidate after the other.
"""

from __future__ import annotations

import numpy as np

from siddhi.engine.jit.kernels import seldom_part
from siddhi.engine.operators.patterns.compiled.kernels import memory as at
from siddhi.engine.operators.patterns.compiled.kernels.arrivals import (
    enter,
    initialise,
    outlasts_newcomers,
    rearm,
    wait_of_pair,
    wake_after,
)
from siddhi.engine.operators.patterns.compiled.kernels.lists import is_too_old, take_out, welcome
from siddhi.engine.operators.patterns.compiled.kernels.pool import append, drop_last, kept_event, length_of, pick
from siddhi.engine.operators.patterns.compiled.kernels.program import holds
from siddhi.engine.operators.patterns.compiled.kernels.views import (
    elements,
    entries,
    kept,
    lists,
    matches,
    partials,
    passing,
    references,
    settings,
    times,
)


@seldom_part
def found(partial, m):  # type: ignore[no-untyped-def]
    """Record that `partial` may be a match; its contents are read after the event was offered to all elements."""
    matches(m)[m[at.MATCHES], at.MATCH_PARTIAL] = partial
    m[at.MATCHES] += 1


@seldom_part
def settle_matches(first, m):  # type: ignore[no-untyped-def]
    """Copy the current contents of their partials into the matches from `first` on; drop expired ones."""
    left = first
    for number in range(first, m[at.MATCHES]):
        partial = matches(m)[number, at.MATCH_PARTIAL]
        if partials(m)[partial, at.EXPIRED]:
            continue
        matches(m)[left, at.MATCH_PARTIAL] = partial
        matches(m)[left, at.MATCH_TIME] = partials(m)[partial, at.TIME]
        for reference in range(m[at.REFERENCE_COUNT]):
            place, way, offset = (
                references(m)[reference, 0],
                references(m)[reference, 1],
                references(m)[reference, 2],
            )
            matches(m)[left, at.MATCH_EVENTS + reference] = pick(partial, place, way, offset, 0, m)
        left += 1
    m[at.MATCHES] = left


@seldom_part
def _restart(element, base, m):  # type: ignore[no-untyped-def]
    restarts = elements(m)[element, at.RESTARTS]
    if restarts != at.NONE:
        lists(m)[base + restarts, at.RESTART_DUE] = 1


@seldom_part
def _pass_on(base, element, partial, m):  # type: ignore[no-untyped-def]
    """Pass `partial` on: as a match, or to the next element; the scope that ends here restarts."""
    if elements(m)[element, at.DELIVERS]:
        lists(m)[base + element, at.EMITTED] = 1
    if elements(m)[element, at.FOLLOWING] != at.NONE:
        enter(base, elements(m)[element, at.FOLLOWING], partial, m)
    if elements(m)[element, at.REARMS] != at.NONE:
        rearm(base, elements(m)[element, at.REARMS], partial, m)
    _restart(element, base, m)


@seldom_part
def _accept_plain(base, element, partial, m):  # type: ignore[no-untyped-def]
    lists(m)[base + element, at.CHANGED] = 1
    partials(m)[partial, at.TIME] = kept(m)[partials(m)[partial, at.SLOTS + element], at.KEPT_TIME]
    _pass_on(base, element, partial, m)


@seldom_part
def _wait_again(base, element, time, m):  # type: ignore[no-untyped-def]
    """Restart the waiting time, if the element has one: a partial that waits here accepted an event of `time`."""
    if elements(m)[element, at.KIND] == at.ABSENT:
        wake_after(base, element, time, m)
    elif elements(m)[element, at.KIND] == at.ABSENT_LOGICAL:
        wait_of_pair(base, element, time, m)


@seldom_part
def _accept_counted(base, element, partial, m):  # type: ignore[no-untyped-def]
    row = base + element
    count = length_of(partial, element, m)
    last = pick(partial, element, at.LAST_EVENT, 0, 0, m)
    partials(m)[partial, at.TIME] = kept(m)[last, at.KEPT_TIME]
    least, most = (elements(m)[element, at.MINIMUM], elements(m)[element, at.MAXIMUM])
    delivers, following = (elements(m)[element, at.DELIVERS], elements(m)[element, at.FOLLOWING])
    if settings(m)[at.IS_SEQUENCE]:
        if delivers and count == least:
            lists(m)[row, at.CHANGED] = lists(m)[row, at.EMITTED] = 1
        else:
            waits = elements(m)[element, at.SIDE_BY_SIDE] and lists(m)[row, at.PASSED_ON]
            if following != at.NONE and count >= least and not waits:
                lists(m)[row, at.PASSED_ON] = 1
                enter(base, following, partial, m)
            if count < least:
                welcome(base, element, partial, m)
            elif count != most:
                enter(base, element, partial, m)
    elif count == least:
        if delivers:
            lists(m)[row, at.CHANGED] = lists(m)[row, at.EMITTED] = 1
        if following != at.NONE:
            enter(base, following, partial, m)
        if elements(m)[element, at.REARMS] != at.NONE:
            rearm(base, elements(m)[element, at.REARMS], partial, m)
    elif count > least and following != at.NONE:
        _wait_again(base, following, partials(m)[partial, at.TIME], m)
    if count >= least and count == most:
        lists(m)[row, at.CHANGED] = 1


@seldom_part
def _lets_partner_complete(base, side, partial, m):  # type: ignore[no-untyped-def]
    """Return whether this side of an `and` lets the other one, whose event has just arrived, complete the pair."""
    row = base + side
    filled = partials(m)[partial, at.SLOTS + side] != at.NONE
    if elements(m)[side, at.KIND] == at.LOGICAL:
        return filled
    once = elements(m)[side, at.REARMS] == at.NONE
    if settings(m)[at.IS_SEQUENCE] and once and lists(m)[row, at.SINCE] > 0:
        return False
    if elements(m)[side, at.WAITING] != at.NONE:
        return filled
    if once:
        return not filled
    if lists(m)[row, at.SINCE] > 0:
        lists(m)[row, at.SINCE] = 0
        initialise(base, side, m)
        return False
    return True


@seldom_part
def _remove_fresh(base, element, partial, m):  # type: ignore[no-untyped-def]
    before = np.int64(at.NONE)
    entry = lists(m)[base + element, at.FRESH_HEAD]
    while entry != at.NONE:
        if entries(m)[entry, at.ENTRY_PARTIAL] == partial:
            take_out(base, element, at.FRESH_HEAD, before, entry, m)
            return
        before, entry = entry, entries(m)[entry, at.ENTRY_NEXT]


@seldom_part
def _accept_side(base, element, partial, m):  # type: ignore[no-untyped-def]
    partner = elements(m)[element, at.PARTNER]
    neighbours = elements(m)[element, at.NEIGHBOURS]
    if elements(m)[element, at.CONJUNCTION] and not _lets_partner_complete(base, partner, partial, m):
        lists(m)[base + element, at.CHANGED] = 1
        if neighbours:
            welcome(base, partner, partial, m)
        return
    if neighbours:  # the other side was filled by the same event
        _remove_fresh(base, element, partial, m)
    _accept_plain(base, element, partial, m)


@seldom_part
def _accept_against_silence(base, element, partial, m):  # type: ignore[no-untyped-def]
    """Process the event that should not have come: drop `partial` and restart the waiting time."""
    row = base + element
    lists(m)[row, at.CHANGED] = lists(m)[row, at.EMITTED] = 1
    time = kept(m)[partials(m)[partial, at.SLOTS + element], at.KEPT_TIME]
    partials(m)[partial, at.TIME] = max(partials(m)[partial, at.TIME], time)
    if elements(m)[element, at.STARTS] and elements(m)[element, at.REARMS] == element:
        rearm(base, element, partial, m)
    wake_after(base, element, partials(m)[partial, at.TIME], m)


@seldom_part
def _settle(base, element, partial, accepted, m):  # type: ignore[no-untyped-def]
    row = base + element
    lists(m)[row, at.CHANGED] = 0
    if accepted:
        kind = elements(m)[element, at.KIND]
        if kind == at.PLAIN:
            _accept_plain(base, element, partial, m)
        elif kind == at.COUNTED:
            _accept_counted(base, element, partial, m)
        elif kind == at.LOGICAL:
            _accept_side(base, element, partial, m)
        elif kind == at.ABSENT:
            _accept_against_silence(base, element, partial, m)
        else:
            lists(m)[row, at.CHANGED] = lists(m)[row, at.EMITTED] = 1
            time = kept(m)[partials(m)[partial, at.SLOTS + element], at.KEPT_TIME]
            lists(m)[row, at.SINCE] = max(lists(m)[row, at.SINCE], time)
    emitter = base + elements(m)[element, at.EMITTER]
    if lists(m)[emitter, at.EMITTED]:
        lists(m)[emitter, at.EMITTED] = 0
        found(partial, m)


@seldom_part
def _wants_event(element, partial, m):  # type: ignore[no-untyped-def]
    """Return whether `partial`, which waits at the element, still accepts an event there."""
    kind = elements(m)[element, at.KIND]
    if kind == at.COUNTED:
        end = m[at.ELEMENT_COUNT]
        if elements(m)[element, at.HOLDS_FORMER]:
            end = min(end, element + 3)
        empty = True
        for slot in range(element + 1, end):
            empty = empty and partials(m)[partial, at.SLOTS + slot] == at.NONE
        return empty
    if elements(m)[element, at.PARTNER] != at.NONE and not elements(m)[element, at.CONJUNCTION]:
        return partials(m)[partial, at.SLOTS + elements(m)[element, at.PARTNER]] == at.NONE
    return True


@seldom_part
def _stays(base, element, partial, accepted, before, first, m):  # type: ignore[no-untyped-def]
    """Return whether `partial`, whose slot was `before`, still waits at a `not` beside another element.

    `first` is the number that a match would have.
    """
    sequence = settings(m)[at.IS_SEQUENCE]
    slot = at.SLOTS + element
    _settle(base, element, partial, accepted, m)
    answered = m[at.MATCHES] > first
    m[at.MATCHES] = first
    if answered and sequence:
        partner = elements(m)[element, at.PARTNER]
        behind = np.int64(at.NONE)
        entry = lists(m)[base + partner, at.PENDING_HEAD]
        while entry != at.NONE:
            if entries(m)[entry, at.ENTRY_PARTIAL] == partial:
                take_out(base, partner, at.PENDING_HEAD, behind, entry, m)
                break
            behind, entry = entry, entries(m)[entry, at.ENTRY_NEXT]
    if not lists(m)[base + element, at.CHANGED]:
        partials(m)[partial, slot] = before
        return not (answered or sequence)
    again = sequence and elements(m)[element, at.CONJUNCTION] and elements(m)[element, at.REARMS] != at.NONE
    if elements(m)[element, at.WAITING] != at.NONE or again:
        partials(m)[partial, slot] = before
    return not answered


@seldom_part
def _offer_to(base, element, partial, row, latest, accepts, first, m):  # type: ignore[no-untyped-def]
    """Offer the event in `row` to one candidate; return whether it keeps waiting."""
    kind = elements(m)[element, at.KIND]
    slot = at.SLOTS + element
    sequence = settings(m)[at.IS_SEQUENCE]
    before = partials(m)[partial, slot]
    accepted = False
    if kind == at.COUNTED:
        if accepts:
            append(partial, element, kept_event(row, latest, m), m)
    elif accepts:
        partials(m)[partial, slot] = kept_event(row, latest, m)
    if accepts and holds(element, row, partial, m):
        accepted = not is_too_old(partial, element, times(m)[row], m)
    if accepted:
        m[at.ROW_TAKEN] = 1
    if kind == at.ABSENT_LOGICAL:
        return _stays(base, element, partial, accepted, before, first, m)
    _settle(base, element, partial, accepted, m)
    if kind == at.COUNTED:
        if accepts and not accepted:
            drop_last(partial, element, m)
        return not lists(m)[base + element, at.CHANGED] and (accepted or not sequence)
    if lists(m)[base + element, at.CHANGED]:
        return False
    partials(m)[partial, slot] = at.NONE
    if sequence and kind != at.LOGICAL:
        _restart(element, base, m)
        return kind == at.ABSENT
    return not sequence


@seldom_part
def _keep_all(base, element, m):  # type: ignore[no-untyped-def]
    """Keep all candidates waiting, as the event fits none of them."""
    kind = elements(m)[element, at.KIND]
    empties = elements(m)[element, at.HOLDS_FORMER] and not (kind == at.COUNTED or kind >= at.ABSENT_LOGICAL)
    chooses = kind == at.COUNTED or (
        elements(m)[element, at.PARTNER] != at.NONE and not elements(m)[element, at.CONJUNCTION]
    )
    if not (empties or chooses):
        return
    before = np.int64(at.NONE)
    entry = lists(m)[base + element, at.PENDING_HEAD]
    while entry != at.NONE:
        partial = entries(m)[entry, at.ENTRY_PARTIAL]
        if chooses and not _wants_event(element, partial, m):
            entry = take_out(base, element, at.PENDING_HEAD, before, entry, m)
            continue
        if empties:
            partials(m)[partial, at.SLOTS + element] = at.NONE
        before, entry = entry, entries(m)[entry, at.ENTRY_NEXT]


@seldom_part
def offer(base, element, row, latest, m):  # type: ignore[no-untyped-def]
    """Offer the event in `row` to all that wait at the element, in order.

    The matches that it completes are appended.
    """
    list_row = base + element
    silent = elements(m)[element, at.KIND] >= at.ABSENT
    if (silent and not lists(m)[list_row, at.ACTIVE]) or lists(m)[list_row, at.PENDING_COUNT] == 0:
        return
    accepts = passing(m)[element, row] != 0
    if elements(m)[element, at.KIND] == at.ABSENT and elements(m)[element, at.STARTS]:
        # An event that is older than the current waiting time does not break it.
        accepts = accepts and times(m)[row] + elements(m)[element, at.WAITING] >= lists(m)[list_row, at.SINCE]
    emitter = base + elements(m)[element, at.EMITTER]
    if not accepts and not settings(m)[at.IS_SEQUENCE] and not lists(m)[emitter, at.EMITTED]:
        _keep_all(base, element, m)
        return
    first = m[at.MATCHES]
    pair = elements(m)[element, at.KIND] == at.LOGICAL
    lists(m)[list_row, at.PASSED_ON] = 0
    # Rebuild the list: nothing is added while the event is offered, but the partner of a `not` in a pair may lose an
    # entry.
    before = np.int64(at.NONE)
    entry = lists(m)[list_row, at.PENDING_HEAD]
    while entry != at.NONE:
        partial = entries(m)[entry, at.ENTRY_PARTIAL]
        # A partial that waits here twice is filled the first time, and done the second time.
        waits = _wants_event(element, partial, m)
        if waits and pair and m[at.ROW_KEPT] != at.NONE:
            waits = partials(m)[partial, at.SLOTS + element] != m[at.ROW_KEPT]
        if waits and _offer_to(base, element, partial, row, latest, accepts, first, m):
            before, entry = entry, entries(m)[entry, at.ENTRY_NEXT]
        else:
            entry = take_out(base, element, at.PENDING_HEAD, before, entry, m)
    if elements(m)[element, at.SIDE_BY_SIDE] and outlasts_newcomers(base, element, m):
        second = entries(m)[lists(m)[list_row, at.FRESH_HEAD], at.ENTRY_NEXT]
        while second != at.NONE:
            head = lists(m)[list_row, at.FRESH_HEAD]
            second = take_out(base, element, at.FRESH_HEAD, head, second, m)
    if silent:
        m[at.MATCHES] = first
    settle_matches(first, m)
