"""Print expressions, with no more parentheses than needed."""

from __future__ import annotations

from siddhi.language import ast
from siddhi.language.ast import AttributeType
from siddhi.language.literals import name_text, number_text, string_text

_LEVELS = {
    "or": 1,
    "and": 2,
    "in": 3,
    "==": 4,
    "!=": 4,
    "<": 5,
    "<=": 5,
    ">": 5,
    ">=": 5,
    "+": 6,
    "-": 6,
    "*": 7,
    "/": 7,
    "%": 7,
}
_ABBREVIATIONS = frozenset({"min", "sec", "millisec"})
_NOT_LEVEL = 8
_LEAF_LEVEL = 9


def print_expression(expression: ast.Expression | ast.SourceReference) -> str:
    """Return the expression as text."""
    return _print(expression)[0]


def print_attribute(attribute: ast.Attribute) -> str:
    """Return an attribute reference, such as `e1[last - 1].price`."""
    name = name_text(attribute.name)
    return f"{_source(attribute.source)}.{name}" if attribute.source is not None else name


def print_call(call: ast.FunctionCall) -> str:
    """Return a call of a function, window or stream function."""
    namespace = f"{name_text(call.namespace)}:" if call.namespace else ""
    arguments = "*" if call.star else ", ".join(print_expression(argument) for argument in call.arguments)
    return f"{namespace}{name_text(call.name)}({arguments})"


def print_time(time: ast.TimeConstant) -> str:
    """Return a time, such as `1 min 30 sec`."""
    return " ".join(f"{amount} {_unit(unit, amount)}" for amount, unit in time.parts)


def _unit(unit: str, amount: int) -> str:
    return unit if amount == 1 or unit in _ABBREVIATIONS else f"{unit}s"


def _print(expression: ast.Expression | ast.SourceReference) -> tuple[str, int]:
    """Return the text and its precedence."""
    match expression:
        case ast.Constant():
            return _constant(expression), _LEAF_LEVEL
        case ast.TimeConstant():
            return print_time(expression), _LEAF_LEVEL
        case ast.Attribute():
            return print_attribute(expression), _LEAF_LEVEL
        case ast.SourceReference():
            return _source(expression), _LEAF_LEVEL
        case ast.FunctionCall():
            return print_call(expression), _LEAF_LEVEL
        case ast.IsNull():
            return f"{_print(expression.operand)[0]} is null", _LEAF_LEVEL
        case ast.Not():
            return f"not {_at_level(expression.operand, _NOT_LEVEL)}", _NOT_LEVEL
        case ast.In():
            level = _LEVELS["in"]
            return f"{_at_level(expression.operand, level)} in {name_text(expression.table)}", level
        case ast.Binary():
            level = _LEVELS[expression.operator]
            left, right = _at_level(expression.left, level), _at_level(expression.right, level + 1)
            return f"{left} {expression.operator} {right}", level


def _at_level(expression: ast.Expression, level: int) -> str:
    text, own = _print(expression)
    return text if own >= level else f"({text})"


def _constant(constant: ast.Constant) -> str:
    if constant.type is AttributeType.STRING:
        return string_text(str(constant.value))
    if constant.type is AttributeType.BOOL:
        return "true" if constant.value else "false"
    return number_text(
        float(constant.value) if isinstance(constant.value, float) else int(constant.value), constant.type
    )


def _source(source: ast.SourceReference) -> str:
    prefix = "#" if source.inner else "!" if source.fault else ""
    nested = f"#{name_text(source.nested)}{_index(source.nested_index)}" if source.nested is not None else ""
    return f"{prefix}{name_text(source.name)}{_index(source.index)}{nested}"


def _index(index: ast.EventIndex | None) -> str:
    if index is None:
        return ""
    if not index.from_last:
        return f"[{index.offset}]"
    return f"[last - {index.offset}]" if index.offset else "[last]"
