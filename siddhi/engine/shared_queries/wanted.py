"""Find the events of a stream that can match a query, according to plain tests of its filters."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TypeGuard

from siddhi.analysis import model
from siddhi.analysis.expression.walk import conjuncts
from siddhi.analysis.parts import parts_of
from siddhi.engine.operators.selection.plain_query import PlainTest, plain_test

Wanted = tuple[tuple[PlainTest, ...], ...]
"""An event matches if it passes all tests of at least one line; each has at least one test."""
_MAY_KEEP_STATE = (model.Aggregate, model.Call, model.InTable)


def wanted_events(query: model.AnalysedQuery) -> Wanted | None:
    """Return the tests for events that can affect `query`, which reads one stream; None when any event can.

    Other events only advance the time that a pattern has seen.
    """
    source = query.input
    if isinstance(source, model.SourceInput):
        tests = tuple(_tests(source.before, slot=0))
        return (tests,) if tests else None
    if isinstance(source, model.StateMachine) and not source.sequence:
        return _wanted_of_pattern(source)
    return None


def _wanted_of_pattern(machine: model.StateMachine) -> Wanted | None:
    if not all(_is_plain(step) for step in machine.steps):
        return None
    lines: list[tuple[PlainTest, ...]] = []
    for element in machine.slots:
        handlers = (*element.input.before, *element.input.after)
        if not all(isinstance(step, model.FilterStep) and _keeps_nothing(step) for step in handlers):
            return None
        tests = (*_tests(handlers, element.slot), *_implied(handlers, element.slot, lines))
        # A row of nulls only advances the time of a pattern, so it must fail all tests.
        if all(test.operator == "!=" for test in tests):
            return None
        lines.append(tests)
    return tuple(lines)


def _is_plain(step: model.PatternStep) -> bool:
    """Return whether only a matching event affects `step`, and nothing that it loses makes it restart."""
    if isinstance(step, model.EveryScope):
        return step.within_ms is None and len(step.steps) == 1 and _is_plain(step.steps[0])
    return isinstance(step, model.PatternElement) and not step.absent and step.minimum > 0


def _keeps_nothing(step: model.FilterStep) -> bool:
    return not any(isinstance(part, _MAY_KEEP_STATE) for part in parts_of(step.condition))


def _tests(steps: Sequence[model.FilterStep | model.HandlerCall], slot: int) -> Iterator[PlainTest]:
    """Yield the plain tests that every event passes before it reaches anything that may store it."""
    for step in steps:
        if not isinstance(step, model.FilterStep):
            return
        for part in conjuncts(step.condition):
            test = _plain_test(part, slot)
            if test is not None:
                yield test
            elif any(isinstance(inner, _MAY_KEEP_STATE) for inner in parts_of(part)):
                return


def is_plain_test(part: model.TypedExpression, slot: int) -> bool:
    """Return whether `part` is a plain test of events for `slot`."""
    return _plain_test(part, slot) is not None


def _plain_test(part: model.TypedExpression, slot: int) -> PlainTest | None:
    return plain_test(part) if isinstance(part, model.Comparison) and _reads_only(part, slot) else None


def _implied(
    steps: Sequence[model.FilterStep | model.HandlerCall], slot: int, former: Sequence[Sequence[PlainTest]]
) -> Iterator[PlainTest]:
    """Yield tests that follow from `attribute == e1.attribute` if `e1` has passed a test of equality."""
    for step in steps:
        if not isinstance(step, model.FilterStep):
            continue
        for part in conjuncts(step.condition):
            if not isinstance(part, model.Comparison) or part.operator != "==":
                continue
            for own, other in ((part.left, part.right), (part.right, part.left)):
                if _is_attribute(own) and _is_attribute(other) and own.slot == slot and other.slot < slot:
                    for test in former[other.slot]:
                        if test.attribute == other.name and test.operator == "==" and own.type is test.type:
                            yield PlainTest(own.name, test.type, "==", test.bound, as_real=test.as_real)


def _reads_only(comparison: model.Comparison, slot: int) -> bool:
    sides = (comparison.left, comparison.right)
    return all(_is_attribute(side) and side.slot == slot for side in sides if isinstance(side, model.AttributeValue))


def _is_attribute(expression: model.TypedExpression) -> TypeGuard[model.AttributeValue]:
    return isinstance(expression, model.AttributeValue) and expression.index is None and not expression.all_events
