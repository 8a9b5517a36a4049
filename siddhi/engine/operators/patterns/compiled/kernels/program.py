"""Parts of the compiled state machine: conditions that compare an event with those of a partial match."""

from __future__ import annotations

import numpy as np

from siddhi.engine.jit.kernels import seldom_part
from siddhi.engine.operators.patterns.compiled.kernels import memory as at
from siddhi.engine.operators.patterns.compiled.kernels.pool import pick
from siddhi.engine.operators.patterns.compiled.kernels.views import (
    constants,
    elements,
    fraction_constants,
    fraction_registers,
    fractions,
    instructions,
    kept,
    kept_fractions,
    null_registers,
    nulls,
    partials,
    registers,
    whole,
)


@seldom_part
def _compare(operator, left, right):  # type: ignore[no-untyped-def]
    if operator == at.EQUAL:
        return left == right
    if operator == at.NOT_EQUAL:
        return left != right
    if operator == at.LESS:
        return left < right
    if operator == at.LESS_EQUAL:
        return left <= right
    if operator == at.GREATER:
        return left > right
    return left >= right


@seldom_part
def _whole(operator, left, right):  # type: ignore[no-untyped-def]
    """Return the result of an integer operation as in Java: quotients are truncated; the divisor is not zero."""
    if operator == at.PLUS:
        return left + right
    if operator == at.MINUS:
        return left - right
    if operator == at.TIMES:
        return left * right
    if right == -1:  # avoids overflow at the least number
        return np.int64(0) if operator == at.REMAINDER else -left
    floor = left // right
    if floor * right != left and (left < 0) != (right < 0):
        floor += 1
    return left - floor * right if operator == at.REMAINDER else floor


@seldom_part
def _fraction(operator, left, right):  # type: ignore[no-untyped-def]
    if operator == at.PLUS:
        return left + right
    if operator == at.MINUS:
        return left - right
    if operator == at.TIMES:
        return left * right
    return np.fmod(left, right) if operator == at.REMAINDER else left / right


@seldom_part
def _load(number, code, row, partial, m):  # type: ignore[no-untyped-def]
    """Load a value of an event into register `number`: the event in `row`, or one of `partial`."""
    operation = code[at.OPERATION]
    if operation <= at.EVENT_FRACTION:
        column = code[at.A]
        if operation == at.EVENT_WHOLE:
            registers(m)[number] = whole(m)[row, column]
            bit = column
        else:
            fraction_registers(m)[number] = fractions(m)[row, column]
            bit = m[at.WHOLE_COUNT] + column
        null_registers(m)[number] = nulls(m)[row] >> bit & 1
        return
    event = pick(partial, code[at.A], code[at.B], code[at.C], code[at.E], m)
    if operation == at.SLOT_EMPTY:
        registers(m)[number] = event == at.NONE
        null_registers(m)[number] = 0
        return
    if operation == at.SLOT_TIME:
        null_registers(m)[number] = event == at.NONE
        registers(m)[number] = 0 if event == at.NONE else kept(m)[event, at.KEPT_TIME]
        return
    if event == at.NONE:
        event = 2 * elements(m)[code[at.A], at.FEED] + 1
    column = code[at.D]
    if operation == at.SLOT_WHOLE:
        registers(m)[number] = kept(m)[event, at.KEPT_COLUMNS + column]
        bit = column
    else:
        fraction_registers(m)[number] = kept_fractions(m)[event, column]
        bit = m[at.WHOLE_COUNT] + column
    null_registers(m)[number] = kept(m)[event, at.KEPT_NULLS] >> bit & 1


@seldom_part
def _calculate(number, code, m):  # type: ignore[no-untyped-def]
    operation, operator, left, right = (code[at.OPERATION], code[at.A], code[at.B], code[at.C])
    null = null_registers(m)[left] | null_registers(m)[right]
    divides = operator >= at.DIVIDE
    if operation <= at.ARITHMETIC_INT:
        divisor = registers(m)[right]
        if divides and divisor == 0:
            divisor, null = np.int64(1), np.int8(1)
        result = _whole(operator, registers(m)[left], divisor)
        registers(m)[number] = np.int64(np.int32(result)) if operation == at.ARITHMETIC_INT else result
    else:
        divider = fraction_registers(m)[right]
        if divides and divider == 0.0:
            divider, null = 1.0, np.int8(1)
        quotient = _fraction(operator, fraction_registers(m)[left], divider)
        single = operation == at.ARITHMETIC_SINGLE
        fraction_registers(m)[number] = np.float64(np.float32(quotient)) if single else quotient
    null_registers(m)[number] = null


