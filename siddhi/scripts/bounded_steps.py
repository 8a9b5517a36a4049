"""Limits on a single step of a Python script: steps that could take long are checked before they run.

The interpreter handles signals between the steps of a script, so a timer stops loops. Within a step it does not:
`7 ** 10 ** 9` or `'a' * 10 ** 10` would block the process, and the heartbeats of its stage, until they are done.
So operators and methods whose result can be far larger than their arguments check its size first. A step over a limit
fails like any other error of the script.
"""

from __future__ import annotations

import ast
import math
import operator
import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from RestrictedPython.Guards import full_write_guard, safer_getattr_raise
from RestrictedPython.transformer import RestrictingNodeTransformer

from siddhi.scripts.nested_values import BoundedDict, method, whole

MOST_BITS = 1 << 18
"""Maximum number of bits of an integer: a division, whose time grows with the square, takes milliseconds."""
MOST_BITS_OF_MODULUS = 4_096
"""The same for the numbers in `pow(a, b, c)`, whose time grows with the cube."""
MOST_ITEMS = 4 * 1024 * 1024
"""Maximum number of characters or items of a text, list or tuple that a step creates."""
WIDEST = 100_000
"""Maximum width and precision of a value in a text."""
LONGEST_RANGE = 10_000_000
"""A function that iterates over a longer range in a single step, such as `sum`, could not be stopped."""

Step = Callable[..., Any]
_SEQUENCES = (str, list, tuple)


def _fit_bits(bits: int) -> None:
    if bits > MOST_BITS:
        raise ValueError(f"a number may have {MOST_BITS} bits in a script")


def _fit_items(count: int) -> None:
    if count > MOST_ITEMS:
        raise ValueError(f"a step may make {MOST_ITEMS} characters or items in a script")


_CONVERSION = re.compile(r"%(?:%|(?:\([^()]*\))?[-+ #0]*((?:\d+|\*)?(?:\.(?:\d+|\*)?)?))")
_NESTED_KEY = re.compile(r"%\([^()]*\(")
"""The key of a value may contain parentheses: in that case, the whole text counts as widths."""


def _widths_of(text: str) -> str:
    """Return the widths and precisions of the values that `%` formats into the text, separated by blanks."""
    return text if _NESTED_KEY.search(text) else " ".join(_CONVERSION.findall(text))


def _fit_widths(text: str, values: Iterable[object] = ()) -> None:
    widths = [int(digits) if len(digits) < len(str(WIDEST)) + 1 else WIDEST + 1 for digits in re.findall(r"\d+", text)]
    if "*" in text:
        widths += [abs(value) for value in values if isinstance(value, int)]
    if any(width > WIDEST for width in widths):
        raise ValueError(f"a value in a text may be {WIDEST} characters wide in a script")


def _add(left: Any, right: Any) -> None:
    if isinstance(left, _SEQUENCES) and isinstance(right, _SEQUENCES):
        _fit_items(len(left) + len(right))


def _multiply(left: Any, right: Any) -> None:
    if isinstance(left, _SEQUENCES):
        left, right = right, left
    if isinstance(left, int) and isinstance(right, int):
        _fit_bits(left.bit_length() + right.bit_length())
    elif isinstance(left, int) and isinstance(right, _SEQUENCES):
        _fit_items(left * len(right))


def _power(base: Any, exponent: Any) -> None:
    if isinstance(base, int) and isinstance(exponent, int) and exponent > 0 and abs(base) > 1:
        _fit_bits(base.bit_length() * exponent)


def _shift(left: Any, right: Any) -> None:
    if isinstance(left, int) and isinstance(right, int) and left:
        _fit_bits(left.bit_length() + right)


def _rest(left: Any, right: Any) -> None:
    if isinstance(left, str):
        values = right if isinstance(right, tuple) else right.values() if isinstance(right, dict) else (right,)
        _fit_widths(_widths_of(left), values)
        longest = max((len(value) for value in values if isinstance(value, str)), default=0)
        _fit_items(len(left) + left.count("%") * longest)


