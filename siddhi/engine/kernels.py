"""How compiled state loops are declared and called."""

from __future__ import annotations

from typing import Any

import numba
import numpy as np

from siddhi.engine.arrays import AnyArray, BoolArray, Int64Array

NO_MASK: BoolArray = np.zeros(0, dtype=np.bool_)
"""Stands for None where a kernel takes a mask."""


def kernel(function: Any) -> Any:
    """`function` compiled by numba, once per machine: the machine code is cached on disk beside the module.

    A kernel takes arrays from `kernel_array`, so that one compiled version serves every plan.
    """
    return numba.njit(cache=True)(function)


def kernel_array(array: AnyArray, dtype: Any = None) -> AnyArray:
    """`array` as kernels want it: contiguous, writable (views of Arrow memory are not) and of `dtype`."""
    if dtype is not None and array.dtype != dtype:
        return array.astype(dtype)
    if array.flags.writeable and array.flags.c_contiguous:
        return array
    return array.copy()


def kernel_mask(mask: BoolArray | None) -> BoolArray:
    """`mask` with `NO_MASK` for None."""
    if mask is None:
        return NO_MASK
    return mask if mask.flags.writeable else mask.copy()


def grown(array: AnyArray, count: int, fill: object = 0) -> AnyArray:
    """`array` itself when it has room for `count` entries, else a copy of at least twice the size, filled up with
    `fill`."""
    if count <= len(array):
        return array
    larger = np.full((max(count, 2 * len(array), 8), *array.shape[1:]), fill, dtype=array.dtype)
    larger[: len(array)] = array
    return larger


def regrouped(array: AnyArray, kept: Int64Array, fill: object = 0) -> AnyArray:
    """The entries of the groups `kept` of `array`, in that order, with nothing but `fill` behind them."""
    source = grown(array, int(kept.max(initial=-1)) + 1, fill)
    picked = np.full((max(len(kept), 8), *array.shape[1:]), fill, dtype=array.dtype)
    picked[: len(kept)] = source[kept]
    return picked
