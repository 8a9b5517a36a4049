"""Expressions: literals, references, calls and operators."""

from __future__ import annotations

import itertools

from lark import Token
from lark.tree import Meta

from siddhi.language import ast
from siddhi.language.ast import AttributeType
from siddhi.language.literals import UNIT_MILLISECONDS, UNITS, number_value, string_value
from siddhi.language.transform.base import TransformerBase, span_of

_UNIT_OF_TOKEN = {"MINUTE": "min", "SECOND": "sec", "MILLISECOND": "millisec"}


def unit_name(token: Token) -> str:
    """Return the canonical name of the unit in a token."""
    return _UNIT_OF_TOKEN.get(token.type, token.type.casefold())


class ExpressionTransformer(TransformerBase):
    """Transforms expressions."""

    def single_expression(self, _meta: Meta, expression: ast.Expression) -> ast.Expression:
        return expression

    def single_time(self, _meta: Meta, time: ast.TimeConstant) -> ast.TimeConstant:
        return time

    # ---- literals ---------------------------------------------------------------------------------------------------

    def number(self, meta: Meta, *tokens: Token) -> ast.Constant:
        number_type = AttributeType(tokens[-1].type.casefold())
        text = "".join(tokens)
        try:
            value = number_value(text, number_type)
        except OverflowError:
            hint = f"write {text}L for a long" if number_type is AttributeType.INT else None
            self._problem("number-out-of-range", f"{text} does not fit in {number_type.value}", meta, hint)
            value = 0
        return ast.Constant(value, number_type, span=span_of(meta))

    def text(self, meta: Meta, token: Token) -> ast.Constant:
        return ast.Constant(string_value(token), AttributeType.STRING, span=span_of(meta))

    def boolean(self, meta: Meta, token: Token) -> ast.Constant:
        return ast.Constant(token.type == "TRUE", AttributeType.BOOL, span=span_of(meta))

    def time_value(self, meta: Meta, *tokens: Token) -> ast.TimeConstant:
        parts = tuple((int(amount), unit_name(unit)) for amount, unit in zip(tokens[::2], tokens[1::2], strict=True))
        order = [UNITS.index(unit) for _, unit in parts]
        if any(earlier >= later for earlier, later in itertools.pairwise(order)):
            hint = "write each unit once, the largest first, as in 1 hour 30 min"
            self._problem("time-units-out-of-order", "the units of a time must fall from large to small", meta, hint)
        milliseconds = sum(amount * UNIT_MILLISECONDS[unit] for amount, unit in parts)
        if milliseconds >= 1 << 63:
            self._problem("number-out-of-range", "this time does not fit in a long of milliseconds", meta)
        return ast.TimeConstant(parts, milliseconds, span=span_of(meta))

    # ---- references -------------------------------------------------------------------------------------------------

    def bare_attribute(self, meta: Meta, name: str) -> ast.Attribute:
        return ast.Attribute(name, span=span_of(meta))

    def qualified_attribute(self, meta: Meta, source: str | ast.SourceReference, name: str) -> ast.Attribute:
        if isinstance(source, str):
            source = ast.SourceReference(source, span=span_of(meta))
        return ast.Attribute(name, source, span=span_of(meta))

    def indexed_source(
        self, meta: Meta, first: Token | str, second: str | ast.EventIndex, index: ast.EventIndex | None = None
    ) -> ast.SourceReference:
        if isinstance(first, Token):  # `#` or `!`, then a name
            inner = first.type == "HASH"
            return ast.SourceReference(str(second), inner=inner, fault=not inner, index=index, span=span_of(meta))
        return ast.SourceReference(first, index=_event_index(second), span=span_of(meta))

    def nested_source(
        self,
        meta: Meta,
        outer: str | ast.SourceReference,
        _hash: Token,
        nested: str,
        nested_index: ast.EventIndex | None = None,
    ) -> ast.SourceReference:
        if isinstance(outer, str):
            outer = ast.SourceReference(outer)
        return ast.SourceReference(
            outer.name, outer.inner, outer.fault, outer.index, nested, nested_index, span=span_of(meta)
        )

    def event_index(
        self, meta: Meta, first: Token, _minus: Token | None = None, back: Token | None = None
    ) -> ast.EventIndex:
        from_last = first.type == "LAST"
        digits = (back or "0") if from_last else first
        offset = int(digits)
        if offset > 0x7FFFFFFF:
            self._problem("number-out-of-range", f"{digits} does not fit in int", meta)
        return ast.EventIndex(offset, from_last)

    # ---- operators and calls ----------------------------------------------------------------------------------------

    def binary(self, meta: Meta, left: ast.Expression, operator: Token, right: ast.Expression) -> ast.Binary:
        return ast.Binary(operator.casefold(), left, right, span=span_of(meta))

    def in_table(self, meta: Meta, operand: ast.Expression, table: str) -> ast.In:
        return ast.In(operand, table, span=span_of(meta))

    def negation(self, meta: Meta, operand: ast.Expression) -> ast.Not:
        return ast.Not(operand, span=span_of(meta))

    def null_check(self, meta: Meta, operand: ast.Attribute | ast.SourceReference | ast.FunctionCall) -> ast.IsNull:
        return ast.IsNull(operand, span=span_of(meta))

    def function_call(
        self, meta: Meta, namespace: str | None, name: str, *arguments: ast.Expression | Token
    ) -> ast.FunctionCall:
        given = tuple(argument for argument in arguments if not isinstance(argument, Token))
        star = len(given) < len(arguments)
        return ast.FunctionCall(namespace or "", name, given, star, span=span_of(meta))


def _event_index(value: object) -> ast.EventIndex | None:
    return value if isinstance(value, ast.EventIndex) else None
