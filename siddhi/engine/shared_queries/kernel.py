"""The loop that finds the matching rules of each row of a batch.

A rule is found by one of its tests, its key; then all its tests are evaluated:

    key `symbol == 'A'`        hashes      code of 'A' ─▶ rules                   one look per hashed column
    key `5 < price <= 9`       intervals   sorted by their lower bounds, under    as many steps as the logarithm of
                                           a tree of the greatest upper bounds    the rules, and the rules found
    neither                    rest        all rules                              each rule
"""

from __future__ import annotations

from siddhi.engine.jit.bits import as_real
from siddhi.engine.jit.kernels import kernel_part, seldom_part, state_kernel

COLUMN, IS_REAL, ACCEPTED, NULL_PASSES, BOUND, TEST_FIELDS = range(6)
"""The columns of a test: the index of its attribute among the integers or the floats, which of these it is, which
relations to the bound pass, whether null does, and the bound: an integer, or the bits of a float."""
HASH_COLUMN, HASH_BEGIN, HASH_SIZE, HASH_FIELDS = range(4)
"""The columns of a hashed attribute: its index among the integers, where the starts of its codes begin, and the number
of its codes."""
TREE_COLUMN, TREE_IS_REAL, TREE_BEGIN, TREE_COUNT, TREE_AT, TREE_LEAVES, TREE_FIELDS = range(7)
"""The columns of an indexed number: its attribute, the begin and number of its intervals, the begin of its tree and the
number of leaves, a power of two."""
LESS, EQUAL, GREATER, UNORDERED = 1, 2, 4, 8
STACK = 3 * 64
"""Room for the pending nodes of a tree: each with its first leaf and number of leaves."""


@kernel_part
def _passes(test, row, wholes, reals, whole_nulls, real_nulls):  # type: ignore[no-untyped-def]
    column = test[COLUMN]
    relation = UNORDERED
    if test[IS_REAL] != 0:
        if real_nulls[column, row] != 0:
            return test[NULL_PASSES] != 0
        value, bound = reals[column, row], as_real(test[BOUND])
        if value < bound:
            relation = LESS
        elif value == bound:
            relation = EQUAL
        elif value > bound:
            relation = GREATER
    else:
        if whole_nulls[column, row] != 0:
            return test[NULL_PASSES] != 0
        whole, limit = wholes[column, row], test[BOUND]
        if whole < limit:
            relation = LESS
        elif whole == limit:
            relation = EQUAL
        else:
            relation = GREATER
    return relation & test[ACCEPTED] != 0


@seldom_part
def _try(rule, row, count, first_tests, tests, wholes, reals, whole_nulls, real_nulls, out):  # type: ignore[no-untyped-def]
    """Add `rule` to the `count` found ones if `row` passes its tests; return the new count."""
    for number in range(first_tests[rule], first_tests[rule + 1]):
        if not _passes(tests[number], row, wholes, reals, whole_nulls, real_nulls):
            return count
    out[0, count] = row
    out[1, count] = rule
    return count + 1


@kernel_part
def _sort(out, start, stop):  # type: ignore[no-untyped-def]
    """Sort the rules of one row in ascending order (Shell's sort: they are few, or nearly sorted)."""
    gap = stop - start >> 1
    while gap > 0:
        for place in range(start + gap, stop):
            rule = out[1, place]
            at = place
            while at - gap >= start and out[1, at - gap] > rule:
                out[1, at] = out[1, at - gap]
                at -= gap
            out[1, at] = rule
        gap >>= 1


@seldom_part
def _rules_of_tree(  # type: ignore[no-untyped-def]
    tree, value, row, count, lows, highs, tree_rules, first_tests, tests, wholes, reals, whole_nulls, real_nulls,
    stack, out,
):  # fmt: skip
    """Add the rules whose interval in `tree` contains `value`, and whose tests `row` passes; return the new count."""
    begin, at = tree[TREE_BEGIN], tree[TREE_AT]
    stop, high = 0, tree[TREE_COUNT]
    while stop < high:  # intervals from here on begin above the value
        middle = stop + high >> 1
        if lows[begin + middle] <= value:
            stop = middle + 1
        else:
            high = middle
    stack[0], stack[1], stack[2] = 1, 0, tree[TREE_LEAVES]
    waiting = 1
    while waiting > 0:
        waiting -= 1
        node, first, span = stack[3 * waiting], stack[3 * waiting + 1], stack[3 * waiting + 2]
        if first >= stop or highs[at + node] < value:
            continue
        if span == 1:
            rule = tree_rules[begin + first]
            count = _try(rule, row, count, first_tests, tests, wholes, reals, whole_nulls, real_nulls, out)
            continue
        half = span >> 1
        for child in (1, 0):
            stack[3 * waiting], stack[3 * waiting + 1] = 2 * node + child, first + child * half
            stack[3 * waiting + 2] = half
            waiting += 1
    return count


@state_kernel
def find_rules(  # type: ignore[no-untyped-def]
    row, rows, wholes, reals, whole_nulls, real_nulls, hashes, hash_starts, hash_rules, trees, lows, highs, tree_rules,
    rest, first_tests, tests, stack, out,
):  # fmt: skip
    """Write (row, rule) for all rules whose tests the rows from `row` on pass, rules ascending within a row.

    Stops before a row for which `out` may lack room; returns (where it stopped, how many were found).
    """
    count = 0
    most = len(first_tests) - 1
    indexes = len(hashes) + len(trees) + (1 if len(rest) > 0 else 0)
    while row < rows and count + most <= out.shape[1]:
        start = count
        for number in range(len(hashes)):
            column = hashes[number, HASH_COLUMN]
            code = wholes[column, row]
            if whole_nulls[column, row] != 0 or code >= hashes[number, HASH_SIZE]:
                continue
            at = hashes[number, HASH_BEGIN] + code
            for place in range(hash_starts[at], hash_starts[at + 1]):
                rule = hash_rules[place]
                count = _try(rule, row, count, first_tests, tests, wholes, reals, whole_nulls, real_nulls, out)
        for number in range(len(trees)):
            tree = trees[number]
            column, is_real = tree[TREE_COLUMN], tree[TREE_IS_REAL] != 0
            if (real_nulls if is_real else whole_nulls)[column, row] != 0:
                continue
            value = reals[column, row] if is_real else float(wholes[column, row])
            count = _rules_of_tree(
                tree, value, row, count, lows, highs, tree_rules, first_tests, tests, wholes, reals, whole_nulls,
                real_nulls, stack, out,
            )  # fmt: skip
        for place in range(len(rest)):
            count = _try(rest[place], row, count, first_tests, tests, wholes, reals, whole_nulls, real_nulls, out)
        if indexes > 1 or len(trees) > 0:
            _sort(out, start, count)
        row += 1
    return row, count
