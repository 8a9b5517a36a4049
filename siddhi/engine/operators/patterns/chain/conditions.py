"""Parts of the compiled loops of chains: test whether an event meets an element's conditions.

    price > 90 and symbol == e1.symbol and price > e1.price
    └─ test ─┘     └──── INDEXED ────┘     └── BOUNDED ───┘

A test looks at the event alone. Of the comparisons with a partial match, the first equality of whole numbers is the
key under which partials are found in chains, and the first ordering of fractions gives each chain, or the whole list
where nothing is a key, a bound: the least (for `>`) or greatest value that an event has to beat, so that most events
need not look at the chain at all.
"""

from __future__ import annotations

import numpy as np

from siddhi.engine.jit.kernels import kernel_part, seldom_part
from siddhi.engine.operators.patterns.chain.memory import (
    CONSTANT,
    END_COMPARISON,
    END_TEST,
    EQUAL,
    EVENT_COLUMN,
    EVENT_COLUMNS,
    EVENT_NULLS,
    FIRST_COMPARISON,
    FIRST_TEST,
    FRACTION_NULLS,
    GREATER,
    INDEXED,
    IS_FLOAT,
    LESS,
    LESS_EQUAL,
    NONE,
    NOT_EQUAL,
    NULLS,
    OPERATOR,
    REGISTER,
    REGISTERS,
)


@kernel_part
def _compare(operator, left, right):  # type: ignore[no-untyped-def]
    if operator == EQUAL:
        return left == right
    if operator == NOT_EQUAL:
        return left != right
    if operator == LESS:
        return left < right
    if operator == LESS_EQUAL:
        return left <= right
    if operator == GREATER:
        return left > right
    return left >= right


@kernel_part
def passes(element, row, rules, events):  # type: ignore[no-untyped-def]
    """Return whether the event in `row` meets the element's own filters; null makes a test false, and `!=` true."""
    for place in range(rules.elements[element, FIRST_TEST], rules.elements[element, END_TEST]):
        test = rules.tests[place]
        column = test[EVENT_COLUMN]
        if test[IS_FLOAT] == 0:
            null = events.whole[EVENT_NULLS, row] >> column & 1
            holds = _compare(test[OPERATOR], events.whole[EVENT_COLUMNS + column, row], test[CONSTANT])
        else:
            null = events.whole[EVENT_NULLS, row] >> column + events.whole.shape[0] - EVENT_COLUMNS & 1
            holds = _compare(test[OPERATOR], events.fractions[column, row], rules.constants[test[CONSTANT]])
        if null:
            holds = test[OPERATOR] == NOT_EQUAL
        if not holds:
            return False
    return True


@kernel_part
def _holds(comparison, row, partial, state, rules, events):  # type: ignore[no-untyped-def]
    """Return whether one comparison of event `row` with `partial` holds; null makes it false, and `!=` true."""
    column = comparison[EVENT_COLUMN]
    register = comparison[REGISTER]
    base = rules.settings[REGISTERS]
    if comparison[IS_FLOAT] == 0:
        if (events.whole[EVENT_NULLS, row] >> column | state.partials[partial, NULLS] >> register) & 1:
            return comparison[OPERATOR] == NOT_EQUAL
        kept = state.partials[partial, base + register]
        return _compare(comparison[OPERATOR], events.whole[EVENT_COLUMNS + column, row], kept)
    null_column = column + events.whole.shape[0] - EVENT_COLUMNS
    null_register = register + rules.settings[FRACTION_NULLS]
    if (events.whole[EVENT_NULLS, row] >> null_column | state.partials[partial, NULLS] >> null_register) & 1:
        return comparison[OPERATOR] == NOT_EQUAL
    return _compare(comparison[OPERATOR], events.fractions[column, row], state.floats[partial, register])


@kernel_part
def meets(element, row, partial, state, rules, events):  # type: ignore[no-untyped-def]
    """Return whether every comparison of the element holds between the event in `row` and `partial`."""
    for comparison in range(rules.elements[element, FIRST_COMPARISON], rules.elements[element, END_COMPARISON]):
        if not _holds(rules.comparisons[comparison], row, partial, state, rules, events):
            return False
    return True


@kernel_part
def key_of(element, row, rules, events):  # type: ignore[no-untyped-def]
    """Return (whether anything can equal it, the key) of the event in `row` under the element's equality condition."""
    indexed = rules.elements[element, INDEXED]
    if indexed == NONE:
        return (True, np.int64(0))
    column = rules.comparisons[indexed, EVENT_COLUMN]
    return (events.whole[EVENT_NULLS, row] >> column & 1 == 0, events.whole[EVENT_COLUMNS + column, row])


@kernel_part
def beats_bound(bounded, row, bound, rules, events):  # type: ignore[no-untyped-def]
    """Return whether the event in `row` can meet the ordering condition `bounded` with any partial.

    `bound` is the value that it has to exceed, or to be below.
    """
    column = rules.comparisons[bounded, EVENT_COLUMN]
    if events.whole[EVENT_NULLS, row] >> column + events.whole.shape[0] - EVENT_COLUMNS & 1:
        return False
    return _compare(rules.comparisons[bounded, OPERATOR], events.fractions[column, row], bound)


@kernel_part
def tightened(bound, partial, bounded, state, rules):  # type: ignore[no-untyped-def]
    """Return `bound` extended to include `partial`."""
    register = rules.comparisons[bounded, REGISTER]
    if state.partials[partial, NULLS] >> register + rules.settings[FRACTION_NULLS] & 1:
        return bound
    value = state.floats[partial, register]
    if rules.comparisons[bounded, OPERATOR] >= GREATER:
        return value if value < bound else bound
    return value if value > bound else bound


@seldom_part
def widen(partial, comparison, bounds, place, first, state, rules):  # type: ignore[no-untyped-def]
    """Extend a bound to include `partial`: the least (for `>`) or greatest value that an event is compared with.

    `first` means that no other partial waits there.
    """
    register = comparison[REGISTER]
    upward = comparison[OPERATOR] >= GREATER
    if first:
        bounds[place] = np.inf if upward else -np.inf
    if state.partials[partial, NULLS] >> register + rules.settings[FRACTION_NULLS] & 1:
        return
    value = state.floats[partial, register]
    if upward:
        bounds[place] = min(bounds[place], value)
    elif value > bounds[place]:
        bounds[place] = value
