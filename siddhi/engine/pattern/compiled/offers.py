"""Parts of the compiled state machine: an event is offered to an element.

As in `arrivals`, each part does what the methods of the element classes do, one candidate after the other.
"""

from __future__ import annotations

import numpy as np

from siddhi.engine.kernels import seldom_part
from siddhi.engine.pattern.compiled import memory as at
from siddhi.engine.pattern.compiled.arrivals import (
    enter,
    initialise,
    outlasts_newcomers,
    rearm,
    wake_after,
)
from siddhi.engine.pattern.compiled.lists import is_too_old, take_out, welcome
from siddhi.engine.pattern.compiled.pool import append, drop_last, kept_event, length_of, pick
from siddhi.engine.pattern.compiled.program import holds


@seldom_part
def found(partial, m):  # type: ignore[no-untyped-def]
    """`partial` may be a match; what it holds is looked at once the event was offered to all."""
    m.matches[m.counters[at.MATCHES], at.MATCH_PARTIAL] = partial
    m.counters[at.MATCHES] += 1


@seldom_part
def settle_matches(first, m, rules):  # type: ignore[no-untyped-def]
    """The matches from `first` on hold what their partials hold now; expired ones are none."""
    kept = first
    for number in range(first, m.counters[at.MATCHES]):
        partial = m.matches[number, at.MATCH_PARTIAL]
        if m.partials[partial, at.EXPIRED]:
            continue
        m.matches[kept, at.MATCH_PARTIAL] = partial
        m.matches[kept, at.MATCH_TIME] = m.partials[partial, at.TIME]
        for reference in range(rules.references.shape[0]):
            place, way, offset = (
                rules.references[reference, 0],
                rules.references[reference, 1],
                rules.references[reference, 2],
            )
            m.matches[kept, at.MATCH_EVENTS + reference] = pick(partial, place, way, offset, 0, m, rules)
        kept += 1
    m.counters[at.MATCHES] = kept


@seldom_part
def _restart(element, base, m, rules):  # type: ignore[no-untyped-def]
    restarts = rules.elements[element, at.RESTARTS]
    if restarts != at.NONE:
        m.lists[base + restarts, at.RESTART_DUE] = 1


@seldom_part
def _pass_on(base, element, partial, m, rules):  # type: ignore[no-untyped-def]
    """`partial` is done here: a match, or a guest of the next element; the scope that ends here starts again."""
    if rules.elements[element, at.DELIVERS]:
        m.lists[base + element, at.EMITTED] = 1
    if rules.elements[element, at.FOLLOWING] != at.NONE:
        enter(base, rules.elements[element, at.FOLLOWING], partial, m, rules)
    if rules.elements[element, at.REARMS] != at.NONE:
        rearm(base, rules.elements[element, at.REARMS], partial, m, rules)
    _restart(element, base, m, rules)


@seldom_part
def _accept_plain(base, element, partial, m, rules):  # type: ignore[no-untyped-def]
    m.lists[base + element, at.CHANGED] = 1
    m.partials[partial, at.TIME] = m.kept[m.partials[partial, at.SLOTS + element], at.KEPT_TIME]
    _pass_on(base, element, partial, m, rules)


@seldom_part
def _accept_counted(base, element, partial, m, rules):  # type: ignore[no-untyped-def]
    row = base + element
    count = length_of(partial, element, m, rules)
    last = pick(partial, element, at.LAST_EVENT, 0, 0, m, rules)
    m.partials[partial, at.TIME] = m.kept[last, at.KEPT_TIME]
    least, most = (rules.elements[element, at.MINIMUM], rules.elements[element, at.MAXIMUM])
    delivers, following = (rules.elements[element, at.DELIVERS], rules.elements[element, at.FOLLOWING])
    if rules.settings[at.IS_SEQUENCE]:
        if delivers and count == least:
            m.lists[row, at.CHANGED] = m.lists[row, at.EMITTED] = 1
        else:
            waits = rules.elements[element, at.SIDE_BY_SIDE] and m.lists[row, at.PASSED_ON]
            if following != at.NONE and count >= least and not waits:
                m.lists[row, at.PASSED_ON] = 1
                enter(base, following, partial, m, rules)
            if count < least:
                welcome(base, element, partial, m, rules)
            elif count != most:
                enter(base, element, partial, m, rules)
    elif count == least:
        if delivers:
            m.lists[row, at.CHANGED] = m.lists[row, at.EMITTED] = 1
        if following != at.NONE:
            enter(base, following, partial, m, rules)
        if rules.elements[element, at.REARMS] != at.NONE:
            rearm(base, rules.elements[element, at.REARMS], partial, m, rules)
    if count >= least and count == most:
        m.lists[row, at.CHANGED] = 1


