"""`define function f[python]`: a subset of Python, implemented by RestrictedPython.

A script can use `data`, the list of its arguments, the names in `BUILTINS` and `math`; no imports, no names or
attributes that start with an underscore, no state between calls. A script that runs forever in the engine's process is
stopped (`siddhi.engine.time_limits`), and cannot catch that; a single step is limited by `bounded_steps`. Only a
separate process (`siddhi.scripts.process`) limits its use of memory over many steps.
"""

from __future__ import annotations

import ast
import math
import re
import symtable
import textwrap
from collections.abc import Iterator, Mapping
from typing import Any

from RestrictedPython.compile import compile_restricted_function
from RestrictedPython.Guards import (
    guarded_iter_unpack_sequence,
    guarded_unpack_sequence,
)

from siddhi.scripts.bounded_steps import (
    BoundedSteps,
    attribute,
    binary,
    formatted,
    in_place,
    numbers,
    power,
    rounded,
    total,
    whole_items,
    whole_text,
    written,
)
from siddhi.scripts.language import Script, ScriptError, ScriptLanguage
from siddhi.scripts.nested_values import (
    Entries,
    Members,
    Text,
    greatest,
    item,
    least,
    ordered,
    searched,
    whole,
)

_FUNCTION = "script"

BUILTINS: Mapping[str, object] = {
    builtin.__name__: builtin
    for builtin in (
        *(
            abs,
            all,
            any,
            bool,
            chr,
            divmod,
            enumerate,
            float,
            int,
            isinstance,
            len,
            list,
            ord,
        ),
        *(reversed, tuple, zip),
        *(ArithmeticError, Exception, IndexError, KeyError, LookupError, OverflowError, TypeError, ValueError),
        ZeroDivisionError,
    )
} | {
    "dict": Entries, "max": greatest, "min": least, "pow": power, "range": numbers, "round": rounded, "set": Members,
    "sorted": ordered, "str": Text, "sum": total,
}  # fmt: skip
"""The functions that a script may call besides `math`."""

_REFUSED: Mapping[type[ast.AST], str] = {
    ast.Import: "a script cannot import anything; it has `math`",
    ast.ImportFrom: "a script cannot import anything; it has `math`",
    ast.Global: "a script has no global names",
    ast.ClassDef: "a script cannot define classes",
    ast.Yield: "a script returns one value, with `return`",
    ast.YieldFrom: "a script returns one value, with `return`",
    ast.Await: "a script cannot wait",
}
"""Syntax that RestrictedPython would accept, or refuse only at run time."""


def compile_python(body: str) -> Script:
    """Return the function with the body `body` and `data` as its only parameter.

    Raise `ScriptError` when it is not allowed.
    """
    text = _dedented(body)
    try:
        tree = ast.parse(text)
        _check_form(tree)
        _check_names(text, tree)
        result = compile_restricted_function("data", tree, _FUNCTION, policy=BoundedSteps)
    except SyntaxError as error:
        raise ScriptError(error.msg, error.lineno or 1) from error
    except (ValueError, RecursionError, MemoryError) as error:
        raise ScriptError(f"it cannot be read: {error}", 1) from error
    if result.code is None:
        line, message = re.fullmatch(r"Line (\d+): (.*)", result.errors[0], re.DOTALL).groups()  # type: ignore[union-attr]
        raise ScriptError(message, int(line))
    names: dict[str, Any] = {**_names(), "__builtins__": dict(BUILTINS)}
    exec(result.code, names)  # noqa: S102 - defines the function and nothing else; the code was restricted above
    script: Script = names[_FUNCTION]
    return script


def _names() -> dict[str, object]:
    """Return the names that scripts, and their transformed code, refer to."""
    return {
        "math": math,
        "__name__": _FUNCTION,
        "_binary_": binary,
        "_format_": formatted,
        "_text_": whole_text,
        "_getattr_": attribute,
        "_getitem_": item,
        "_whole_": whole,
        "_searched_": searched,
        "_getiter_": iter,
        "_iter_unpack_sequence_": guarded_iter_unpack_sequence,
        "_unpack_sequence_": guarded_unpack_sequence,
        "_items_": whole_items,
        "_write_": written,
        "_inplacevar_": in_place,
        "_apply_": lambda function, *positional, **named: function(*positional, **named),
    }


def _dedented(body: str) -> str:
    """Return `body` without the common indentation of its lines, with the same line numbers."""
    first, _, rest = body.partition("\n")
    return f"{first.strip()}\n{textwrap.dedent(rest)}" if rest else first.strip()


def _check_form(tree: ast.Module) -> None:
    """Raise `ScriptError` when the script uses syntax in `_REFUSED`, or returns nothing."""
    returns = False
    for node in ast.walk(tree):
        if type(node) in _REFUSED:
            raise ScriptError(_REFUSED[type(node)], getattr(node, "lineno", 1))
        if isinstance(node, ast.ExceptHandler) and node.type is None:
            raise ScriptError("a script catches errors by their names, as in `except Exception`", node.lineno)
        if isinstance(node, ast.Try):
            _check_end(node)
        returns = returns or (isinstance(node, ast.Return) and node.value is not None)
    if not returns:
        raise ScriptError("it returns nothing", 1)


def _check_end(guarded: ast.Try) -> None:
    """Raise `ScriptError` when `finally` leaves the script or a loop, which would drop a pending error."""
    for last in guarded.finalbody:
        for node in ast.walk(last):
            if isinstance(node, ast.Return | ast.Break | ast.Continue):
                raise ScriptError("a script cannot leave `finally` with return, break or continue", node.lineno)


def _check_names(text: str, tree: ast.Module) -> None:
    """Raise `ScriptError` when the script refers to an unknown name."""
    body = "\n".join(f" {line}" for line in text.split("\n"))
    try:
        table = symtable.symtable(f"def {_FUNCTION}(data):\n{body}\n", _FUNCTION, "exec")
    except SyntaxError as error:
        raise ScriptError(error.msg, (error.lineno or 2) - 1) from error
    known = {*BUILTINS, "math"}
    for name in _global_names(table.get_children()[0]):
        if name not in known:
            line = _line_of(name, tree)
            raise ScriptError(f"there is no '{name}' in a script; there are data, math, {', '.join(BUILTINS)}", line)


def _global_names(table: symtable.SymbolTable) -> Iterator[str]:
    for symbol in table.get_symbols():
        if symbol.is_global() and symbol.is_referenced():
            yield symbol.get_name()
    for child in table.get_children():
        yield from _global_names(child)


def _line_of(name: str, tree: ast.Module) -> int:
    places = (node.lineno for node in ast.walk(tree) if isinstance(node, ast.Name) and node.id == name)
    return min(places, default=1)


PYTHON = ScriptLanguage("python", compile_python)
