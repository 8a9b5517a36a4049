"""Cache machine code on disk, with a stamp that covers all sources it was compiled from.

numba keeps compiled functions on disk, and discards them when the function's own file changes. But the machine code
depends on more files:

    run_pattern ──calls──▶ advance ──calls──▶ link            constants   NONE, HEAD, …
    (pattern_loop.py)      (advance.py)       (lists.py)                  (memory.py)

Here the stamp of a cached function covers the files of all functions that it calls, directly or not, the files of the
classes and modules that it names, and the constants that it reads.
"""

from __future__ import annotations

import hashlib
import inspect
from collections.abc import Callable, Iterator
from types import CodeType, ModuleType
from typing import Any

import numpy as np
from numba.core.caching import CompileResultCacheImpl, FunctionCache


def keep_on_disk(dispatcher: Any) -> Any:
    """Let `dispatcher` (of `numba.njit`) load its machine code from disk as long as its sources are unchanged.

    All names that the function uses must be defined by then, so callees precede their callers.
    """
    dispatcher._cache = _KernelCache(dispatcher.py_func)  # type: ignore[no-untyped-call] # numba is half typed
    return dispatcher


def source_stamp(function: Callable[..., Any]) -> str:
    """Return a hash of everything that the machine code of `function` is compiled from, except its own file."""
    parts: set[str] = set()
    waiting, known = [function], {function}
    while waiting:
        for name, value in _globals_of(waiting.pop()):
            callee = getattr(value, "py_func", None) or getattr(value, "_defn", None)  # `_defn` of an intrinsic
            if callee is not None:
                parts.add(_hash_of(callee))
                if callee not in known:
                    known.add(callee)
                    waiting.append(callee)
            elif isinstance(value, bool | int | float | str | tuple | np.generic):
                parts.add(f"{name}={value!r}")
            elif isinstance(value, type | ModuleType) and _is_ours(value, function):
                parts.add(_hash_of(value))
    return hashlib.sha256("\n".join(sorted(parts)).encode()).hexdigest()


def _globals_of(function: Callable[..., Any]) -> Iterator[tuple[str, Any]]:
    """Yield the module-level names that `function` and its inner functions read, with their values."""
    codes = [function.__code__]
    while codes:
        code = codes.pop()
        codes.extend(constant for constant in code.co_consts if isinstance(constant, CodeType))
        for name in code.co_names:
            if name in function.__globals__:
                yield name, function.__globals__[name]


def _is_ours(named: type | ModuleType, function: Callable[..., Any]) -> bool:
    """Return whether it belongs to the package of `function`; numpy and numba only change with their versions."""
    module = named.__name__ if isinstance(named, ModuleType) else named.__module__
    return module.partition(".")[0] == function.__module__.partition(".")[0]


def _hash_of(thing: Any) -> str:
    with open(inspect.getfile(thing), "rb") as file:
        return hashlib.sha256(file.read()).hexdigest()


class _WithCallees:
    """Extends numba's cache locators by a stamp that covers all sources."""

    def __init__(self, function: Callable[..., Any], file: str) -> None:
        super().__init__(function, file)  # type: ignore[call-arg] # the locator that comes next
        self._function = function

    def get_source_stamp(self) -> tuple[object, str]:
        return super().get_source_stamp(), source_stamp(self._function)  # type: ignore[misc]


class _KernelCacheImpl(CompileResultCacheImpl):
    _locator_classes: Any = [  # noqa: RUF012 - as numba has it
        type(locator.__name__, (_WithCallees, locator), {}) for locator in CompileResultCacheImpl._locator_classes
    ]


class _KernelCache(FunctionCache):
    _impl_class = _KernelCacheImpl
