"""The inputs of queries: single streams, joins, patterns and sequences."""

from __future__ import annotations

from dataclasses import replace
from typing import Literal, TypeVar

from lark import Token
from lark.tree import Meta

from siddhi.errors import Problem
from siddhi.language import ast, brackets
from siddhi.language.ast import JoinKind
from siddhi.language.brackets import Form
from siddhi.language.transform.base import TransformerBase, span_of

_Element = TypeVar("_Element", bound=ast.StateElement)
_Count = tuple[int, int]
_Operand = ast.StreamElement | ast.AbsentElement
_JoinTail = tuple[ast.Expression | None, tuple[ast.Expression, ...] | None, ast.Expression | None]
_REPETITIONS: dict[str, _Count] = {"STAR": (0, -1), "PLUS": (1, -1), "QUESTION_MARK": (0, 1)}


class InputTransformer(TransformerBase):
    """Transforms the inputs of queries: streams, joins, patterns and sequences."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self._separators: set[str] = set()  # met since the last state input; children come before their parent
        self._repetitions: list[Problem] = []  # likewise
        self._forms: dict[int, tuple[ast.StateElement, Form]] = {}  # by identity, likewise

    # ---- one source -------------------------------------------------------------------------------------------------

    def plain_source(self, meta: Meta, name: str) -> ast.SingleInput:
        return ast.SingleInput(name, span=span_of(meta))

    def inner_source(self, meta: Meta, _hash: Token, name: str) -> ast.SingleInput:
        return ast.SingleInput(name, inner=True, span=span_of(meta))

    def fault_source(self, meta: Meta, _bang: Token, name: str) -> ast.SingleInput:
        return ast.SingleInput(name, fault=True, span=span_of(meta))

    def source_chain(self, meta: Meta, source: ast.SingleInput, *handlers: ast.Handler) -> ast.SingleInput:
        return replace(source, handlers=handlers, span=span_of(meta))

    def filter(self, meta: Meta, *parts: Token | ast.Expression) -> ast.FilterHandler:
        condition = parts[-1]
        assert not isinstance(condition, Token)  # noqa: S101 - the grammar puts the expression last
        return ast.FilterHandler(condition, span=span_of(meta))

    def stream_function(self, meta: Meta, _hash: Token, call: ast.FunctionCall) -> ast.StreamFunction:
        return ast.StreamFunction(call, span=span_of(meta))

    def window(self, meta: Meta, _hash: Token, call: ast.FunctionCall) -> ast.WindowHandler:
        return ast.WindowHandler(call, span=span_of(meta))

    def anonymous_query(
        self,
        meta: Meta,
        source: ast.Input,
        selection: ast.Selection | None,
        rate: ast.Rate | None,
        output: ast.Return,
    ) -> ast.Query:
        return ast.Query(source, output, selection, rate, span=span_of(meta))

    def anonymous_input(self, meta: Meta, query: ast.Query, *handlers: ast.Handler) -> ast.AnonymousInput:
        return ast.AnonymousInput(query, handlers, span=span_of(meta))

    # ---- joins ------------------------------------------------------------------------------------------------------

    def join_side(self, meta: Meta, source: ast.SingleInput, alias: str | None) -> ast.SingleInput:
        return replace(source, alias=alias, span=span_of(meta))

    def inner_join(self, _meta: Meta) -> JoinKind:
        return JoinKind.INNER

    def left_outer_join(self, _meta: Meta) -> JoinKind:
        return JoinKind.LEFT_OUTER

    def right_outer_join(self, _meta: Meta) -> JoinKind:
        return JoinKind.RIGHT_OUTER

    def full_outer_join(self, _meta: Meta) -> JoinKind:
        return JoinKind.FULL_OUTER

    def bounds(self, _meta: Meta, *bounds: ast.Expression) -> tuple[ast.Expression, ...]:
        return bounds

    def both_join(
        self,
        meta: Meta,
        left: ast.SingleInput,
        kind: JoinKind,
        right: ast.SingleInput,
        on: ast.Expression | None,
        within: tuple[ast.Expression, ...] | None,
        per: ast.Expression | None,
    ) -> ast.JoinInput:
        return _join(meta, left, kind, right, (on, within, per))

    def left_join(
        self,
        meta: Meta,
        left: ast.SingleInput,
        _unidirectional: Token,
        kind: JoinKind,
        right: ast.SingleInput,
        *tail: ast.Expression | None,
    ) -> ast.JoinInput:
        return _join(meta, left, kind, right, tail, "left")  # type: ignore[arg-type]  # lark gives three

    def right_join(
        self,
        meta: Meta,
        left: ast.SingleInput,
        kind: JoinKind,
        right: ast.SingleInput,
        _unidirectional: Token,
        *tail: ast.Expression | None,
    ) -> ast.JoinInput:
        return _join(meta, left, kind, right, tail, "right")  # type: ignore[arg-type]  # lark gives three

    # ---- patterns and sequences -------------------------------------------------------------------------------------

    def exact_count(self, meta: Meta, count: Token) -> _Count:
        return self._checked_count(meta, int(count), int(count))

    def lower_count(self, meta: Meta, lower: Token) -> _Count:
        return self._checked_count(meta, int(lower), -1)

    def range_count(self, meta: Meta, lower: Token, upper: Token) -> _Count:
        return self._checked_count(meta, int(lower), int(upper))

    def upper_count(self, meta: Meta, upper: Token) -> _Count:
        return self._checked_count(meta, 0, int(upper))

    def repetition(self, meta: Meta, token: Token) -> _Count:
        self._repetitions.append(
            Problem(
                "repetition-in-pattern",
                f"'{token}' belongs to sequences",
                "write a count: <0:>, <1:> or <0:1>",
                span_of(meta),
            )
        )
        return _REPETITIONS[token.type]

    def stream_element(
        self, meta: Meta, alias: str | None, source: ast.SingleInput, count: _Count | None
    ) -> ast.StreamElement:
        minimum, maximum = count if count is not None else (None, None)
        element = ast.StreamElement(replace(source, alias=alias), minimum, maximum, span=span_of(meta))
        return self._formed(element, brackets.EVENT)

    def absent_element(
        self, meta: Meta, source: ast.SingleInput, waiting: ast.TimeConstant | None
    ) -> ast.AbsentElement:
        return self._formed(ast.AbsentElement(source, waiting, span=span_of(meta)), brackets.SILENCE)

    def logical_pair(self, meta: Meta, left: _Operand, operator: Token, right: _Operand) -> ast.LogicalElement:
        silent = isinstance(left, ast.AbsentElement) or isinstance(right, ast.AbsentElement)
        pair = ast.LogicalElement(operator.casefold(), left, right, span=span_of(meta))
        return self._formed(pair, brackets.PAIR_WITH_SILENCE if silent else brackets.EVENT)

    def state_group(self, meta: Meta, element: ast.StateElement) -> ast.StateElement:
        form = brackets.in_brackets(self._form(element))
        if isinstance(element, ast.NextElement) and element.within is None:
            inner, within = _lifted_within(element)
            if isinstance(inner, ast.NextElement) and within is not None:
                return self._formed(replace(inner, within=within, span=span_of(meta)), form)
        return self._formed(element, form)

    def state_term(
        self, meta: Meta, every: Token | None, element: ast.StateElement, within: ast.TimeConstant | None
    ) -> ast.StateElement:
        if every is not None:
            form = brackets.every(self._form(element))
            return self._formed(ast.EveryElement(element, within, span=span_of(meta)), form)
        if within is not None:
            return self._formed(ast.NextElement((element,), within, span=span_of(meta)), self._form(element))
        return element

    def arrow_chain(self, meta: Meta, *elements: ast.StateElement) -> ast.NextElement:
        self._separators.add("->")
        form = brackets.chain([self._form(element) for element in elements], sequence=False)
        return self._formed(ast.NextElement(elements, span=span_of(meta)), form)

    def comma_chain(self, meta: Meta, *elements: ast.StateElement) -> ast.NextElement:
        self._separators.add(",")
        form = brackets.chain([self._form(element) for element in elements], sequence=True)
        return self._formed(ast.NextElement(elements, span=span_of(meta)), form)

    def state_input(self, meta: Meta, element: ast.StateElement) -> ast.SingleInput | ast.StateInput:
        if isinstance(element, ast.StreamElement) and element.bare and not self._form(element).grouped:
            self._forms.clear()
            return element.input
        sequence = "," in self._separators
        if self._form(element).bracketed and not self._brackets_may_stand(element, sequence=sequence):
            self.legacy.append(
                Problem(
                    brackets.MISPLACED_BRACKETS,
                    "brackets are not allowed here in this form",
                    "omit brackets that group nothing, and those around the first elements of a sequence",
                    element.span,
                )
            )
        element, within = _lifted_within(element)
        if len(self._separators) > 1:
            self._problem(
                "mixed-pattern-and-sequence",
                "a pattern (->) and a sequence (,) cannot be mixed",
                meta,
                "write two queries: the first inserts into a stream that the second reads",
            )
        elif not sequence:
            self.problems += self._repetitions
        for chain in _inner_bounds(element):
            self.legacy.append(
                Problem(
                    "within-inside-pattern",
                    "within is only allowed at the end of a whole pattern",
                    "only execution plans of the 3.x dialect (@Plan:name) bound parts of a pattern",
                    chain.span,
                )
            )
        self._repetitions.clear()
        self._separators.clear()
        self._forms.clear()
        return ast.StateInput(element, sequence, within, span=span_of(meta))

    def _brackets_may_stand(self, whole: ast.StateElement, *, sequence: bool) -> bool:
        if not sequence:
            return brackets.is_pattern(self._form(whole))
        if self._form(whole).grouped or not isinstance(whole, ast.NextElement):
            return False
        first, *rest = whole.elements
        bare = first.element if isinstance(first, ast.EveryElement) else first
        return brackets.is_sequence(self._form(bare), [self._form(element) for element in rest])

    def _form(self, element: ast.StateElement) -> Form:
        return self._forms[id(element)][1]

    def _formed(self, element: _Element, form: Form) -> _Element:
        self._forms[id(element)] = (element, form)
        return element

    def _checked_count(self, meta: Meta, minimum: int, maximum: int) -> _Count:
        if max(minimum, maximum) > 0x7FFFFFFF:
            self._problem("number-out-of-range", "a count must fit in int", meta)
        return minimum, maximum


def _join(
    meta: Meta,
    left: ast.SingleInput,
    kind: JoinKind,
    right: ast.SingleInput,
    tail: _JoinTail,
    unidirectional: Literal["left", "right"] | None = None,
) -> ast.JoinInput:
    on, within, per = tail
    return ast.JoinInput(left, right, kind, on, unidirectional, within or (), per, span=span_of(meta))


def _lifted_within(element: ast.StateElement) -> tuple[ast.StateElement, ast.TimeConstant | None]:
    """Return `element` without the bound at its very end, and that bound.

    In `a -> b within t` the bound applies to the whole pattern, not just to `b`.
    """
    if isinstance(element, ast.EveryElement):
        return replace(element, within=None), element.within
    if isinstance(element, ast.NextElement):
        if element.within is not None:
            rest = element.elements[0] if len(element.elements) == 1 else replace(element, within=None)
            return rest, element.within
        last = element.elements[-1]
        if isinstance(last, ast.EveryElement) or (isinstance(last, ast.NextElement) and len(last.elements) == 1):
            last, within = _lifted_within(last)
            if within is not None:
                return replace(element, elements=(*element.elements[:-1], last)), within
    return element, None


def _inner_bounds(element: ast.StateElement) -> list[ast.NextElement | ast.EveryElement]:
    found: list[ast.NextElement | ast.EveryElement] = []
    waiting: list[ast.StateElement] = [element]
    while waiting:
        current = waiting.pop()
        if isinstance(current, ast.NextElement | ast.EveryElement):
            if current.within is not None:
                found.append(current)
            waiting.extend(current.elements if isinstance(current, ast.NextElement) else (current.element,))
    return found
