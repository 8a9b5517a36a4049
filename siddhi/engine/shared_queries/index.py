"""An index over the conditions of many rules on one stream: it finds the rules that match an event."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import accumulate

import numpy as np

from siddhi.engine.columnar.batch import EventBatch
from siddhi.engine.columnar.strings import StringPool
from siddhi.engine.jit.arrays import FLOAT64, INT64, AnyArray, Int64Array
from siddhi.engine.operators.selection.plain_query import ACCEPTED, PlainTest
from siddhi.engine.shared_queries import kernel
from siddhi.engine.tuning import INITIAL_RULE_PAIRS, INITIAL_RULE_ROWS
from siddhi.language.ast import AttributeType

_LOWER, _UPPER = (">", ">="), ("<", "<=")
Conditions = Sequence[Sequence[PlainTest]]
"""The tests of each rule; an event must pass all of them."""


@dataclass(frozen=True, slots=True)
class _IndexKey:
    """The test by which a rule is found: equality with `text`, or an interval, of the attribute `column`."""

    column: tuple[str, bool]
    text: str | None = None
    low: float = -np.inf
    high: float = np.inf


class RuleIndex:
    """Finds which of `conditions` the rows of batches meet.

    Building it costs microseconds a rule; codes of strings are looked up again when the pool has assigned new ones.
    """

    def __init__(self, conditions: Conditions, pool: StringPool) -> None:
        self._pool = pool
        self._generation = -1
        self._conditions = [list(tests) for tests in conditions]
        self._wholes: dict[str, int] = {}
        self._reals: dict[str, int] = {}
        self._lay_out_tests()
        self._keys = [_key_of(tests) for tests in self._conditions]
        self._lay_out_trees()
        self._rest: Int64Array = np.array([rule for rule, key in enumerate(self._keys) if key is None], INT64)
        self._stack: Int64Array = np.zeros(kernel.STACK, INT64)
        self._out: Int64Array = np.zeros((2, max(INITIAL_RULE_PAIRS, 2 * len(self._conditions))), INT64)
        self._make_room(INITIAL_RULE_ROWS)

    def _lay_out_tests(self) -> None:
        sizes = [len(tests) for tests in self._conditions]
        self._first_tests: Int64Array = np.array([0, *accumulate(sizes)], INT64)
        self._tests: Int64Array = np.zeros((sum(sizes), kernel.TEST_FIELDS), INT64)
        self._texts: list[tuple[int, str]] = []
        for number, (line, test) in enumerate(
            zip(self._tests, (test for tests in self._conditions for test in tests), strict=True)
        ):
            columns = self._reals if test.as_real else self._wholes
            line[kernel.COLUMN] = columns.setdefault(test.attribute, len(columns))
            line[kernel.IS_REAL] = test.as_real
            line[kernel.ACCEPTED] = ACCEPTED[test.operator]
            line[kernel.NULL_PASSES] = test.operator == "!="
            if isinstance(test.bound, str):
                self._texts.append((number, test.bound))
            else:
                line[kernel.BOUND] = np.array(test.bound, FLOAT64).view(INT64) if test.as_real else test.bound

    def _lay_out_trees(self) -> None:
        found: dict[tuple[str, bool], list[tuple[float, float, int]]] = {}
        for rule, key in enumerate(self._keys):
            if key is not None and key.text is None:
                found.setdefault(key.column, []).append((key.low, key.high, rule))
        trees, lows, highs, rules = [], list[float](), list[float](), list[int]()
        for (name, as_real), intervals in found.items():
            intervals.sort()
            leaves = 1 << max(len(intervals) - 1, 0).bit_length()
            column = (self._reals if as_real else self._wholes)[name]
            trees.append((column, int(as_real), len(lows), len(intervals), len(highs), leaves))
            tree = np.full(2 * leaves, -np.inf)
            tree[leaves : leaves + len(intervals)] = [high for _, high, _ in intervals]
            for node in reversed(range(1, leaves)):
                tree[node] = max(tree[2 * node], tree[2 * node + 1])
            highs.extend(tree.tolist())
            lows.extend(low for low, _, _ in intervals)
            rules.extend(rule for _, _, rule in intervals)
        self._trees = _lines(trees, kernel.TREE_FIELDS)
        self._lows, self._highs = np.array(lows, FLOAT64), np.array(highs, FLOAT64)
        self._tree_rules: Int64Array = np.array(rules, INT64)

    def _take_codes(self) -> None:
        """Look up the current codes of the strings of tests, and rebuild the hashes of these codes."""
        codes = {text: self._pool.code(text) for _, text in self._texts}
        for number, text in self._texts:
            self._tests[number, kernel.BOUND] = codes[text]
        found: dict[str, list[tuple[int, int]]] = {}
        for rule, key in enumerate(self._keys):
            if key is not None and key.text is not None:
                found.setdefault(key.column[0], []).append((codes[key.text], rule))
        hashes, starts, rules = [], list[Int64Array](), list[int]()
        for name, pairs in found.items():
            pairs.sort()
            size = pairs[-1][0] + 1
            hashes.append((self._wholes[name], sum(map(len, starts)), size))
            counts = np.bincount([code for code, _ in pairs], minlength=size)
            starts.append(np.append(0, np.cumsum(counts)) + len(rules))
            rules.extend(rule for _, rule in pairs)
        self._hashes = _lines(hashes, kernel.HASH_FIELDS)
        self._hash_starts: Int64Array = np.concatenate(starts) if starts else np.zeros(0, INT64)
        self._hash_rules: Int64Array = np.array(rules, INT64)
        self._generation = self._pool.generation

    def _make_room(self, rows: int) -> None:
        self._whole_values: Int64Array = np.zeros((max(len(self._wholes), 1), rows), INT64)
        self._real_values: AnyArray = np.zeros((max(len(self._reals), 1), rows), FLOAT64)
        self._whole_nulls: AnyArray = np.zeros(self._whole_values.shape, np.bool_)
        self._real_nulls: AnyArray = np.zeros(self._real_values.shape, np.bool_)

    def find(self, batch: EventBatch) -> tuple[Int64Array, Int64Array]:
        """Return (rows, rules): the rows of `batch` and the rules whose conditions they meet, by row, then by rule.

        The arrays are valid until the next call.
        """
        rows = batch.size
        if rows > self._whole_values.shape[1]:
            self._make_room(2 * rows)
        self._read(batch, self._wholes, self._whole_values, self._whole_nulls)
        self._read(batch, self._reals, self._real_values, self._real_nulls)
        if self._generation != self._pool.generation:
            self._take_codes()
        out, row, found = self._out, 0, list[Int64Array]()
        while True:
            row, count = kernel.find_rules(
                row, rows, self._whole_values, self._real_values, self._whole_nulls, self._real_nulls,
                self._hashes, self._hash_starts, self._hash_rules,
                self._trees, self._lows, self._highs, self._tree_rules,
                self._rest, self._first_tests, self._tests, self._stack, out,
            )  # fmt: skip
            if row == rows and not found:
                return out[0, :count], out[1, :count]
            found.append(out[:, :count].copy())
            if row == rows:
                whole = np.concatenate(found, axis=1)
                return whole[0], whole[1]

    def _read(self, batch: EventBatch, columns: dict[str, int], values: AnyArray, nulls: AnyArray) -> None:
        size = batch.size
        for name, number in columns.items():
            column = batch.columns[name]
            values[number, :size] = column.values
            if column.type is AttributeType.STRING:  # codes mark nulls themselves
                nulls[number, :size] = column.values < 0
                continue
            valid = column.valid
            nulls[number, :size] = False if valid is None else ~valid


def _key_of(tests: Iterable[PlainTest]) -> _IndexKey | None:
    """Return the test by which a rule is found.

    A string is preferred, then the interval of a number with both ends, then any interval.
    """
    intervals: dict[tuple[str, bool], _IndexKey] = {}
    for test in tests:
        if isinstance(test.bound, str):
            if test.operator == "==":
                return _IndexKey((test.attribute, False), text=test.bound)
            continue
        if test.operator == "!=" or test.bound != test.bound:
            continue
        column = (test.attribute, test.as_real)
        known = intervals.get(column, _IndexKey(column))
        low = known.low if test.operator in _UPPER else max(known.low, float(test.bound))
        high = known.high if test.operator in _LOWER else min(known.high, float(test.bound))
        intervals[column] = _IndexKey(column, None, low, high)
    return max(intervals.values(), key=_narrowness, default=None)


def _narrowness(key: _IndexKey) -> tuple[bool, bool]:
    ends = np.isfinite(key.low) and np.isfinite(key.high)
    return key.low == key.high, bool(ends)


def _lines(lines: Sequence[tuple[int, ...]], width: int) -> Int64Array:
    return np.array(lines, INT64).reshape(len(lines), width)
