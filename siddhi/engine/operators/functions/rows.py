"""Create function nodes from plain functions, over whole numpy columns or over the values of one row."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from enum import Enum
from functools import partial
from typing import Any, TypeVar

import numpy as np

from siddhi.analysis import model
from siddhi.engine.columnar.hashing import KeyTable, key_bits
from siddhi.engine.columnar.strings import StringPool
from siddhi.engine.jit.arrays import AnyArray, BoolArray, Int64Array
from siddhi.engine.jit.kernels import grown
from siddhi.engine.limits import MAX_RESULT_CHARACTERS
from siddhi.engine.operators.expressions.compiler import FUNCTIONS
from siddhi.engine.operators.expressions.evaluation import (
    Evaluation,
    ExpressionNode,
    Value,
    both_valid,
    broadcast,
    to_column,
)
from siddhi.engine.operators.expressions.leaves import ColumnNode, ConstantNode, StringConstantNode
from siddhi.engine.operators.functions.calls import CallNode, from_list, never_null
from siddhi.engine.operators.functions.conversion import java_text
from siddhi.engine.time_limits import CallLimit, TookTooLongError, call_limit
from siddhi.engine.tuning import MAX_REMEMBERED_RESULTS, MAX_RESULTS_BY_CODE, MAX_SINGLE_CALLS
from siddhi.float_values import written_list
from siddhi.language.ast import AttributeType
from siddhi.nesting import TOO_DEEP, any_nests_too_deeply, nests_too_deeply

OfAll = Callable[..., list[Any] | None]
"""Takes for each argument the list of its values, and returns the results, or None if it cannot."""
_FIRST_ROW: Int64Array = np.zeros(1, dtype=np.int64)
_Given = TypeVar("_Given")
_Made = TypeVar("_Made")


class RowError(ValueError):
    """Raised by the function of a row to reject the event, with the reason."""


class TextTooLongError(RowError):
    """Raised by a row's function whose result would have more than `MAX_RESULT_CHARACTERS` characters."""

    def __init__(self, length: int) -> None:
        super().__init__(f"the result would have {length} characters; a text may have {MAX_RESULT_CHARACTERS}")


class Nulls(Enum):
    """How a function treats a null argument."""

    FAIL = "fail"
    """The row fails."""
    NULL = "null"
    """The result is null, false for a bool."""
    PASS = "pass"  # noqa: S105 - no password
    """The function is called with None."""


class ColumnFunction(CallNode):
    """`compute` over whole numpy arrays, null where an argument is null.

    `compute` gets the arguments as arrays of `operand` (None: each in its own dtype) and returns an array, or an array
    and a mask of the rows that are not null.
    """

    def __init__(
        self,
        call: model.Call,
        arguments: tuple[ExpressionNode, ...],
        pool: StringPool,
        *,
        compute: Callable[..., Any],
        operand: Any = np.float64,
    ) -> None:
        super().__init__(call, arguments, pool)
        self.compute = compute
        self.operand = operand

    def evaluate(self, evaluation: Evaluation) -> Value:
        arrays = []
        valid: BoolArray | None = None
        for argument in self.arguments:
            values, known = broadcast(argument.evaluate(evaluation), evaluation.size)
            arrays.append(values if self.operand is None else values.astype(self.operand, copy=False))
            valid = both_valid(valid, known)
        result = self.compute(*arrays)
        if isinstance(result, tuple):
            result, defined = result
            valid = both_valid(valid, defined)
        value = Value(result, valid)
        return never_null(value, evaluation.size) if self.type is AttributeType.BOOL else value


