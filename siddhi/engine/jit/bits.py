"""Numbers and the bits they are made of, inside kernels: so one loop over int64 serves whole and real numbers."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from siddhi.engine.jit.arrays import AnyArray

_py_buffer = pa.py_buffer


def _cast(source: types.Type, target: types.Type, llvm: ir.Type) -> Any:
    """Return what takes the bits of a `source` for those of a `target`."""

    @intrinsic
    def cast(typing_context, number):  # type: ignore[no-untyped-def] # noqa: ARG001 - numba calls it
        def generate(context, builder, signature, arguments):  # type: ignore[no-untyped-def] # noqa: ARG001
            return builder.bitcast(arguments[0], llvm)

        return target(source), generate

    return cast


as_real = _cast(types.int64, types.float64, ir.DoubleType())
"""The float64 of the bits in an int64."""
as_bits = _cast(types.float64, types.int64, ir.IntType(64))
"""The bits of a float64 as an int64."""


def address_of(array: AnyArray) -> int:
    """Return the address of the first item of `array`, which must be contiguous.

    The caller keeps the array alive. numpy returns the same, but takes a microsecond.
    """
    return int(_py_buffer(array).address)
