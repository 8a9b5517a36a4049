"""Find filters of patterns that no event can pass, as far as the text alone shows it."""

from __future__ import annotations

import itertools
import operator
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from siddhi.language import ast

_SWAPPED = {"==": "==", "!=": "!=", "<": ">", "<=": ">=", ">": "<", ">=": "<="}
_ARITHMETIC = frozenset("+-*/%")
_COMPARE: dict[str, Callable[[Any, Any], bool]] = {
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


@dataclass(frozen=True, slots=True)
class UnmetFilter:
    """The reason why no event passes a filter, a hint, and the condition's position."""

    reason: str
    hint: str
    place: ast.Span


@dataclass(frozen=True, slots=True)
class _Comparison:
    """A comparison of an attribute of the event itself with a constant: `name sign value`, from `condition`."""

    name: str
    sign: str
    value: Any
    condition: ast.Expression

    def holds(self, value: Any) -> bool:
        """Return whether `value` meets the condition; texts and numbers cannot be ordered."""
        if _is_number(value) is not _is_number(self.value):
            return self.sign == "!="
        return _COMPARE[self.sign](value, self.value)


def unmet_filter(source: ast.SingleInput) -> UnmetFilter | None:
    """Return the reason why no event passes the filters of a pattern's element; None when one may."""
    parts = [
        part
        for handler in source.handlers
        if isinstance(handler, ast.FilterHandler)
        for part in _conjuncts(handler.condition)
    ]
    for part in parts:
        if _is_false(part):
            return UnmetFilter("its condition is always false", "change the condition", part.span)
        if _asks_for_former_event(part, source):
            former = f"{source.alias}[last]"
            reason = f"its first event is compared with the one before it, {former}, which does not exist yet"
            return UnmetFilter(reason, f"compare only after '{former}.… is null or'", part.span)
    return _contradiction(parts, source)


def _conjuncts(condition: ast.Expression) -> Iterator[ast.Expression]:
    if isinstance(condition, ast.Binary) and condition.operator == "and":
        yield from _conjuncts(condition.left)
        yield from _conjuncts(condition.right)
    else:
        yield condition


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _is_false(part: ast.Expression) -> bool:
    if isinstance(part, ast.Constant):
        return part.value is False
    if not (isinstance(part, ast.Binary) and part.operator in _COMPARE):
        return False
    left, right = part.left, part.right
    if not (isinstance(left, ast.Constant) and isinstance(right, ast.Constant)):
        return False
    return not _Comparison("", part.operator, right.value, part).holds(left.value)


def _asks_for_former_event(part: ast.Expression, source: ast.SingleInput) -> bool:
    """Return whether `part` compares with an event that the element accepted before the current one.

    For the first event that value is null, and a comparison with null is false except for `!=`.
    """
    if source.alias is None or not (isinstance(part, ast.Binary) and part.operator in _COMPARE):
        return False
    return part.operator != "!=" and any(
        leaf.source is not None
        and leaf.source.name == source.alias
        and leaf.source.index is not None
        and (leaf.source.index.from_last or leaf.source.index.offset > 0)
        for side in (part.left, part.right)
        for leaf in _attributes(side)
    )


def _attributes(expression: ast.Expression) -> Iterator[ast.Attribute]:
    """Yield the attributes that make `expression` null when they are null."""
    if isinstance(expression, ast.Attribute):
        yield expression
    elif isinstance(expression, ast.Binary) and expression.operator in _ARITHMETIC:
        yield from _attributes(expression.left)
        yield from _attributes(expression.right)


def _contradiction(parts: Sequence[ast.Expression], source: ast.SingleInput) -> UnmetFilter | None:
    about: dict[str, list[_Comparison]] = {}
    for part in parts:
        comparison = _of_own_attribute(part, source)
        if comparison is None:
            continue
        together = about.setdefault(comparison.name, [])
        together.append(comparison)
        if not any(all(one.holds(value) for one in together) for value in _samples(together)):
            first, last = together[0].condition.span, comparison.condition.span
            place = replace(last, line=first.line, column=first.column, start=first.start)
            return UnmetFilter(f"no value of '{comparison.name}' meets its conditions", "change the conditions", place)
    return None


def _of_own_attribute(part: ast.Expression, source: ast.SingleInput) -> _Comparison | None:
    if not (isinstance(part, ast.Binary) and part.operator in _COMPARE):
        return None
    left, right, sign = part.left, part.right, part.operator
    if isinstance(left, ast.Constant):
        left, right, sign = right, left, _SWAPPED[sign]
    if not (isinstance(left, ast.Attribute) and isinstance(right, ast.Constant)):
        return None
    own = source.alias or source.source
    if left.source is not None and (left.source.name != own or left.source.index is not None):
        return None
    return _Comparison(left.name, sign, right.value, part)


def _samples(comparisons: Sequence[_Comparison]) -> Iterator[Any]:
    """Return the constants in `comparisons` and values around them; if any value meets all, one of these does."""
    named = [one.value for one in comparisons]
    numbers = sorted(value for value in named if _is_number(value))
    if not numbers:
        yield from (*named, not named[0] if isinstance(named[0], bool) else "".join(map(str, named)) + "?")
        return
    yield from (numbers[0] - 1, *numbers, numbers[-1] + 1)
    yield from ((low + high) / 2 for low, high in itertools.pairwise(numbers))