class _Memory:
    """The results of a function for earlier arguments.

    `known` marks the combinations with a result, which is in `values` and `valid`. `key` identifies what the results
    depend on: which arguments vary, the values of the others, and the version of string codes. A single text is found
    by its code, other combinations in a table.
    """

    def __init__(self, key: object, width: int, made: Value, pool: StringPool | None) -> None:
        self.key = key
        self._table = None if pool is not None else KeyTable(width)
        self._pool = pool
        self.known: BoolArray = np.zeros(0, dtype=np.bool_)
        self.values: AnyArray = np.zeros(0, dtype=made.values.dtype)
        self.valid: BoolArray = np.zeros(0, dtype=np.bool_)
        self.has_nulls = False
        self.rows = 0
        self.count = 0
        """The number of combinations with a result; for a table, the number looked up."""

    def places(self, values: list[Value], size: int) -> Int64Array:
        """Return the index of each row's combination in `known`."""
        self.rows += size
        if self._table is None:
            assert self._pool is not None  # noqa: S101 - one of both is there
            room, places = len(self._pool) + 1, broadcast(values[0], size).values + 1  # null has index 0
        else:
            keys = np.empty((size, len(values)), dtype=np.int64)
            for column, value in enumerate(values):
                keys[:, column] = key_bits(broadcast(value, size).values, value.valid)
            places = self._table.ids(keys)
            room = self.count = self._table.count
        if room > len(self.known):
            self.known = grown(self.known, room, fill=False)
            self.values, self.valid = grown(self.values, room), grown(self.valid, room)
        return places  # type: ignore[no-any-return] # as the values are

    def keep(self, places: Int64Array, made: Value, failed: list[int]) -> None:
        """Store `made` as the results for the combinations `places`, except for those that `failed`."""
        if self._table is None:
            self.count += len(places) - len(failed)
        self.known[places] = True
        self.values[places] = made.values
        self.valid[places] = True if made.valid is None else made.valid
        self.has_nulls = self.has_nulls or made.valid is not None
        self.known[places[failed]] = False


