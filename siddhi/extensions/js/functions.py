"""`js:eval` runs where functions in JavaScript do, with their limits."""

from __future__ import annotations

from siddhi.analysis import model
from siddhi.engine.columnar.strings import StringPool
from siddhi.engine.operators.expressions.compiler import FUNCTIONS
from siddhi.engine.operators.expressions.evaluation import ExpressionNode
from siddhi.engine.operators.functions.rows import Nulls, RowError, RowFunction
from siddhi.engine.operators.functions.script import RunScript, returned
from siddhi.scripts.javascript import JAVASCRIPT, JavaScriptError, compile_javascript

_EVALUATE = '"use strict"; return eval(data[0]);'
"""Strict, so that no text leaves variables behind for the next one."""


@FUNCTIONS.register(name="eval", namespace="js")
def eval_node(call: model.Call, arguments: tuple[ExpressionNode, ...], pool: StringPool) -> ExpressionNode:
    """Return the node that evaluates the text of each row; null gives null."""
    if call.runner is not None:
        calls = call.runner.function(JAVASCRIPT, _EVALUATE, "js:eval")
        return RunScript(call, arguments, pool, calls, nulls=Nulls.NULL, title="js:eval", taken=1)
    run = compile_javascript(_EVALUATE)

    def compute(text: object, _type: object) -> object:
        try:
            return returned(run([text]), call.type)
        except JavaScriptError as error:
            raise RowError(str(error)) from error

    return RowFunction(call, arguments, pool, compute=compute, nulls=Nulls.NULL, remembers=False)
