"""Parts of the compiled state machine: conditions that compare an event with those that a partial match holds."""

from __future__ import annotations

import numpy as np

from siddhi.engine.kernels import seldom_part
from siddhi.engine.pattern.compiled import memory as at
from siddhi.engine.pattern.compiled.pool import pick


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
    """Whole numbers as Java has them: a quotient is cut towards zero; the divisor is not zero."""
    if operator == at.PLUS:
        return left + right
    if operator == at.MINUS:
        return left - right
    if operator == at.TIMES:
        return left * right
    if right == -1:  # no overflow at the least number
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
def _load(number, code, row, partial, m, rules, rows):  # type: ignore[no-untyped-def]
    """Register `number` gets what an event has: that in `row`, or one that `partial` holds."""
    operation = code[at.OPERATION]
    if operation <= at.EVENT_FRACTION:
        column = code[at.A]
        if operation == at.EVENT_WHOLE:
            m.registers[number] = rows.whole[row, column]
            bit = column
        else:
            m.fraction_registers[number] = rows.fractions[row, column]
            bit = rows.whole.shape[1] + column
        m.null_registers[number] = rows.nulls[row] >> bit & 1
        return
    event = pick(partial, code[at.A], code[at.B], code[at.C], code[at.E], m, rules)
    if operation == at.SLOT_EMPTY:
        m.registers[number] = event == at.NONE
        m.null_registers[number] = 0
        return
    if operation == at.SLOT_TIME:
        m.null_registers[number] = event == at.NONE
        m.registers[number] = 0 if event == at.NONE else m.kept[event, at.KEPT_TIME]
        return
    if event == at.NONE:
        event = 2 * rules.elements[code[at.A], at.FEED] + 1
    column = code[at.D]
    if operation == at.SLOT_WHOLE:
        m.registers[number] = m.kept[event, at.KEPT_COLUMNS + column]
        bit = column
    else:
        m.fraction_registers[number] = m.kept_fractions[event, column]
        bit = rows.whole.shape[1] + column
    m.null_registers[number] = m.kept[event, at.KEPT_NULLS] >> bit & 1


@seldom_part
def _calculate(number, code, m):  # type: ignore[no-untyped-def]
    operation, operator, left, right = (code[at.OPERATION], code[at.A], code[at.B], code[at.C])
    null = m.null_registers[left] | m.null_registers[right]
    divides = operator >= at.DIVIDE
    if operation <= at.ARITHMETIC_INT:
        divisor = m.registers[right]
        if divides and divisor == 0:
            divisor, null = np.int64(1), np.int8(1)
        result = _whole(operator, m.registers[left], divisor)
        m.registers[number] = np.int64(np.int32(result)) if operation == at.ARITHMETIC_INT else result
    else:
        divider = m.fraction_registers[right]
        if divides and divider == 0.0:
            divider, null = 1.0, np.int8(1)
        quotient = _fraction(operator, m.fraction_registers[left], divider)
        single = operation == at.ARITHMETIC_SINGLE
        m.fraction_registers[number] = np.float64(np.float32(quotient)) if single else quotient
    m.null_registers[number] = null


@seldom_part
def _convert(number, code, m):  # type: ignore[no-untyped-def]
    operation, operand = (code[at.OPERATION], code[at.A])
    m.null_registers[number] = m.null_registers[operand]
    if operation == at.TO_FRACTION:
        m.fraction_registers[number] = np.float64(m.registers[operand])
    elif operation == at.TO_SINGLE:
        m.fraction_registers[number] = np.float64(np.float32(m.fraction_registers[operand]))
    elif operation == at.TO_WHOLE:
        m.registers[number] = np.int64(m.fraction_registers[operand])
    else:
        m.registers[number] = np.int64(np.int32(m.registers[operand]))


@seldom_part
def _compare_registers(number, code, m):  # type: ignore[no-untyped-def]
    operator, left, right = (code[at.A], code[at.B], code[at.C])
    if m.null_registers[left] | m.null_registers[right]:
        m.registers[number] = operator == at.NOT_EQUAL
    elif code[at.OPERATION] == at.COMPARE_WHOLE:
        m.registers[number] = _compare(operator, m.registers[left], m.registers[right])
    else:
        m.registers[number] = _compare(operator, m.fraction_registers[left], m.fraction_registers[right])
    m.null_registers[number] = 0


@seldom_part
def _is_true(number, m):  # type: ignore[no-untyped-def]
    return m.registers[number] != 0 and m.null_registers[number] == 0


@seldom_part
def _decide(number, code, m):  # type: ignore[no-untyped-def]
    operation = code[at.OPERATION]
    left = _is_true(code[at.A], m)
    if operation == at.NOT:
        m.registers[number] = not left
    elif operation == at.AND:
        m.registers[number] = left and _is_true(code[at.B], m)
    else:
        m.registers[number] = left or _is_true(code[at.B], m)
    m.null_registers[number] = 0


@seldom_part
def _take_constant(number, code, m, rules):  # type: ignore[no-untyped-def]
    if code[at.OPERATION] == at.CONSTANT_WHOLE:
        m.registers[number] = rules.constants[code[at.A]]
    else:
        m.fraction_registers[number] = rules.fraction_constants[code[at.A]]
    m.null_registers[number] = 0


@seldom_part
def holds(element, row, partial, m, rules, rows):  # type: ignore[no-untyped-def]
    """Whether the element's condition holds for the event in `row`, which stands in the slot of `partial` already."""
    first, end = (rules.elements[element, at.FIRST_INSTRUCTION], rules.elements[element, at.END_INSTRUCTION])
    if first == end:
        return True
    for number in range(end - first):
        code = rules.instructions[first + number]
        operation = code[at.OPERATION]
        if operation <= at.SLOT_EMPTY:
            _load(number, code, row, partial, m, rules, rows)
        elif operation <= at.CONSTANT_FRACTION:
            _take_constant(number, code, m, rules)
        elif operation <= at.COMPARE_FRACTION:
            _compare_registers(number, code, m)
        elif operation <= at.NOT:
            _decide(number, code, m)
        elif operation == at.IS_NULL:
            m.registers[number] = m.null_registers[code[at.A]]
            m.null_registers[number] = 0
        elif operation <= at.TO_INT:
            _convert(number, code, m)
        else:
            _calculate(number, code, m)
    return _is_true(end - first - 1, m)
