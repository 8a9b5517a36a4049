"""Declare and call compiled loops over state."""

from __future__ import annotations

from typing import Any

import numba
import numpy as np

from siddhi.engine.jit.arrays import AnyArray, BoolArray, Int64Array
from siddhi.engine.jit.kernel_cache import keep_on_disk

NO_MASK: BoolArray = np.zeros(0, dtype=np.bool_)
"""Replaces None where a kernel takes a mask."""


# A loop that allocates nothing need not count references to the arrays that it passes around, which would take most of
# the time. The option has no public name. Numbers are divided as in numpy, which raises no exception.
_NO_COUNTS: dict[str, Any] = {"_nrt": False, "error_model": "numpy", "no_cfunc_wrapper": True}
_PART: dict[str, Any] = {**_NO_COUNTS, "no_cpython_wrapper": True}


def kernel(function: Any) -> Any:
    """Compile `function` with numba, once per machine: the machine code is cached on disk beside the module.

    A kernel takes arrays from `kernel_array`, so that one compiled version serves every plan.
    """
    return keep_on_disk(numba.njit(function))


def state_kernel(function: Any) -> Any:
    """As `kernel`, for a loop over state arrays that allocates nothing and calls `kernel_part`s.

    Pass arrays one by one: a tuple of them costs microseconds for each call.
    """
    return keep_on_disk(numba.njit(**_NO_COUNTS)(function))


def long_kernel(function: Any) -> Any:
    """As `state_kernel`, for a long-running loop that releases the interpreter lock.

    Its arrays must not change meanwhile.
    """
    return keep_on_disk(numba.njit(nogil=True, **_NO_COUNTS)(function))


def kernel_part(function: Any) -> Any:
    """Declare a function that is inlined into the state kernels that call it."""
    return numba.njit(forceinline=True, **_PART)(function)


def seldom_part(function: Any) -> Any:
    """Declare a function for rare cases of state kernels: it is called, not inlined, which saves compile time."""
    return numba.njit(**_PART)(function)


def kernel_array(array: AnyArray, dtype: Any = None) -> AnyArray:
    """Return `array` as kernels need it: contiguous, writable (views of Arrow memory are not) and of `dtype`."""
    if dtype is not None and array.dtype != dtype:
        return array.astype(dtype)
    if array.flags.carray:  # contiguous and writable, tested at once
        return array
    return array.copy()


def kernel_mask(mask: BoolArray | None) -> BoolArray:
    """Return `mask`, or `NO_MASK` for None."""
    if mask is None:
        return NO_MASK
    return mask if mask.flags.writeable else mask.copy()


def grown(array: AnyArray, count: int, fill: object = 0) -> AnyArray:
    """Return an array with room for `count` entries: `array` itself, or a copy of at least twice its size.

    New entries are set to `fill`.
    """
    if count <= len(array):
        return array
    larger = np.full((max(count, 2 * len(array), 8), *array.shape[1:]), fill, dtype=array.dtype)
    larger[: len(array)] = array
    return larger


def regrouped(array: AnyArray, kept: Int64Array, fill: object = 0) -> AnyArray:
    """Return the entries of the groups `kept` of `array`, in that order, followed by `fill`."""
    source = grown(array, int(kept.max(initial=-1)) + 1, fill)
    picked = np.full((max(len(kept), 8), *array.shape[1:]), fill, dtype=array.dtype)
    picked[: len(kept)] = source[kept]
    return picked
