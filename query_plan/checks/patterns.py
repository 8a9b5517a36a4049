"""Rules about valid patterns and sequences that never match, or stop matching after a while."""

from __future__ import annotations

from collections.abc import Iterator

from query_plan.checks.unmet_filters import unmet_filter
from query_plan.findings import Finding, warning_rule
from siddhi.language import ast

NEVER_MATCHES = warning_rule(
    "pattern-never-matches",
    "no events can ever match a pattern or sequence",
    "change the condition or time that the message names",
)
EVERY_ENDS = warning_rule(
    "every-ends",
    "a pattern or sequence stops matching although it has `every`, as in Siddhi: when an event breaks a `not`, or after"
    " its first match",
    "move `every` as the message suggests",
)
ONE_ATTEMPT = warning_rule(
    "sequence-without-every",
    "a sequence has no `every`: it makes one attempt, which begins with the first event of its streams",
    "write `every` before the first element",
)
ONE_EVENT = warning_rule(
    "pattern-of-one-event",
    "a single stream in brackets is a pattern without `every`: it matches once",
    "leave the brackets out",
)
OPTIONAL_LAST = warning_rule(
    "optional-element-last",
    "the last element of a pattern or sequence is optional, so it never gets an event: a match is complete without it",
    "leave the element out, or give it a minimum of 1",
)
COUNT_UNUSUAL = warning_rule(
    "count-unusual",
    "a count has a maximum of 0, or one below its minimum, and still accepts events, as in Siddhi",
    "correct the count",
)
NOT_UNHEARD = warning_rule(
    "not-unheard",
    "a sequence under `every` has `not … for` between its first and its last element, where no event breaks it",
    "write the sequence as a pattern, with `->`",
)

_Leaf = ast.StreamElement | ast.AbsentElement
_Unit = ast.StreamElement | ast.AbsentElement | ast.LogicalElement
"""The part of a pattern between two arrows or commas."""


def patterns_can_match(app: ast.App) -> Iterator[Finding]:
    """Check that every pattern and sequence can match, and continues to match where it has `every`."""
    for element in app.elements:
        for query in element.queries if isinstance(element, ast.Partition) else (element,):
            if isinstance(query.input, ast.StateInput):
                yield from _findings(query.input)


def _findings(state: ast.StateInput) -> Iterator[Finding]:
    units = list(_units(state.element))
    for unit in units:
        yield from _unmet(unit)
        for leaf in _leaves(unit):
            yield from _unusual_count(leaf)
    yield from _too_short(state.element, state.within)
    yield from _ended_every(state)
    if state.sequence:
        yield from _of_sequence(state, units)
    elif isinstance(state.element, ast.StreamElement) and state.element.bare:
        message = f"'({state.element.input.source})' is a pattern of one event: it matches once"
        yield ONE_EVENT.broken(message, f"write 'from {state.element.input.source}', or 'every' before it", state.span)
    last = units[-1]
    if len(units) > 1 and isinstance(last, ast.StreamElement) and last.minimum == 0:
        message = (
            f"the last element, {_name(last)}, is optional, so it never gets an event: a match is complete without it"
        )
        if len(units) > 2 or isinstance(units[0], ast.LogicalElement):
            message += ", and is emitted with the next event that is tested"
        yield OPTIONAL_LAST.broken(message, "leave the element out, or give it a minimum of 1", last.span)


def _units(element: ast.StateElement) -> Iterator[_Unit]:
    if isinstance(element, ast.EveryElement):
        yield from _units(element.element)
    elif isinstance(element, ast.NextElement):
        for part in element.elements:
            yield from _units(part)
    else:
        yield element


def _leaves(unit: _Unit) -> tuple[_Leaf, ...]:
    return (unit.left, unit.right) if isinstance(unit, ast.LogicalElement) else (unit,)


def _name(leaf: _Leaf) -> str:
    return f"'{leaf.input.alias or leaf.input.source}'"


def _unmet(unit: _Unit) -> Iterator[Finding]:
    """Report elements that no event can satisfy, so that the pattern never matches."""
    awaited = [leaf for leaf in _leaves(unit) if isinstance(leaf, ast.StreamElement) and leaf.minimum != 0]
    unmet = [(leaf, why) for leaf in awaited if (why := unmet_filter(leaf.input)) is not None]
    needs_all = isinstance(unit, ast.LogicalElement) and unit.operator == "or"
    if needs_all and len(unmet) < 2:
        return
    for leaf, why in unmet:
        message = f"this never matches: no event passes {_name(leaf)}, as {why.reason}"
        yield NEVER_MATCHES.broken(message, why.hint, why.place)


def _unusual_count(leaf: _Leaf) -> Iterator[Finding]:
    if not isinstance(leaf, ast.StreamElement) or leaf.minimum is None or leaf.maximum is None:
        return
    if leaf.maximum == 0:
        message = f"{_name(leaf)} with a maximum of 0 still accepts an event"
        yield COUNT_UNUSUAL.broken(message, "leave the element out, or write 'not' before the stream", leaf.span)
    elif 0 < leaf.maximum < leaf.minimum:
        message = f"{_name(leaf)} has a maximum of {leaf.maximum}, below its minimum of {leaf.minimum}, which applies"
        yield COUNT_UNUSUAL.broken(message, f"write <{leaf.maximum}:{leaf.minimum}>", leaf.span)


