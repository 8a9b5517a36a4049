"""Type expressions: each syntax node becomes a typed node, or a problem."""

from __future__ import annotations

from dataclasses import replace

from siddhi.analysis.expression.calls import CallChecker
from siddhi.analysis.expression.scope import Scope
from siddhi.analysis.expression.types import arithmetic_type, comparison_type, is_number
from siddhi.analysis.model import (
    Aggregate,
    Arithmetic,
    AttributeValue,
    Comparison,
    ConstantValue,
    EventReference,
    InTable,
    IsEmptySlot,
    IsNullValue,
    Logical,
    Negation,
    OutputValue,
    TypedExpression,
)
from siddhi.analysis.problems import Problems
from siddhi.analysis.symbols import Symbols
from siddhi.errors import did_you_mean
from siddhi.language import ast
from siddhi.language.ast import AttributeType

_ARITHMETIC = frozenset("+-*/%")
_ORDERS = frozenset(["<", "<=", ">", ">="])


class ExpressionAnalyser:
    """Types the expressions of one scope. Every method returns None after it has recorded a problem."""

    def __init__(self, scope: Scope, symbols: Symbols, calls: CallChecker, problems: Problems) -> None:
        """Create the analyser of one scope's expressions.

        Args:
            scope: The attributes that expressions may name.
            symbols: The definitions of the app.
            calls: Checks calls.
            problems: Receives the problems found.
        """
        self.scope = scope
        self._symbols = symbols
        self._calls = calls
        self._problems = problems

    def analyse(self, expression: ast.Expression | ast.SourceReference) -> TypedExpression | None:
        """Return the typed form of `expression`."""
        match expression:
            case ast.Constant():
                return ConstantValue(expression.value, expression.type)
            case ast.TimeConstant():
                return ConstantValue(expression.milliseconds, AttributeType.LONG)
            case ast.Attribute():
                return self.scope.resolve(expression, self._problems)
            case ast.SourceReference():
                return self._event(expression, self.scope)
            case ast.FunctionCall():
                return self._call(expression)
            case ast.Binary():
                return self._binary(expression)
            case _:
                return self._test(expression)

    def analyse_condition(self, expression: ast.Expression, place: str) -> TypedExpression | None:
        """Return the typed form of `expression`, which must be a bool; `place` names it in messages (`the filter`)."""
        typed = self.analyse(expression)
        if typed is not None and typed.type is not AttributeType.BOOL:
            self._problems.add("not-a-condition", f"{place} must be a bool, not {typed.type.value}", expression.span)
            return None
        return typed

    def analyse_test(self, expression: ast.Expression, place: str, code: str) -> TypedExpression | None:
        """Return the typed test, as `analyse_condition` does.

        As in Siddhi it must not be a bare attribute, constant or aggregate; for these the problem is `code`.
        """
        typed = self.analyse_condition(expression, place)
        if isinstance(typed, AttributeValue | OutputValue | ConstantValue | Aggregate):
            written = expression.name if isinstance(expression, ast.Attribute) else "…"
            message = f"{place} must be a comparison, a test or a function"
            self._problems.add(code, message, expression.span, f"write `{written} == true`")
            return None
        return typed

    def analyse_arguments(self, call: ast.FunctionCall) -> tuple[TypedExpression, ...] | None:
        """Return the typed arguments of a call; `*` means all attributes of the single input, or of all inputs."""
        typed = self._all_attributes(call) if call.star else [self._argument(argument) for argument in call.arguments]
        found = tuple(argument for argument in typed if argument is not None)
        return found if len(found) == len(typed) else None

    def _all_attributes(self, call: ast.FunctionCall) -> list[TypedExpression | None]:
        own = [slot for slot in self.scope.slots if slot.number == self.scope.own]
        if own:
            attributes = own[0].schema.attributes
            return [AttributeValue(own[0].number, name, attribute_type) for name, attribute_type in attributes]
        names = [name for slot in self.scope.slots for name in slot.schema.names()]
        return [self.scope.resolve(ast.Attribute(name, span=call.span), self._problems) for name in names]

    def _argument(self, argument: ast.Expression | ast.SourceReference) -> TypedExpression | None:
        if not isinstance(argument, ast.Attribute) or argument.source is not None or not self.scope.events:
            return self.analyse(argument)
        event = None
        if not self._names_attribute(argument.name):
            event = self.scope.event(ast.SourceReference(argument.name, span=argument.span), self._problems)
        return event if event is not None else self.analyse(argument)

    def _names_attribute(self, name: str) -> bool:
        schemas = [self.scope.output, *(slot.schema for slot in self.scope.slots)]
        return any(schema is not None and name in schema for schema in schemas)

    def _event(self, reference: ast.SourceReference, scope: Scope) -> EventReference | None:
        if scope.slot_of(reference) is None:
            hint = did_you_mean(reference.name, [slot.reference for slot in scope.slots])
            self._problems.add(
                "unknown-reference", f"there is nothing named '{reference.name}' here", reference.span, hint
            )
            return None
        return scope.event(reference, self._problems)

    def _call(self, call: ast.FunctionCall) -> TypedExpression | None:
        arguments = self.analyse_arguments(call)
        return self._calls.check(call, arguments, aggregates=self.scope.aggregates, place=self.scope.place)

    def _binary(self, expression: ast.Binary) -> TypedExpression | None:
        left, right = self.analyse(expression.left), self.analyse(expression.right)
        if left is None or right is None:
            return None
        operator = expression.operator
        if operator in _ARITHMETIC:
            result = arithmetic_type(left.type, right.type)
            if result is not None:
                return Arithmetic(operator, left, right, result)
            verb, code = "calculate with", "not-a-number"
        elif operator in {"and", "or"}:
            for side, syntax in ((left, expression.left), (right, expression.right)):
                hint = "a time has no `and`: 1 hour 30 min" if isinstance(syntax, ast.TimeConstant) else None
                self._require_bool(side, syntax, f"an operand of `{operator}`", hint)
            if left.type is right.type is AttributeType.BOOL:
                return Logical(operator, left, right)
            return None
        else:
            operands = comparison_type(operator, left.type, right.type)
            if operands is not None:
                return Comparison(operator, left, right, operands)
            verb, code = "compare", "not-comparable"
        self._problems.add(
            code,
            f"'{operator}' cannot {verb} {left.type.value} and {right.type.value}",
            expression.span,
            _common_type(operator, left, right),
        )
        return None

    def _test(self, expression: ast.Not | ast.IsNull | ast.In) -> TypedExpression | None:
        if isinstance(expression, ast.Not):
            operand = self.analyse(expression.operand)
            if operand is None:
                return None
            hint = "`not` binds tightest: write `not (…)`"
            if self._require_bool(operand, expression.operand, "the operand of `not`", hint):
                return Negation(operand)
            return None
        if isinstance(expression, ast.IsNull):
            return self._is_null(expression)
        return self._in_table(expression)

    def _is_null(self, expression: ast.IsNull) -> TypedExpression | None:
        operand = expression.operand
        if isinstance(operand, ast.Attribute) and operand.source is None:
            # As in Siddhi, an input takes precedence over an attribute of the same name, unless it comes later in the
            # text.
            reference = ast.SourceReference(operand.name, span=operand.span)
            slot = self.scope.by_alias().slot_of(reference)
            if slot is not None and not (slot.hidden and self._names_attribute(operand.name)):
                operand = reference
        elif isinstance(operand, ast.SourceReference) and self._means_attribute(operand):
            operand = ast.Attribute(operand.name, span=operand.span)
        if isinstance(operand, ast.SourceReference):
            event = self._event(operand, self.scope.by_alias())
            return IsEmptySlot(event.slot, event.index) if event is not None else None
        typed = self.analyse(operand)
        return IsNullValue(typed) if typed is not None else None

    def _means_attribute(self, reference: ast.SourceReference) -> bool:
        """Return whether `name` in `name[1]` or `!name`, which no input has, means an attribute, as in Siddhi."""
        known = reference.inner or self.scope.by_alias().slot_of(reference) is not None
        return not known and self._names_attribute(reference.name)

    def _in_table(self, expression: ast.In) -> TypedExpression | None:
        table = self._symbols.tables.get(expression.table)
        if not self.scope.tables_searched:
            self._problems.add("in-not-here", f"`in` is not allowed in {self.scope.place}", expression.span)
            return None
        if table is None:
            if expression.table not in self._symbols.broken:
                hint = did_you_mean(expression.table, self._symbols.tables)
                self._problems.add("unknown-table", f"there is no table '{expression.table}'", expression.span, hint)
            return None
        scope = replace(self.scope.by_alias(), tables=(table.schema, *self.scope.tables), loose=False)
        inner = ExpressionAnalyser(scope, self._symbols, self._calls, self._problems)
        condition = inner.analyse(expression.operand)
        return InTable(condition, expression.table) if condition is not None else None

    def _require_bool(
        self, typed: TypedExpression, syntax: ast.Expression, place: str, hint: str | None = None
    ) -> bool:
        if typed.type is AttributeType.BOOL:
            return True
        self._problems.add("not-a-condition", f"{place} must be a bool, not {typed.type.value}", syntax.span, hint)
        return False


def _common_type(operator: str, left: TypedExpression, right: TypedExpression) -> str | None:
    """Return a hint how two operands of different types can be combined."""
    types = {left.type, right.type}
    if AttributeType.STRING in types and any(map(is_number, types)):
        return "convert one of them, as in convert(…, 'double')"
    if operator in _ORDERS and types <= {AttributeType.STRING, AttributeType.BOOL}:
        return "strings and bools support only `==` and `!=`"
    return None