_SIGNS: Mapping[type[ast.operator], str] = {
    ast.Add: "+", ast.Mult: "*", ast.Pow: "**", ast.LShift: "<<", ast.Mod: "%",
}  # fmt: skip
_BOUNDS: Mapping[str, Callable[[Any, Any], None]] = {
    "+": _add, "*": _multiply, "**": _power, "<<": _shift, "%": _rest,
}  # fmt: skip
_OPERATORS: Mapping[str, Step] = {
    "+": operator.add, "*": operator.mul, "**": operator.pow, "<<": operator.lshift, "%": operator.mod,
}  # fmt: skip
_IN_PLACE: Mapping[str, Step] = {
    "+=": operator.iadd, "-=": operator.isub, "*=": operator.imul, "/=": operator.itruediv, "%=": operator.imod,
    "**=": operator.ipow, "<<=": operator.ilshift, ">>=": operator.irshift, "|=": operator.ior, "^=": operator.ixor,
    "&=": operator.iand, "//=": operator.ifloordiv,
}  # fmt: skip


def binary(sign: str, left: Any, right: Any) -> Any:
    """Evaluate `left sign right`."""
    _BOUNDS[sign](left, right)
    return _OPERATORS[sign](left, whole(right) if isinstance(left, str) else right)


def in_place(sign: str, left: Any, right: Any) -> Any:
    """Evaluate an augmented assignment to `left`."""
    if (bound := _BOUNDS.get(sign[:-1])) is not None:
        bound(left, right)
    if isinstance(left, str | set | dict):
        whole(right)
    return _IN_PLACE[sign](left, right)


def formatted(value: object, specification: str) -> str:
    """Format `value` as an f-string does."""
    _fit_widths(specification)
    return format(whole(value), specification)


def whole_text(text: str) -> str:
    """Return the result of an f-string, if it is not too long."""
    _fit_items(len(text))
    return text


def whole_items(items: Any) -> Any:
    """Return a list or tuple built from others, if it is not too long."""
    _fit_items(len(items))
    return items


class _BoundedList:
    """A list with a limit on the growth of its slices."""

    def __init__(self, items: list[Any]) -> None:
        self._items = items

    def __setitem__(self, key: Any, value: Any) -> None:
        if isinstance(key, slice):
            value = list(value)
            _fit_items(len(self._items) + len(value))
        self._items[key] = value

    def __delitem__(self, key: Any) -> None:
        del self._items[key]


def written(owner: Any) -> Any:
    """Return the object on which a script sets and deletes items and attributes, in place of `owner`."""
    if isinstance(owner, list):
        return _BoundedList(owner)
    return BoundedDict(owner) if isinstance(owner, dict) else full_write_guard(owner)


def power(base: Any, exp: Any, mod: Any = None) -> Any:
    """Replace `pow`."""
    if mod is None:
        return binary("**", base, exp)
    if any(isinstance(n, int) and n.bit_length() > MOST_BITS_OF_MODULUS for n in (base, exp, mod)):
        raise ValueError(f"`pow` with a modulus takes numbers of {MOST_BITS_OF_MODULUS} bits in a script")
    return pow(base, exp, mod)


def rounded(number: Any, digits: int | None = None) -> Any:
    """Replace `round`."""
    if digits is not None and isinstance(number, int):
        _fit_bits(4 * abs(digits))
    return round(number, digits)


def total(values: Iterable[Any], start: Any = 0) -> Any:
    """Replace `sum`, for numbers only."""
    if not isinstance(start, int | float):
        raise TypeError("`sum` adds numbers in a script")
    return sum(values, start)


def numbers(*bounds: int) -> range:
    """Replace `range`."""
    found = range(*bounds)
    if found[LONGEST_RANGE:]:
        raise ValueError(f"a range may have {LONGEST_RANGE} numbers in a script")
    return found


def _product(values: Iterable[Any], *, start: Any = 1) -> Any:
    for value in values:
        start = binary("*", start, value)
    return start


def _chosen(function: Callable[..., int]) -> Step:
    def choose(n: int, k: int | None = None) -> int:
        _fit_bits(int(n).bit_length() * int(n if k is None else min(k, n)))
        return function(n) if k is None else function(n, k)

    return choose


