"""Parts of the compiled state machine: process an alarm of a `not`."""

from __future__ import annotations

import numpy as np

from siddhi.engine.jit.kernels import seldom_part
from siddhi.engine.operators.patterns.compiled.kernels import memory as at
from siddhi.engine.operators.patterns.compiled.kernels.arrivals import (
    enter,
    rearm,
    reset,
    update,
    wait_from,
)
from siddhi.engine.operators.patterns.compiled.kernels.lists import is_expired, is_too_old, take_out
from siddhi.engine.operators.patterns.compiled.kernels.offers import found
from siddhi.engine.operators.patterns.compiled.kernels.pool import first_event, new_partial
from siddhi.engine.operators.patterns.compiled.kernels.views import (
    elements,
    entries,
    kept,
    lists,
    matches,
    partials,
    settings,
)


@seldom_part
def _pass_silence(base, element, partial, m):  # type: ignore[no-untyped-def]
    if elements(m)[element, at.DELIVERS]:
        found(partial, m)
    if elements(m)[element, at.FOLLOWING] != at.NONE:
        enter(base, elements(m)[element, at.FOLLOWING], partial, m)
    partner = elements(m)[element, at.PARTNER]
    if elements(m)[element, at.REARMS] != at.NONE:
        rearm(base, elements(m)[element, at.REARMS], partial, m)
    elif elements(m)[element, at.STARTS]:
        lists(m)[base + element, at.ACTIVE] = 0
        alone = partner == at.NONE or elements(m)[element, at.CONJUNCTION]
        if not alone and elements(m)[partner, at.KIND] == at.ABSENT_LOGICAL:
            lists(m)[base + partner, at.ACTIVE] = 0
    restarts = elements(m)[element, at.RESTARTS]
    if restarts != at.NONE:
        lists(m)[base + restarts, at.RESTART_DUE] = 1


@seldom_part
def _prepare(base, element, m):  # type: ignore[no-untyped-def]
    row = base + element
    sequence, starts = (settings(m)[at.IS_SEQUENCE], elements(m)[element, at.STARTS])
    if starts and lists(m)[row, at.FRESH_COUNT] == 0 and lists(m)[row, at.PENDING_COUNT] == 0:
        if not (sequence and elements(m)[element, at.REARMS] == at.NONE and lists(m)[row, at.SINCE] > 0):
            enter(base, element, new_partial(m), m)
    elif sequence and lists(m)[row, at.FRESH_COUNT]:
        reset(base, element, m)
    update(base, element, m)


@seldom_part
def _silent_until(base, element, partial, due, m):  # type: ignore[no-untyped-def]
    time = partials(m)[partial, at.TIME]
    if time == at.UNSET_TIME:
        return due >= lists(m)[base + element, at.SINCE]
    return due >= time + elements(m)[element, at.WAITING]


@seldom_part
def _wake_alone(base, element, due, m):  # type: ignore[no-untyped-def]
    scope, rearms = (elements(m)[element, at.SCOPE_HEAD], elements(m)[element, at.REARMS])
    _prepare(base, element, m)
    first = m[at.MATCHES]
    passed = first
    before = np.int64(at.NONE)
    entry = lists(m)[base + element, at.PENDING_HEAD]
    while entry != at.NONE:
        partial = entries(m)[entry, at.ENTRY_PARTIAL]
        if is_expired(partial, element, due, m) or is_too_old(partial, element, due, m):
            if scope >= 0 and rearms >= 0 and rearms != element:
                rearm(base, rearms, partial, m)
        elif _silent_until(base, element, partial, due, m):
            partials(m)[partial, at.TIME] = due
            matches(m)[passed, at.MATCH_PARTIAL] = partial
            passed += 1
        else:
            before, entry = entry, entries(m)[entry, at.ENTRY_NEXT]
            continue
        entry = take_out(base, element, at.PENDING_HEAD, before, entry, m)
    if scope != at.NONE:
        update(base, scope, m)
    # Passed partials are stored in place of matches; those that do not match are removed again.
    for number in range(first, passed):
        _pass_silence(base, element, matches(m)[number, at.MATCH_PARTIAL], m)


@seldom_part
def _wake_side(base, element, due, now, m):  # type: ignore[no-untyped-def]
    row = base + element
    waiting, starts = (elements(m)[element, at.WAITING], elements(m)[element, at.STARTS])
    sequence, rearms = (settings(m)[at.IS_SEQUENCE], elements(m)[element, at.REARMS])
    conjunction, partner = (elements(m)[element, at.CONJUNCTION], elements(m)[element, at.PARTNER])
    processed = False
    if due >= lists(m)[row, at.SINCE] + waiting:
        if starts and sequence and lists(m)[row, at.FRESH_COUNT] == 0 and lists(m)[row, at.PENDING_COUNT] == 0:
            enter(base, element, new_partial(m), m)
        elif sequence and lists(m)[row, at.FRESH_COUNT]:
            reset(base, element, m)
        update(base, element, m)
        first = m[at.MATCHES]
        passed = first
        expired = np.int64(at.NONE)
        before = np.int64(at.NONE)
        entry = lists(m)[row, at.PENDING_HEAD]
        while entry != at.NONE:
            partial = entries(m)[entry, at.ENTRY_PARTIAL]
            event = first_event(partial, element, m)
            since = partials(m)[partial, at.TIME] if event == at.NONE else kept(m)[event, at.KEPT_TIME]
            alone = partials(m)[partial, at.SLOTS + partner] == at.NONE
            if is_expired(partial, element, due, m) or is_too_old(partial, element, due, m):
                expired = partial
            elif due < since + waiting:
                before, entry = entry, entries(m)[entry, at.ENTRY_NEXT]
                continue
            else:
                if alone and event == at.NONE:
                    partials(m)[partial, at.SLOTS + element] = 2 * elements(m)[element, at.FEED]
                if alone != (conjunction != 0):
                    matches(m)[passed, at.MATCH_PARTIAL] = partial
                    passed += 1
            entry = take_out(base, element, at.PENDING_HEAD, before, entry, m)
        scope = elements(m)[element, at.SCOPE_HEAD]
        if expired >= 0 and scope >= 0:
            rearm(base, scope, expired, m)
            update(base, scope, m)
        processed = passed > first
        for number in range(first, passed):
            partial = matches(m)[number, at.MATCH_PARTIAL]
            partials(m)[partial, at.TIME] = due
            _pass_silence(base, element, partial, m)
        lists(m)[row, at.SINCE] = 0
    if rearms != at.NONE or (not processed and starts):
        since = lists(m)[row, at.SINCE]
        wait_from(base, element, since if since else now, m)


@seldom_part
def wake(base, element, due, now, m):  # type: ignore[no-untyped-def]
    """Process the end of the waiting time at `due`; `now` is the clock. The matches that it completes are appended."""
    if not lists(m)[base + element, at.ACTIVE]:
        return
    if elements(m)[element, at.KIND] == at.ABSENT:
        _wake_alone(base, element, due, m)
    else:
        _wake_side(base, element, due, now, m)