@seldom_part
def _lets_partner_complete(base, side, partial, m, rules):  # type: ignore[no-untyped-def]
    """Whether this side of an `and` lets the other one, whose event has just come, complete the pair."""
    row = base + side
    filled = m.partials[partial, at.SLOTS + side] != at.NONE
    if rules.elements[side, at.KIND] == at.LOGICAL:
        return filled
    once = rules.elements[side, at.REARMS] == at.NONE
    if rules.settings[at.IS_SEQUENCE] and once and m.lists[row, at.SINCE] > 0:
        return False
    if rules.elements[side, at.WAITING] != at.NONE:
        return filled
    if once:
        return not filled
    if m.lists[row, at.SINCE] > 0:
        m.lists[row, at.SINCE] = 0
        initialise(base, side, m, rules)
        return False
    return True


@seldom_part
def _remove_fresh(base, element, partial, m, rules):  # type: ignore[no-untyped-def]
    before = np.int64(at.NONE)
    entry = m.lists[base + element, at.FRESH_HEAD]
    while entry != at.NONE:
        if m.entries[entry, at.ENTRY_PARTIAL] == partial:
            take_out(base, element, at.FRESH_HEAD, before, entry, m, rules)
            return
        before, entry = entry, m.entries[entry, at.ENTRY_NEXT]


@seldom_part
def _accept_side(base, element, partial, m, rules):  # type: ignore[no-untyped-def]
    partner = rules.elements[element, at.PARTNER]
    neighbours = rules.elements[element, at.NEIGHBOURS]
    if rules.elements[element, at.CONJUNCTION] and not _lets_partner_complete(base, partner, partial, m, rules):
        m.lists[base + element, at.CHANGED] = 1
        if neighbours:
            welcome(base, partner, partial, m, rules)
        return
    if neighbours:  # the other side was filled by the same event
        _remove_fresh(base, element, partial, m, rules)
    _accept_plain(base, element, partial, m, rules)


@seldom_part
def _accept_against_silence(base, element, partial, m, rules):  # type: ignore[no-untyped-def]
    """The event that should not have come has come: `partial` dies, and the silence counts from there."""
    row = base + element
    m.lists[row, at.CHANGED] = m.lists[row, at.EMITTED] = 1
    time = m.kept[m.partials[partial, at.SLOTS + element], at.KEPT_TIME]
    m.partials[partial, at.TIME] = max(m.partials[partial, at.TIME], time)
    if rules.elements[element, at.STARTS] and rules.elements[element, at.REARMS] == element:
        rearm(base, element, partial, m, rules)
    wake_after(base, element, m.partials[partial, at.TIME], m, rules)


@seldom_part
def _settle(base, element, partial, accepted, m, rules):  # type: ignore[no-untyped-def]
    row = base + element
    m.lists[row, at.CHANGED] = 0
    if accepted:
        kind = rules.elements[element, at.KIND]
        if kind == at.PLAIN:
            _accept_plain(base, element, partial, m, rules)
        elif kind == at.COUNTED:
            _accept_counted(base, element, partial, m, rules)
        elif kind == at.LOGICAL:
            _accept_side(base, element, partial, m, rules)
        elif kind == at.ABSENT:
            _accept_against_silence(base, element, partial, m, rules)
        else:
            m.lists[row, at.CHANGED] = m.lists[row, at.EMITTED] = 1
            time = m.kept[m.partials[partial, at.SLOTS + element], at.KEPT_TIME]
            m.lists[row, at.SINCE] = max(m.lists[row, at.SINCE], time)
    emitter = base + rules.elements[element, at.EMITTER]
    if m.lists[emitter, at.EMITTED]:
        m.lists[emitter, at.EMITTED] = 0
        found(partial, m)


@seldom_part
def _wants_event(element, partial, m, rules):  # type: ignore[no-untyped-def]
    """Whether `partial`, which waits at the element, still wants an event there."""
    kind = rules.elements[element, at.KIND]
    if kind == at.COUNTED:
        end = rules.elements.shape[0]
        if rules.elements[element, at.HOLDS_FORMER]:
            end = min(end, element + 3)
        empty = True
        for slot in range(element + 1, end):
            empty = empty and m.partials[partial, at.SLOTS + slot] == at.NONE
        return empty
    if rules.elements[element, at.PARTNER] != at.NONE and not rules.elements[element, at.CONJUNCTION]:
        return m.partials[partial, at.SLOTS + rules.elements[element, at.PARTNER]] == at.NONE
    return True


@seldom_part
def _stays(base, element, partial, accepted, before, first, m, rules):  # type: ignore[no-untyped-def]
    """Whether `partial`, whose slot held `before`, still waits at a `not` beside another element; `first` is the number
    that a match would have."""
    sequence = rules.settings[at.IS_SEQUENCE]
    slot = at.SLOTS + element
    _settle(base, element, partial, accepted, m, rules)
    answered = m.counters[at.MATCHES] > first
    m.counters[at.MATCHES] = first
    if answered and sequence:
        partner = rules.elements[element, at.PARTNER]
        behind = np.int64(at.NONE)
        entry = m.lists[base + partner, at.PENDING_HEAD]
        while entry != at.NONE:
            if m.entries[entry, at.ENTRY_PARTIAL] == partial:
                take_out(base, partner, at.PENDING_HEAD, behind, entry, m, rules)
                break
            behind, entry = entry, m.entries[entry, at.ENTRY_NEXT]
    if not m.lists[base + element, at.CHANGED]:
        m.partials[partial, slot] = before
        return not (answered or sequence)
    again = sequence and rules.elements[element, at.CONJUNCTION] and rules.elements[element, at.REARMS] != at.NONE
    if rules.elements[element, at.WAITING] != at.NONE or again:
        m.partials[partial, slot] = before
    return not answered