class RowFunction(CallNode):
    """A function `compute` over the values of one row, called once for each distinct combination of them.

    With `remembers` results are cached as long as that saves calls. A `brief` function never takes long, accepts nulls,
    and returns a flat object if no argument is an object. It may have a form `of_all` for many rows at once.

    It gets Python values (None only with `Nulls.PASS`; with `texts` all of them as Java's toString writes them) and
    returns one, None for null, which is false for a bool. `RowError` makes the row fail, and so does an object that
    nests too deeply. Objects are never compared: with one among the arguments every row is computed.
    """

    by_row = True

    def __init__(
        self,
        call: model.Call,
        arguments: tuple[ExpressionNode, ...],
        pool: StringPool,
        *,
        compute: Callable[..., object],
        nulls: Nulls = Nulls.FAIL,
        texts: bool = False,
        remembers: bool = True,
        brief: bool = False,
        of_all: OfAll | None = None,
    ) -> None:
        super().__init__(call, arguments, pool)
        self.compute = compute
        self.nulls = nulls
        self.remembers = remembers and AttributeType.OBJECT not in (self.type, *(node.type for node in arguments))
        self._is_brief = brief and self.nulls is Nulls.PASS
        self._of_all = of_all if self._is_brief else None
        self._may_nest = AttributeType.OBJECT in (node.type for node in arguments)
        self._memory: _Memory | None = None
        self._is_text = [node.type is AttributeType.STRING for node in arguments]
        self._constant_rest = all(
            isinstance(node, ColumnNode | ConstantNode | StringConstantNode) for node in arguments
        )
        """Whether all arguments that do not vary between rows are constants."""
        self.texts = texts
        self.can_fail = True
        self.title = f"{call.namespace}:{call.name}"
        self.shows_floats = self.type is AttributeType.OBJECT or call.namespace == "json"
        """Floats are shown with their own digits, not with those of the double, in objects and texts."""

    def evaluate(self, evaluation: Evaluation) -> Value:
        values = [argument.evaluate(evaluation) for argument in self.arguments]
        if self.remembers:
            changing: list[int] = []
            repeated: list[int] = []
            for place, value in enumerate(values):
                if value.values.ndim or value.valid is not None:
                    same = [other for other in changing if values[other].values is value.values]
                    (repeated if same else changing).append(place)
            if changing:
                return self._finished(self._remembered(evaluation, values, changing, repeated), evaluation.size)
        rows, places = self._distinct(values, evaluation.size)
        made, _ = self._made(evaluation, values, rows, places)
        value = Value(made.values[places], None if made.valid is None else made.valid[places])
        return self._finished(value, evaluation.size)

    def _finished(self, value: Value, size: int) -> Value:
        return never_null(value, size) if self.type is AttributeType.BOOL else value

    def _made(
        self, evaluation: Evaluation, values: list[Value], rows: Int64Array, places: Int64Array
    ) -> tuple[Value, list[int]]:
        """Return the function's values for `rows`, and the rows for which it failed.

        Row i of the batch has the values of `rows[places[i]]`.
        """
        size = evaluation.size
        columns = [
            self._list(argument, value, rows, size) for argument, value in zip(self.arguments, values, strict=True)
        ]
        if self._is_brief and columns:
            made = None if self._of_all is None else self._of_all(*columns)
            try:
                made = list(map(self.compute, *columns)) if made is None else made
            except RowError:  # the loop finds the rows that fail
                made = None
            if made is not None and not self._exceeds(made):
                return broadcast(from_list(made, self.type, self.pool), len(rows)), []
        given = zip(*columns, strict=True) if columns else [()] * len(rows)
        results, failures = self._called(given, len(rows))
        evaluation.fail_each(places, failures)
        return broadcast(from_list(results, self.type, self.pool), len(rows)), list(failures)

    def _called(self, calls: Iterable[tuple[Any, ...]], count: int) -> tuple[list[object], dict[int, str]]:
        """Return the results of `count` calls with these arguments, and the errors of failed ones by position."""
        results: list[object] = [None] * count
        failures: dict[int, str] = {}
        passes_nulls, compute = self.nulls is Nulls.PASS, self.compute
        makes_objects = self.type is AttributeType.OBJECT
        with call_limit() as limit:
            for place, given in enumerate(calls):
                if not passes_nulls and None in given:
                    if self.nulls is Nulls.FAIL:
                        failures[place] = f"argument {given.index(None) + 1} of '{self.title}' is null"
                    continue
                try:
                    try:
                        limit.begin()
                        result = compute(*given)
                        if makes_objects and nests_too_deeply(result):
                            raise RowError(TOO_DEEP)
                    finally:
                        limit.end()
                    if isinstance(result, str) and len(result) > MAX_RESULT_CHARACTERS:
                        raise TextTooLongError(len(result))
                    results[place] = result
                except (RowError, TookTooLongError) as error:
                    failures[place] = f"'{self.title}': {error}"
        return results, failures

    def _exceeds(self, made: list[object]) -> bool:
        """Return whether some results of a brief function may be too long or nest too deeply."""
        if self.type is AttributeType.OBJECT:
            return self._may_nest and any_nests_too_deeply(made)
        if self.type is not AttributeType.STRING:
            return False
        return any(isinstance(one, str) and len(one) > MAX_RESULT_CHARACTERS for one in made)

    def _remembered(
        self, evaluation: Evaluation, values: list[Value], changing: list[int], repeated: list[int]
    ) -> Value:
        """Return the values as `evaluate` does, with a cache for the arguments `changing`.

        The arguments `repeated` have the same values as some of these. Failed calls are repeated.
        """
        size = evaluation.size
        rest = ""
        if not self._constant_rest:
            others = (place for place in range(len(values)) if place not in changing and place not in repeated)
            rest = repr([values[place].values.item() for place in others])  # this makes NaN equal itself
        pool = self.pool
        by_code = len(changing) == 1 and self._is_text[changing[0]] and len(pool) <= MAX_RESULTS_BY_CODE
        key = (pool.generation, tuple(changing), tuple(repeated), rest, by_code)
        memory = self._memory
        if memory is None or memory.key != key or memory.count > MAX_REMEMBERED_RESULTS:
            if memory is not None and memory.key == key:
                self.remembers = memory.rows > 2 * memory.count
            nothing = from_list([], self.type, pool)
            memory = self._memory = _Memory(key, len(changing), nothing, pool if by_code else None)
        places = memory.places([values[place] for place in changing], size)
        known = memory.known[places]
        if not known.all():
            new, rows, inverse = _first_rows(places, np.flatnonzero(~known))
            line: Int64Array = np.full(size, -1, dtype=np.int64)
            line[~known] = inverse
            made, failed = self._made(evaluation, values, rows, line)
            memory.keep(new, made, failed)
        if not memory.has_nulls:
            return Value(memory.values[places])
        valid = memory.valid[places]
        return Value(memory.values[places], None if valid.all() else valid)

    def _distinct(self, values: list[Value], size: int) -> tuple[Int64Array, Int64Array]:
        """Return one row for each distinct combination of arguments.

        Also return the index of its combination for each row of the batch.
        """
        changing = [
            (argument, value)
            for argument, value in zip(self.arguments, values, strict=True)
            if value.values.ndim == 1 or value.valid is not None
        ]
        if not changing and size:
            return np.zeros(1, dtype=np.int64), np.zeros(size, dtype=np.int64)
        objects = any(argument.type is AttributeType.OBJECT for argument in self.arguments)
        if objects or self._of_all is not None or size <= MAX_SINGLE_CALLS:
            return np.arange(size), np.arange(size)
        keys = np.empty((size, len(changing)), dtype=np.int64)
        for column, (_, value) in enumerate(changing):
            keys[:, column] = key_bits(broadcast(value, size).values, value.valid)
        places = KeyTable(len(changing)).ids(keys)
        _, rows = np.unique(places, return_index=True)
        return rows, places

    def _list(self, argument: ExpressionNode, value: Value, rows: Int64Array, size: int) -> list[object]:
        if value.values.ndim == 0 and value.valid is None:  # a constant
            rows, times, size = _FIRST_ROW, len(rows), 1
        else:
            times = 1
        items = to_column(value, argument.type, self.pool, size).take(rows).to_list()
        if self.shows_floats and argument.type is AttributeType.FLOAT:
            items = written_list(items)
        if self.texts:
            items = [java_text(item, argument.type) for item in items]
        return items * times