def _too_short(element: ast.StateElement, within: ast.TimeConstant | None) -> Iterator[Finding]:
    """Report each `within` that is shorter than the silences inside it."""
    parts: tuple[ast.StateElement, ...] = ()
    limits = [within]
    if isinstance(element, ast.EveryElement):
        parts, limits = (element.element,), [within, element.within]
    elif isinstance(element, ast.NextElement):
        parts, limits = element.elements, [within, element.within]
    silence = sum(map(_silence, list(_units(element))[1:]))
    for limit in limits:
        if limit is not None and silence > limit.milliseconds:
            message = (
                f"this never matches: its silences last {silence} milliseconds after its first event, longer than"
                f" 'within', {limit.milliseconds} milliseconds"
            )
            yield NEVER_MATCHES.broken(message, f"write a 'within' of {silence} milliseconds or more", limit.span)
    for part in parts:
        yield from _too_short(part, None)


def _silence(unit: _Unit) -> int:
    """Return the minimum number of milliseconds that `unit` waits."""
    if isinstance(unit, ast.LogicalElement) and unit.operator == "or":
        return 0
    times = [
        leaf.waiting.milliseconds for leaf in _leaves(unit) if isinstance(leaf, ast.AbsentElement) and leaf.waiting
    ]
    return max(times, default=0)


# ---- patterns with `every` that end


def _ended_every(state: ast.StateInput) -> Iterator[Finding]:
    for scope, starts in _scopes(state.element, starts=True):
        units = list(_units(scope.element))
        absent = next((unit for place, unit in enumerate(units) if _ends(unit, first=place == 0)), None)
        if absent is not None and (len(units) > 1 or not starts):
            name = _absent_name(absent)
            message = f"this 'every' stops matching when an event of {name} breaks its 'not'"
            if absent is units[0]:
                message = (
                    "this 'every' begins with 'not' and stops matching after its first attempt, or at an "
                    f"event of {name}"
                )
            hint = "let it contain one event: 'every A -> not B for …'"
            yield EVERY_ENDS.broken(message, hint, scope.span)
        first = units[0]
        if not state.sequence and isinstance(first, ast.StreamElement) and first.minimum == 0:
            yield EVERY_ENDS.broken(
                f"this 'every' matches once: {_name(first)} is optional, so the next attempt begins before it "
                "could match",
                "give it a minimum of 1, and write a second query for matches without it",
                scope.span,
            )


def _scopes(element: ast.StateElement, *, starts: bool) -> Iterator[tuple[ast.EveryElement, bool]]:
    """Yield the scopes of `every`, each with whether the pattern begins there."""
    if isinstance(element, ast.EveryElement):
        yield element, starts
    elif isinstance(element, ast.NextElement):
        for place, part in enumerate(element.elements):
            yield from _scopes(part, starts=starts and place == 0)


def _ends(unit: _Unit, *, first: bool) -> bool:
    """Return whether an event can end the attempt that waits at `unit` without starting another."""
    if isinstance(unit, ast.AbsentElement):
        return True
    if isinstance(unit, ast.LogicalElement) and (unit.operator == "and" or first):
        return any(isinstance(leaf, ast.AbsentElement) for leaf in _leaves(unit))
    return False


def _absent_name(unit: _Unit) -> str:
    return _name(next(leaf for leaf in _leaves(unit) if isinstance(leaf, ast.AbsentElement)))


def _of_sequence(state: ast.StateInput, units: list[_Unit]) -> Iterator[Finding]:
    first = state.element.elements[0] if isinstance(state.element, ast.NextElement) else state.element
    if not isinstance(first, ast.EveryElement):
        message = (
            "a sequence without 'every' makes one attempt: if the first event of its streams does not match, or the"
        )
        message += " next one breaks it, it never matches again"
        yield ONE_ATTEMPT.broken(message, "write 'every' before the first element", state.span)
        return
    for unit in units[1:]:
        absent = [leaf for leaf in _leaves(unit) if isinstance(leaf, ast.AbsentElement)]
        if isinstance(unit, ast.LogicalElement) and unit.operator == "and" and absent and absent[0].waiting is None:
            message = (
                f"the first event of {_name(absent[0])} that arrives while a match waits for this ends the sequence"
            )
            yield EVERY_ENDS.broken(f"{message} for good", "write it as a pattern, with '->'", unit.span)
    between = [unit for unit in units[1:-1] if isinstance(unit, ast.AbsentElement)]
    if between and not isinstance(units[-1], ast.AbsentElement):
        message = f"in a sequence under 'every' no event of {_name(between[0])} breaks this silence"
        yield NOT_UNHEARD.broken(message, "write it as a pattern, with '->'", between[0].span)
