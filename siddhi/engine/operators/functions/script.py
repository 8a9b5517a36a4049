"""Functions that an app defines itself."""

from __future__ import annotations

import copy
import math
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from siddhi.analysis import model
from siddhi.engine.columnar.strings import StringPool
from siddhi.engine.limits import MAX_RESULT_CHARACTERS
from siddhi.engine.operators.expressions.compiler import FUNCTIONS, SCRIPT
from siddhi.engine.operators.expressions.evaluation import ExpressionNode
from siddhi.engine.operators.expressions.operators import NUMERIC
from siddhi.engine.operators.functions.conversion import java_text
from siddhi.engine.operators.functions.rows import Nulls, RowError, RowFunction, TextTooLongError
from siddhi.language.ast import AttributeType
from siddhi.scripts.language import ScriptCalls, ScriptFailure

_WHOLE = frozenset({AttributeType.INT, AttributeType.LONG})


@FUNCTIONS.register(name=SCRIPT[1], namespace=SCRIPT[0])
def script_node(call: model.Call, arguments: tuple[ExpressionNode, ...], pool: StringPool) -> ExpressionNode:
    """Return the node that calls the script of `call`, once for each distinct combination of arguments in a batch."""
    function = call.script
    if function is None:
        raise TypeError(f"'{call.name}' is not a function of the app")
    if call.runner is not None:
        calls = call.runner.function(function.language, function.syntax.body, call.name)
        return RunScript(call, arguments, pool, calls, nulls=Nulls.PASS, title=call.name)
    run = function.make()
    objects = [argument.type is AttributeType.OBJECT for argument in arguments]
    result_type = function.syntax.return_type

    def compute(*given: object) -> object:
        data = [copy.deepcopy(item) if is_object else item for item, is_object in zip(given, objects, strict=True)]
        try:
            return returned(run(data), result_type)
        except RowError:
            raise
        except Exception as error:
            raise RowError(f"{type(error).__name__}: {error}") from error

    # A script may read a clock or random numbers, so its results are not kept for the next batch.
    node = RowFunction(call, arguments, pool, compute=compute, nulls=Nulls.PASS, remembers=False)
    node.title = call.name
    return node


class RunScript(RowFunction):
    """Sends the calls of a batch to a `ScriptRunner` together. A call that is stopped there fails alone."""

    def __init__(
        self,
        call: model.Call,
        arguments: tuple[ExpressionNode, ...],
        pool: StringPool,
        calls: ScriptCalls,
        *,
        nulls: Nulls,
        title: str,
        taken: int | None = None,
    ) -> None:
        """Create the node; the script gets the first `taken` arguments, by default all."""
        super().__init__(call, arguments, pool, compute=self._result, nulls=nulls, remembers=False)
        self._calls = calls
        self._taken = taken
        self.title = title

    def _called(self, calls: Iterable[tuple[Any, ...]], count: int) -> tuple[list[object], dict[int, str]]:
        results: list[object] = [None] * count
        failures: dict[int, str] = {}
        wanted = list(calls)
        places: Sequence[int] = range(count)
        if self.nulls is Nulls.NULL:
            places = [place for place, given in enumerate(wanted) if None not in given]
            wanted = [wanted[place] for place in places]
        if self._taken is not None:
            wanted = [given[: self._taken] for given in wanted]
        for place, answer in zip(places, self._calls(wanted), strict=True):
            try:
                results[place] = self._result(answer)
            except RowError as error:
                failures[place] = f"'{self.title}': {error}"
        return results, failures

    def _result(self, answer: object) -> object:
        """Return the result of a call as a value of the declared type. Raise RowError when there is none."""
        if isinstance(answer, ScriptFailure):
            raise RowError(answer.reason)
        try:
            result = returned(answer, self.type)
        except RowError:
            raise
        except Exception as error:
            raise RowError(f"{type(error).__name__}: {error}") from error
        if isinstance(result, str) and len(result) > MAX_RESULT_CHARACTERS:
            raise TextTooLongError(len(result))
        return result


def returned(result: object, type_: AttributeType) -> object:
    """Return the result of a script as a value of `type_`, or raise `RowError` if it cannot be converted.

    Numbers are converted into each other, to integers by truncation; numbers and bools become text; None is null.
    """
    if result is None:
        return None
    if type_ is AttributeType.OBJECT:
        return _plain(result)
    if type_ is AttributeType.STRING and isinstance(result, bool | int | float | str):
        return java_text(result, AttributeType.DOUBLE)
    if type_ is AttributeType.BOOL and isinstance(result, bool):
        return result
    if type_ in NUMERIC and isinstance(result, int | float) and not isinstance(result, bool):
        return _whole(result, type_) if type_ in _WHOLE else float(result)
    raise RowError(f"it returned a {type(result).__name__}, which is not {type_.value}")


def _whole(result: float, type_: AttributeType) -> int:
    limits = np.iinfo(np.int32 if type_ is AttributeType.INT else np.int64)
    if isinstance(result, float) and not math.isfinite(result):
        raise RowError(f"it returned {result}, which is not {type_.value}")
    number = int(result)
    if not limits.min <= number <= limits.max:
        raise RowError(f"it returned {number}, which is beyond {type_.value}")
    return number


def _plain(item: object) -> object:
    """Return `item` converted to the types that objects may contain: values, lists, dicts and sets."""
    if item is None or isinstance(item, bool | int | float | str):
        return item
    if isinstance(item, list | tuple):
        return [_plain(element) for element in item]
    if isinstance(item, set | frozenset):
        return frozenset(_plain(element) for element in item)
    if isinstance(item, dict):
        return {_plain(key): _plain(value) for key, value in item.items()}
    raise RowError(f"it returned a {type(item).__name__}, which is not an object of a plan")