def _first_rows(places: Int64Array, rows: Int64Array) -> tuple[Int64Array, Int64Array, Int64Array]:
    """Return the distinct `places` of these rows, their first rows, and the index for each row.

    They are in the order of their first rows, so that the first failed row determines the error.
    """
    new, first, inverse = np.unique(places[rows], return_index=True, return_inverse=True)
    order = np.argsort(first)
    rank = np.empty_like(order)
    rank[order] = np.arange(len(order))
    return new[order], rows[first[order]], rank[inverse]


def limited(limit: CallLimit, compute: Callable[[_Given], _Made], given: _Given) -> _Made:
    """Return the result of `compute` for `given`; raise RowError when that takes longer than `limit` allows."""
    try:
        try:
            limit.begin()
            return compute(given)
        finally:
            limit.end()
    except TookTooLongError as error:
        raise RowError(str(error)) from None


def column_function(namespace: str, name: str, compute: Callable[..., Any], operand: Any = np.float64) -> None:
    """Register a function over whole columns as the implementation of `namespace:name`.

    Args:
        namespace: Namespace as declared.
        name: Name as declared.
        compute: Gets one numpy array per argument, each with one value per row of the batch, and must not change them.
            Returns an array of the same length, or an array and a bool mask of the rows that are not null. The result
            is null wherever an argument is null; the result of `compute` there is ignored.
        operand: dtype to which arguments are converted; None leaves each as it is.
    """
    FUNCTIONS.register(name, namespace)(partial(ColumnFunction, compute=compute, operand=operand))


def row_function(
    namespace: str,
    name: str,
    compute: Callable[..., object],
    nulls: Nulls = Nulls.FAIL,
    *,
    texts: bool = False,
    brief: bool = False,
    of_all: OfAll | None = None,
) -> None:
    """Register a function of single values as the implementation of `namespace:name`.

    Args:
        namespace: Namespace as declared.
        name: Name as declared.
        compute: Gets Python values and returns one, None for null. It is called once for each distinct combination of
            arguments, whose result may be reused for later events: it must not depend on anything else. RowError makes
            the event fail (`@OnError`). Calls that take too long are interrupted and fail, too.
        nulls: What to do with a null argument.
        texts: Pass all arguments as text, in the form that Java's `toString` gives.
        brief: Its work is bounded by the size of its arguments, and it makes a flat object if none of these is an
            object: no call is interrupted. With `Nulls.PASS` only.
        of_all: A form of a brief function for many rows at once: it gets for each argument the list of its values, and
            returns the list of results, or None to have `compute` called for each row, as where one of them fails.
    """
    make = partial(RowFunction, compute=compute, nulls=nulls, texts=texts, brief=brief, of_all=of_all)
    FUNCTIONS.register(name, namespace)(make)


def constant_function(namespace: str, name: str, constant: float) -> None:
    """Register a function without arguments that always gives `constant`.

    Args:
        namespace: Namespace of the extension.
        name: Name of the function.
        constant: The value of each call.
    """
    column: AnyArray = np.float64(constant)  # type: ignore[assignment] # a scalar stands for all rows
    FUNCTIONS.register(name, namespace)(partial(ColumnFunction, compute=lambda: column))
