"""`expression('…')` and `expressionBatch('…')`: windows of events for which an expression over the window is true.

    expression('count() <= 2')         in   a    b    c            d
                                       out  +a   +b   -a +c        -b +d
    expressionBatch('count() <= 2')    out  ·    ·    +a +b        ·

Plain names in the expression refer to the current event, `first` and `last` to the ends of the window; aggregates run
over the events of the window.
"""

from __future__ import annotations

from siddhi.analysis import model
from siddhi.analysis.expression.walk import walk
from siddhi.engine.operators.base.choices import NotApplicable
from siddhi.engine.operators.expressions.compiler import ExpressionCompiler
from siddhi.engine.operators.expressions.leaves import scalar_or_none
from siddhi.engine.operators.expressions.register_program import NoProgramError
from siddhi.engine.operators.windows.base.window import WINDOWS, WindowContext, WindowOperator
from siddhi.engine.operators.windows.by_expression.per_event import ExpressionBatchWindow, ExpressionWindow
from siddhi.engine.operators.windows.by_expression.program import ConditionProgram
from siddhi.engine.operators.windows.by_expression.window import CompiledExpressionWindow

_NAME = "CompiledExpressionWindow"


@WINDOWS.register("expression")
def expression(context: WindowContext) -> WindowOperator:
    """Return the sliding window: the oldest events leave until the expression is true.

    The new event itself may leave at once.
    """
    made = _compiled(context, batches=False)
    return context.operator.choices.applicable("input", _NAME, made) or ExpressionWindow(context)


@WINDOWS.register("expressionBatch")
def expression_batch(context: WindowContext) -> WindowOperator:
    """Return the window of batches, each ended by an event for which the expression is false."""
    made = _compiled(context, batches=True)
    return context.operator.choices.applicable("input", _NAME, made) or ExpressionBatchWindow(context)


def _compiled(context: WindowContext, *, batches: bool) -> CompiledExpressionWindow | NotApplicable:
    call = context.call
    if call.condition is None:
        return NotApplicable("the expression comes with the events")
    compiler = ExpressionCompiler(context.operator)
    try:
        program = ConditionProgram(call.condition, compiler)
    except NoProgramError as error:
        return NotApplicable(f"the expression of the window: {error}")
    _, *options = context.arguments()
    including = options[0] if options else None
    if including is not None and (including.can_fail or including.stateful or _varies(call.arguments[1])):
        return NotApplicable("whether a batch includes the event that ends it may fail or varies")
    columns = {**context.columns, **compiler.columns}
    context.compiler.columns.update(compiler.columns)
    kept = WindowContext(call, context.operator, columns, context.expired, context.compiler, (), context.shows_expired)
    streaming = len(options) > 1 and bool(scalar_or_none(options[1]))
    return CompiledExpressionWindow(kept, program, batches=batches, including=including, streaming=streaming)


def _varies(expression: model.TypedExpression) -> bool:
    """Return whether `expression` calls a function with varying results."""
    return any(isinstance(part, model.Call) and not part.arguments for part in walk(expression))