def _combinations(n: int, k: int) -> int:
    _fit_bits(int(n).bit_length() * max(0, min(int(k), int(n) - int(k))))
    return math.comb(n, k)


def _least_multiple(*values: int) -> int:
    _fit_bits(sum(value.bit_length() for value in values))
    return math.lcm(*values)


_OF_MATH: Mapping[str, Step] = {
    "factorial": _chosen(math.factorial),
    "perm": _chosen(math.perm),
    "comb": _combinations,
    "prod": _product,
    "lcm": _least_multiple,
}


def _widened(text: str, name: str) -> Step:
    def widen(width: int, *more: Any) -> Any:
        _fit_items(width)
        return getattr(text, name)(width, *more)

    return widen


def _replaced(text: str) -> Step:
    def replace(old: str, new: str, count: int = -1) -> str:
        times = text.count(old) if count < 0 else min(text.count(old), count)
        _fit_items(len(text) + times * len(new))
        return text.replace(old, new, count)

    return replace


def _joined(text: str) -> Step:
    def join(parts: Iterable[str]) -> str:
        held = list(parts)
        _fit_items(sum(map(len, held)) + len(text) * len(held))
        return text.join(held)

    return join


def _translated(text: str) -> Step:
    def translate(table: Any) -> str:
        values = table.values() if isinstance(table, dict) else table
        _fit_items(len(text) * max((len(value) for value in values if isinstance(value, str)), default=1))
        return text.translate(table)

    return translate


def _tabs(text: str) -> Step:
    def expand(tabsize: int = 8) -> str:
        _fit_items(len(text) + text.count("\t") * tabsize)
        return text.expandtabs(tabsize)

    return expand


def _extended(items: list[Any]) -> Step:
    def extend(values: Iterable[Any]) -> None:
        more = list(values)
        _fit_items(len(items) + len(more))
        items.extend(more)

    return extend


_WIDTHS = ("ljust", "rjust", "center", "zfill")
_OF_TEXTS: Mapping[str, Callable[[str], Step]] = {
    "replace": _replaced,
    "join": _joined,
    "translate": _translated,
    "expandtabs": _tabs,
}


def attribute(owner: Any, name: str, *default: Any) -> Any:
    """Return `owner.name`, if a script may access it."""
    found = safer_getattr_raise(owner, name, *default)  # type: ignore[no-untyped-call]
    if owner is math:
        return _OF_MATH.get(name, found)
    if isinstance(owner, type) and issubclass(owner, dict) and name == "fromkeys":
        return lambda keys, *more: dict.fromkeys(map(whole, keys), *more)
    if isinstance(owner, type) and (
        name in _OF_TEXTS
        or name in _WIDTHS
        or name in ("extend", "to_bytes")
        or issubclass(owner, list | tuple | dict | set)
    ):
        return lambda value, *more, **named: attribute(value, name)(*more, **named)
    if isinstance(owner, str):
        if name in _WIDTHS:
            return _widened(owner, name)
        return _OF_TEXTS[name](owner) if name in _OF_TEXTS else found
    if isinstance(owner, list) and name == "extend":
        return _extended(owner)
    if isinstance(owner, int) and name == "to_bytes":
        raise AttributeError("a script has no bytes")
    return method(owner, name, found)