@seldom_part
def _convert(number, code, m):  # type: ignore[no-untyped-def]
    operation, operand = (code[at.OPERATION], code[at.A])
    null_registers(m)[number] = null_registers(m)[operand]
    if operation == at.TO_FRACTION:
        fraction_registers(m)[number] = np.float64(registers(m)[operand])
    elif operation == at.TO_SINGLE:
        fraction_registers(m)[number] = np.float64(np.float32(fraction_registers(m)[operand]))
    elif operation == at.TO_WHOLE:
        registers(m)[number] = np.int64(fraction_registers(m)[operand])
    else:
        registers(m)[number] = np.int64(np.int32(registers(m)[operand]))


@seldom_part
def _compare_registers(number, code, m):  # type: ignore[no-untyped-def]
    operator, left, right = (code[at.A], code[at.B], code[at.C])
    if null_registers(m)[left] | null_registers(m)[right]:
        registers(m)[number] = operator == at.NOT_EQUAL
    elif code[at.OPERATION] == at.COMPARE_WHOLE:
        registers(m)[number] = _compare(operator, registers(m)[left], registers(m)[right])
    else:
        registers(m)[number] = _compare(operator, fraction_registers(m)[left], fraction_registers(m)[right])
    null_registers(m)[number] = 0


@seldom_part
def _is_true(number, m):  # type: ignore[no-untyped-def]
    return registers(m)[number] != 0 and null_registers(m)[number] == 0


@seldom_part
def _decide(number, code, m):  # type: ignore[no-untyped-def]
    operation = code[at.OPERATION]
    left = _is_true(code[at.A], m)
    if operation == at.NOT:
        registers(m)[number] = not left
    elif operation == at.AND:
        registers(m)[number] = left and _is_true(code[at.B], m)
    else:
        registers(m)[number] = left or _is_true(code[at.B], m)
    null_registers(m)[number] = 0


@seldom_part
def _take_constant(number, code, m):  # type: ignore[no-untyped-def]
    if code[at.OPERATION] == at.CONSTANT_WHOLE:
        registers(m)[number] = constants(m)[code[at.A]]
    else:
        fraction_registers(m)[number] = fraction_constants(m)[code[at.A]]
    null_registers(m)[number] = 0


@seldom_part
def _matches(first, row, partial, m):  # type: ignore[no-untyped-def]
    """Return whether instruction `first`, a comparison of two events, is true.

    One is the event in `row`, the other is in a slot that is not counted.
    """
    operator, column = (instructions(m)[first, at.A], instructions(m)[first, at.B])
    place, other = (instructions(m)[first, at.C], instructions(m)[first, at.D])
    event = partials(m)[partial, at.SLOTS + place]
    if event == at.NONE:
        event = 2 * elements(m)[place, at.FEED] + 1
    null = nulls(m)[row]
    if instructions(m)[first, at.OPERATION] == at.MATCH_WHOLE:
        if (null >> column | kept(m)[event, at.KEPT_NULLS] >> other) & 1:
            return operator == at.NOT_EQUAL
        return _compare(operator, whole(m)[row, column], kept(m)[event, at.KEPT_COLUMNS + other])
    bits = m[at.WHOLE_COUNT]
    if (null >> bits + column | kept(m)[event, at.KEPT_NULLS] >> bits + other) & 1:
        return operator == at.NOT_EQUAL
    return _compare(operator, fractions(m)[row, column], kept_fractions(m)[event, other])


@seldom_part
def holds(element, row, partial, m):  # type: ignore[no-untyped-def]
    """Return whether the element's condition is true for the event in `row`.

    The event is in the slot of `partial` already.
    """
    first, end = (elements(m)[element, at.FIRST_INSTRUCTION], elements(m)[element, at.END_INSTRUCTION])
    if first == end:
        return True
    for number in range(end - first):
        code = instructions(m)[first + number]
        operation = code[at.OPERATION]
        if operation >= at.MATCH_WHOLE:  # one of several conditions that must all be true
            met = _is_true(code[at.A], m) if operation == at.REQUIRE else _matches(first + number, row, partial, m)
            if not met:
                return False
        elif operation <= at.SLOT_EMPTY:
            _load(number, code, row, partial, m)
        elif operation <= at.CONSTANT_FRACTION:
            _take_constant(number, code, m)
        elif operation <= at.COMPARE_FRACTION:
            _compare_registers(number, code, m)
        elif operation <= at.NOT:
            _decide(number, code, m)
        elif operation == at.IS_NULL:
            registers(m)[number] = null_registers(m)[code[at.A]]
            null_registers(m)[number] = 0
        elif operation <= at.TO_INT:
            _convert(number, code, m)
        else:
            _calculate(number, code, m)
    return True