@seldom_part
def _offer_to(base, element, partial, row, latest, accepts, first, m, rules, rows):  # type: ignore[no-untyped-def]
    """Offers the event in `row` to one candidate; returns whether it waits on."""
    kind = rules.elements[element, at.KIND]
    slot = at.SLOTS + element
    sequence = rules.settings[at.IS_SEQUENCE]
    before = m.partials[partial, slot]
    accepted = False
    if kind == at.COUNTED:
        if accepts:
            append(partial, element, kept_event(row, latest, m, rows), m)
    elif accepts:
        m.partials[partial, slot] = kept_event(row, latest, m, rows)
    if accepts and holds(element, row, partial, m, rules, rows):
        accepted = not is_too_old(partial, element, rows.times[row], m, rules)
    if kind == at.ABSENT_LOGICAL:
        return _stays(base, element, partial, accepted, before, first, m, rules)
    _settle(base, element, partial, accepted, m, rules)
    if kind == at.COUNTED:
        if accepts and not accepted:
            drop_last(partial, element, m)
        return not m.lists[base + element, at.CHANGED] and (accepted or not sequence)
    if m.lists[base + element, at.CHANGED]:
        return False
    m.partials[partial, slot] = at.NONE
    if sequence and kind != at.LOGICAL:
        _restart(element, base, m, rules)
        return kind == at.ABSENT
    return not sequence


@seldom_part
def _keep_all(base, element, m, rules):  # type: ignore[no-untyped-def]
    """The event fits none that waits at the element."""
    kind = rules.elements[element, at.KIND]
    empties = rules.elements[element, at.HOLDS_FORMER] and not (kind == at.COUNTED or kind >= at.ABSENT_LOGICAL)
    chooses = kind == at.COUNTED or (
        rules.elements[element, at.PARTNER] != at.NONE and not rules.elements[element, at.CONJUNCTION]
    )
    if not (empties or chooses):
        return
    before = np.int64(at.NONE)
    entry = m.lists[base + element, at.PENDING_HEAD]
    while entry != at.NONE:
        partial = m.entries[entry, at.ENTRY_PARTIAL]
        if chooses and not _wants_event(element, partial, m, rules):
            entry = take_out(base, element, at.PENDING_HEAD, before, entry, m, rules)
            continue
        if empties:
            m.partials[partial, at.SLOTS + element] = at.NONE
        before, entry = entry, m.entries[entry, at.ENTRY_NEXT]


@seldom_part
def offer(base, element, row, latest, m, rules, rows):  # type: ignore[no-untyped-def]
    """Offers the event in `row` to all that wait at the element, in the order in which they wait; the matches that it
    completes stand last."""
    list_row = base + element
    silent = rules.elements[element, at.KIND] >= at.ABSENT
    if (silent and not m.lists[list_row, at.ACTIVE]) or m.lists[list_row, at.PENDING_COUNT] == 0:
        return
    accepts = rows.passing[element, row] != 0
    emitter = base + rules.elements[element, at.EMITTER]
    if not accepts and not rules.settings[at.IS_SEQUENCE] and not m.lists[emitter, at.EMITTED]:
        _keep_all(base, element, m, rules)
        return
    first = m.counters[at.MATCHES]
    pair = rules.elements[element, at.KIND] == at.LOGICAL
    m.lists[list_row, at.PASSED_ON] = 0
    # The list is built up again: nothing comes into it while the event is offered, but the partner of a `not` in a
    # pair may lose one.
    before = np.int64(at.NONE)
    entry = m.lists[list_row, at.PENDING_HEAD]
    while entry != at.NONE:
        partial = m.entries[entry, at.ENTRY_PARTIAL]
        # One that waits here twice is filled at its first turn; then it is done here.
        waits = _wants_event(element, partial, m, rules)
        if waits and pair and m.counters[at.ROW_KEPT] != at.NONE:
            waits = m.partials[partial, at.SLOTS + element] != m.counters[at.ROW_KEPT]
        if waits and _offer_to(base, element, partial, row, latest, accepts, first, m, rules, rows):
            before, entry = entry, m.entries[entry, at.ENTRY_NEXT]
        else:
            entry = take_out(base, element, at.PENDING_HEAD, before, entry, m, rules)
    if rules.elements[element, at.SIDE_BY_SIDE] and outlasts_newcomers(base, element, m, rules):
        second = m.entries[m.lists[list_row, at.FRESH_HEAD], at.ENTRY_NEXT]
        while second != at.NONE:
            head = m.lists[list_row, at.FRESH_HEAD]
            second = take_out(base, element, at.FRESH_HEAD, head, second, m, rules)
    if silent:
        m.counters[at.MATCHES] = first
    settle_matches(first, m, rules)
