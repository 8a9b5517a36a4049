"""Windows, and the conditions that expression windows take as text."""

from __future__ import annotations

from siddhi.analysis.context import Context
from siddhi.analysis.expression.calls import CallChecker
from siddhi.analysis.expression.scope import Scope, Slot
from siddhi.analysis.expression.walk import has_aggregate
from siddhi.analysis.model import ConstantValue, HandlerCall, Schema, TypedExpression
from siddhi.analysis.problems import Problems
from siddhi.analysis.symbols import Symbols
from siddhi.errors import SiddhiAnalysisError, SiddhiParseError
from siddhi.language import ast
from siddhi.language.ast import EventIndex
from siddhi.language.parser import parse_expression
from siddhi.registry import Declaration, Kind, Registry

_BY_EXPRESSION = frozenset({"expression", "expressionBatch"})


def analyse_window(
    context: Context, call: ast.FunctionCall, slot: Slot, named: Slot | None = None
) -> HandlerCall | None:
    """Return the analysed window `call` over events of `slot`, None when it has problems.

    The window's arguments refer to the events as `named`.
    """
    scope = Scope((named or slot,), own=slot.number, aggregates=False, place="a window's arguments", events=False)
    arguments = context.expressions(scope).analyse_arguments(call)
    declaration = context.calls.find(Kind.WINDOW, call)
    if declaration is None or arguments is None or not context.calls.fits(declaration, call, arguments):
        return None
    condition = _constant_condition(context, declaration, call, arguments, slot)
    return HandlerCall(
        declaration.namespace, declaration.name, arguments, slot.schema, condition=condition, syntax=call
    )


def analyse_window_condition(text: str, schema: Schema, slot: int, registry: Registry) -> TypedExpression:
    """Return the typed condition that `text` says about the events of a window over `schema`, in slot `slot`.

    Plain names refer to the event under test, `first` and `last` (index 0 and last) to the window's ends. Raise
    SiddhiError when the text is not a condition.
    """
    problems, symbols = Problems(), Symbols()
    calls = CallChecker(registry, symbols.functions, problems, dialect_3x=False)
    context = Context(registry, symbols, problems, calls, dialect_3x=False)
    typed = _condition(context, parse_expression(text), Slot(slot, schema.id, schema))
    if typed is None:
        raise SiddhiAnalysisError(problems.all())
    return typed


def spans_keys(call: HandlerCall) -> bool:
    """Return whether the window `call`, in a partition, shares state between the events of all keys.

    The aggregates in an expression are shared, and so is the current text of an expression that is an attribute of the
    events.
    """
    if call.condition is None:
        return not call.namespace and call.name in _BY_EXPRESSION
    return has_aggregate(call.condition)


def _constant_condition(
    context: Context,
    declaration: Declaration,
    call: ast.FunctionCall,
    arguments: tuple[TypedExpression, ...],
    slot: Slot,
) -> TypedExpression | None:
    takes_condition = any(parameter.condition for o in declaration.overloads for parameter in o.parameters[:1])
    if not takes_condition or not isinstance(arguments[0], ConstantValue):
        return None
    inner = Problems()
    try:
        syntax = parse_expression(str(arguments[0].value))
    except SiddhiParseError as error:
        found = error.problems
    else:
        calls = CallChecker(context.registry, context.symbols.functions, inner, dialect_3x=context.dialect_3x)
        inside = Context(context.registry, context.symbols, inner, calls, context.dialect_3x)
        typed = _condition(inside, syntax, slot)
        if typed is not None:
            return typed
        found = inner.all()
    for problem in found:  # positions inside the text are not positions of the app
        message = f"in the expression of '{call.name}': {problem.message}"
        context.problems.add(problem.code, message, call.arguments[0].span, problem.hint)
    return None


def _condition(context: Context, syntax: ast.Expression, slot: Slot) -> TypedExpression | None:
    first = Slot(slot.number, "first", slot.schema, index=EventIndex(0))
    last = Slot(slot.number, "last", slot.schema, index=EventIndex(0, from_last=True))
    scope = Scope((slot, first, last), own=slot.number, place="a window's expression", tables_searched=False)
    return context.expressions(scope).analyse_condition(syntax, "the expression of a window")
