"""Parts of the compiled state machine: what happens when an alarm of a `not` fires."""

from __future__ import annotations

import numpy as np

from siddhi.engine.kernels import seldom_part
from siddhi.engine.pattern.compiled import memory as at
from siddhi.engine.pattern.compiled.arrivals import (
    enter,
    rearm,
    reset,
    update,
    wait_from,
    wake_at,
)
from siddhi.engine.pattern.compiled.lists import is_expired, is_too_old, take_out
from siddhi.engine.pattern.compiled.offers import found
from siddhi.engine.pattern.compiled.pool import first_event, new_partial


@seldom_part
def _pass_silence(base, element, partial, m, rules):  # type: ignore[no-untyped-def]
    if rules.elements[element, at.DELIVERS]:
        found(partial, m)
    if rules.elements[element, at.FOLLOWING] != at.NONE:
        enter(base, rules.elements[element, at.FOLLOWING], partial, m, rules)
    partner = rules.elements[element, at.PARTNER]
    if rules.elements[element, at.REARMS] != at.NONE:
        rearm(base, rules.elements[element, at.REARMS], partial, m, rules)
    elif rules.elements[element, at.STARTS]:
        m.lists[base + element, at.ACTIVE] = 0
        alone = partner == at.NONE or rules.elements[element, at.CONJUNCTION]
        if not alone and rules.elements[partner, at.KIND] == at.ABSENT_LOGICAL:
            m.lists[base + partner, at.ACTIVE] = 0
    restarts = rules.elements[element, at.RESTARTS]
    if restarts != at.NONE:
        m.lists[base + restarts, at.RESTART_DUE] = 1


@seldom_part
def _prepare(base, element, m, rules):  # type: ignore[no-untyped-def]
    row = base + element
    sequence, starts = (rules.settings[at.IS_SEQUENCE], rules.elements[element, at.STARTS])
    if starts and m.lists[row, at.FRESH_COUNT] == 0 and m.lists[row, at.PENDING_COUNT] == 0:
        if not (sequence and rules.elements[element, at.REARMS] == at.NONE and m.lists[row, at.SINCE] > 0):
            enter(base, element, new_partial(m), m, rules)
    elif sequence and m.lists[row, at.FRESH_COUNT]:
        reset(base, element, m, rules)
    update(base, element, m, rules)


@seldom_part
def _silent_until(base, element, partial, due, m, rules):  # type: ignore[no-untyped-def]
    time = m.partials[partial, at.TIME]
    if time == at.UNSET_TIME:
        return due >= m.lists[base + element, at.SINCE]
    return due >= time + rules.elements[element, at.WAITING]


@seldom_part
def _wake_alone(base, element, due, now, m, rules):  # type: ignore[no-untyped-def]
    row = base + element
    waiting = rules.elements[element, at.WAITING]
    scope, rearms = (rules.elements[element, at.SCOPE_HEAD], rules.elements[element, at.REARMS])
    _prepare(base, element, m, rules)
    first = m.counters[at.MATCHES]
    passed = first
    before = np.int64(at.NONE)
    entry = m.lists[row, at.PENDING_HEAD]
    while entry != at.NONE:
        partial = m.entries[entry, at.ENTRY_PARTIAL]
        if is_expired(partial, element, due, m, rules) or is_too_old(partial, element, due, m, rules):
            if scope >= 0 and rearms >= 0 and rearms != element:
                rearm(base, rearms, partial, m, rules)
        elif _silent_until(base, element, partial, due, m, rules):
            m.partials[partial, at.TIME] = due
            m.matches[passed, at.MATCH_PARTIAL] = partial
            passed += 1
        else:
            before, entry = entry, m.entries[entry, at.ENTRY_NEXT]
            continue
        entry = take_out(base, element, at.PENDING_HEAD, before, entry, m, rules)
    if scope != at.NONE:
        update(base, scope, m, rules)
    # Those that passed stand where matches will: the ones that are none go again.
    for number in range(first, passed):
        _pass_silence(base, element, m.matches[number, at.MATCH_PARTIAL], m, rules)
    if now > waiting + due:
        m.lists[row, at.SINCE] = now + waiting
    if passed == first and m.lists[row, at.SINCE] < due:
        wake_at(base, element, due + waiting, m, rules)


@seldom_part
def _wake_side(base, element, due, now, m, rules):  # type: ignore[no-untyped-def]
    row = base + element
    waiting, starts = (rules.elements[element, at.WAITING], rules.elements[element, at.STARTS])
    sequence, rearms = (rules.settings[at.IS_SEQUENCE], rules.elements[element, at.REARMS])
    conjunction, partner = (rules.elements[element, at.CONJUNCTION], rules.elements[element, at.PARTNER])
    processed = False
    if due >= m.lists[row, at.SINCE] + waiting:
        if starts and sequence and m.lists[row, at.FRESH_COUNT] == 0 and m.lists[row, at.PENDING_COUNT] == 0:
            enter(base, element, new_partial(m), m, rules)
        elif sequence and m.lists[row, at.FRESH_COUNT]:
            reset(base, element, m, rules)
        update(base, element, m, rules)
        first = m.counters[at.MATCHES]
        passed = first
        expired = np.int64(at.NONE)
        before = np.int64(at.NONE)
        entry = m.lists[row, at.PENDING_HEAD]
        while entry != at.NONE:
            partial = m.entries[entry, at.ENTRY_PARTIAL]
            event = first_event(partial, element, m, rules)
            since = m.partials[partial, at.TIME] if event == at.NONE else m.kept[event, at.KEPT_TIME]
            alone = m.partials[partial, at.SLOTS + partner] == at.NONE
            if is_expired(partial, element, due, m, rules) or is_too_old(partial, element, due, m, rules):
                expired = partial
            elif due < since + waiting:
                before, entry = entry, m.entries[entry, at.ENTRY_NEXT]
                continue
            else:
                if alone and event == at.NONE:
                    m.partials[partial, at.SLOTS + element] = 2 * rules.elements[element, at.FEED]
                if alone != (conjunction != 0):
                    m.matches[passed, at.MATCH_PARTIAL] = partial
                    passed += 1
            entry = take_out(base, element, at.PENDING_HEAD, before, entry, m, rules)
        scope = rules.elements[element, at.SCOPE_HEAD]
        if expired >= 0 and scope >= 0:
            rearm(base, scope, expired, m, rules)
            update(base, scope, m, rules)
        processed = passed > first
        for number in range(first, passed):
            partial = m.matches[number, at.MATCH_PARTIAL]
            m.partials[partial, at.TIME] = due
            _pass_silence(base, element, partial, m, rules)
        m.lists[row, at.SINCE] = 0
    if rearms != at.NONE or (not processed and starts):
        since = m.lists[row, at.SINCE]
        wait_from(base, element, since if since else now, m, rules)


@seldom_part
def wake(base, element, due, now, m, rules):  # type: ignore[no-untyped-def]
    """Lets the silence up to `due` pass; `now` is the clock. The matches that it completes stand last."""
    if not m.lists[base + element, at.ACTIVE]:
        return
    if rules.elements[element, at.KIND] == at.ABSENT:
        _wake_alone(base, element, due, now, m, rules)
    else:
        _wake_side(base, element, due, now, m, rules)
