"""Random expressions over typed references."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tools.differential.draw import Draw, optional

NUMBERS = ("int", "long", "float", "double")
_RANKS = {type_: rank for rank, type_ in enumerate(NUMBERS)}
CONSTANTS: Mapping[str, Sequence[str]] = {
    "string": ("'a'", "'b'", "'x'", "''"),
    "int": ("0", "1", "2", "3", "5", "7", "-1"),
    "long": ("0L", "2L", "5L", "1100L", "9007199254740993L"),
    "float": ("0.5f", "2f", "-1.5f"),
    "double": ("0.0", "0.5", "2.5", "-3.25", "10.0"),
    "bool": ("true", "false"),
}


@dataclass(frozen=True, slots=True)
class Ref:
    """Something with a value: how it is written, and its type."""

    text: str
    type: str


Refs = Sequence[Ref]


def of_type(refs: Refs, *types: str) -> list[Ref]:
    """Return the references of these types."""
    return [ref for ref in refs if ref.type in types]


def expression(draw: Draw, refs: Refs, type_: str, depth: int = 2) -> str:
    """Return an expression of exactly that type."""
    own = of_type(refs, type_)
    if depth == 0 or draw.chance(0.35):
        return draw.one(own).text if own and draw.chance(0.85) else draw.one(CONSTANTS[type_])
    match type_:
        case "bool":
            return f"({condition(draw, refs, depth - 1)})" if draw.chance(0.8) else "true"
        case "string":
            return _string(draw, refs, depth - 1)
        case _:
            return _number(draw, refs, type_, depth - 1)


def _number(draw: Draw, refs: Refs, type_: str, depth: int) -> str:
    if draw.chance(0.7):
        narrower = NUMBERS[: _RANKS[type_] + 1]
        sides = [type_, draw.one(narrower)]
        left, right = sides if draw.chance(0.5) else reversed(sides)
        operator = draw.one("+-*/%" if draw.chance(0.3) else "+-*")
        return f"({expression(draw, refs, left, depth)} {operator} {expression(draw, refs, right, depth)})"
    return _call(draw, refs, type_, depth)


def _call(draw: Draw, refs: Refs, type_: str, depth: int) -> str:
    """Return a call of a function that gives the type it takes, or of a conversion."""
    first, second = (expression(draw, refs, type_, depth) for _ in range(2))
    match draw.number(0, 5):
        case 0:
            return f"coalesce({first}, {second})"
        case 1:
            return f"default({first}, {draw.one(CONSTANTS[type_])})"
        case 2:
            return f"ifThenElse({condition(draw, refs, depth)}, {first}, {second})"
        case 3 if type_ in NUMBERS:
            return f"{draw.one(['maximum', 'minimum'])}({first}, {second})"
        case 4 if type_ == "double":
            return draw.one(
                [f"math:abs({first})", f"math:floor({first})", f"math:ceil({first})", f"math:sqrt({first})"]
            )
        case _:
            other = draw.one([one for one in ("int", "long", "float", "double", "string", "bool") if one != type_])
            return f"convert({expression(draw, refs, other, depth)}, '{type_}')"


def _string(draw: Draw, refs: Refs, depth: int) -> str:
    first = expression(draw, refs, "string", depth)
    match draw.number(0, 5):
        case 0:
            return f"str:concat({first}, {expression(draw, refs, 'string', depth)})"
        case 1:
            return f"str:upper({first})"
        case 2:
            return f"str:reverse({first})"
        case _:
            return _call(draw, refs, "string", depth)


def condition(draw: Draw, refs: Refs, depth: int = 1) -> str:
    """Return a condition: an `and`, `or` or `not` of comparisons."""
    if depth and draw.chance(0.35):
        left, right = condition(draw, refs, depth - 1), condition(draw, refs, depth - 1)
        word = draw.one(["and", "and", "or"])
        return f"({left}{optional(f' {word} {right}')})"
    if depth and draw.chance(0.08):
        return f"not ({condition(draw, refs, depth - 1)})"
    return comparison(draw, refs, depth)


def comparison(draw: Draw, refs: Refs, depth: int = 0) -> str:
    """Return a comparison of a reference with another one or with an expression."""
    ref = draw.one(refs)
    if draw.chance(0.06):
        return f"{ref.text} is null"
    if ref.type in CONSTANTS and draw.chance(0.5):
        return constant_comparison(draw, ref)
    if ref.type == "bool":
        return draw.one([f"{ref.text} == {draw.one(['true', 'false'])}", ref.text, f"not {ref.text}"])
    if ref.type == "string":
        return f"{ref.text} {draw.one(['==', '==', '!='])} {expression(draw, refs, 'string', 0)}"
    if ref.type == "object":
        return f"{ref.text} is null"
    other = ref.type if draw.chance(0.7) else draw.one(NUMBERS)
    operator = draw.one(["<", "<=", ">", ">=", ">", "<", "==", "!="])
    return f"{ref.text} {operator} {expression(draw, refs, other, depth)}"


def constant_comparison(draw: Draw, ref: Ref) -> str:
    """Return a comparison of `ref` with a constant that some rows pass."""
    if ref.type == "bool":
        return f"{ref.text} == {draw.one(['true', 'false'])}"
    if ref.type == "string":
        return f"{ref.text} {draw.one(['==', '!=', '!='])} {draw.one(CONSTANTS[ref.type][:3])}"
    return f"{ref.text} {draw.one(['<', '>', '<=', '>=', '!=', '>', '>='])} {draw.one(CONSTANTS[ref.type][:4])}"