class BoundedSteps(RestrictingNodeTransformer):
    """Replaces operators, f-strings and their values, and lists and tuples built from others by checked calls."""

    def visit_BinOp(self, node: ast.BinOp) -> ast.AST:  # noqa: N802 - named after the node
        """Replace an operator whose result can be far larger than its operands."""
        node = self.node_contents_visit(node)
        sign = _SIGNS.get(type(node.op))
        if sign is None:
            return node
        name = ast.Name("_binary_", ast.Load())
        call = ast.Call(func=name, args=[ast.Constant(sign), node.left, node.right], keywords=[])
        return ast.fix_missing_locations(ast.copy_location(call, node))

    def visit_List(self, node: ast.List) -> ast.AST:  # noqa: N802 - named after the node
        """Check the length of a list that is built from others."""
        return self._whole(node)

    def visit_Tuple(self, node: ast.Tuple) -> ast.AST:  # noqa: N802 - named after the node
        """Check the length of a tuple that is built from others."""
        return self._whole(node)

    def _whole(self, node: ast.List | ast.Tuple) -> ast.AST:
        made = isinstance(node.ctx, ast.Load) and any(isinstance(one, ast.Starred) for one in node.elts)
        node = self.node_contents_visit(node)
        if not made:
            return node
        call = ast.Call(func=ast.Name("_items_", ast.Load()), args=[node], keywords=[])
        return ast.fix_missing_locations(ast.copy_location(call, node))

    def visit_Compare(self, node: ast.Compare) -> ast.AST:  # noqa: N802 - named after the node
        """Check values that are compared as a whole."""
        node = self.node_contents_visit(node)
        before = (None, *node.ops)
        after = (*node.ops, None)
        values = [
            self._guarded(value, "_searched_" if isinstance(first, ast.In | ast.NotIn) and last is None else "_whole_")
            for value, first, last in zip((node.left, *node.comparators), before, after, strict=True)
        ]
        if not all(isinstance(one, ast.Is | ast.IsNot) for one in node.ops):
            node.left, node.comparators = values[0], values[1:]
        return ast.fix_missing_locations(node)

    def visit_Set(self, node: ast.Set) -> ast.AST:  # noqa: N802 - named after the node
        """Check values that are hashed."""
        node = self.node_contents_visit(node)
        node.elts = [one if isinstance(one, ast.Starred) else self._guarded(one) for one in node.elts]
        return ast.fix_missing_locations(node)

    def visit_SetComp(self, node: ast.SetComp) -> ast.AST:  # noqa: N802 - named after the node
        """Check values that are hashed."""
        node = self.node_contents_visit(node)
        node.elt = self._guarded(node.elt)
        return ast.fix_missing_locations(node)

    def visit_Dict(self, node: ast.Dict) -> ast.AST:  # noqa: N802 - named after the node
        """Check keys, which are hashed."""
        node = self.node_contents_visit(node)
        node.keys = [None if key is None else self._guarded(key) for key in node.keys]
        return ast.fix_missing_locations(node)

    def visit_DictComp(self, node: ast.DictComp) -> ast.AST:  # noqa: N802 - named after the node
        """Check keys, which are hashed."""
        node = self.node_contents_visit(node)
        node.key = self._guarded(node.key)
        return ast.fix_missing_locations(node)

    def visit_Return(self, node: ast.Return) -> ast.AST:  # noqa: N802 - named after the node
        """Check the returned value, which is written or kept."""
        node = self.node_contents_visit(node)
        if node.value is not None:
            node.value = self._guarded(node.value)
        return ast.fix_missing_locations(node)

    def _guarded(self, value: ast.expr, guard: str = "_whole_") -> ast.expr:
        """Return a call of `guard` with the value, unless it is a constant."""
        if isinstance(value, ast.Constant):
            return value
        return ast.copy_location(ast.Call(ast.Name(guard, ast.Load()), [value], []), value)

    def visit_JoinedStr(self, node: ast.JoinedStr) -> ast.AST:  # noqa: N802 - named after the node
        """Check the length of an f-string."""
        node = self.node_contents_visit(node)
        call = ast.Call(func=ast.Name("_text_", ast.Load()), args=[node], keywords=[])
        return ast.fix_missing_locations(ast.copy_location(call, node))

    def visit_FormattedValue(self, node: ast.FormattedValue) -> ast.AST:  # noqa: N802 - named after the node
        """Replace a value that has a width."""
        node = self.node_contents_visit(node)
        if node.format_spec is None:
            node.value = self._guarded(node.value)
            return ast.fix_missing_locations(node)
        value: ast.expr = node.value
        if node.conversion != -1:
            value = ast.JoinedStr([ast.FormattedValue(self._guarded(value), node.conversion, None)])
        name = ast.Name("_format_", ast.Load())
        call = ast.Call(func=name, args=[value, node.format_spec], keywords=[])
        return ast.fix_missing_locations(ast.copy_location(ast.FormattedValue(call, -1, None), node))
