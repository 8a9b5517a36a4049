"""Convert between numbers and their bits inside kernels, so that one loop over int64 serves integers and floats."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from siddhi.engine.jit.arrays import AnyArray

_py_buffer = pa.py_buffer


def _cast(source: types.Type, target: types.Type, llvm: ir.Type) -> Any:
    """Return an intrinsic that reinterprets the bits of a `source` as a `target`."""

    @intrinsic
    def cast(typing_context, number):  # type: ignore[no-untyped-def] # noqa: ARG001 - numba calls it
        def generate(context, builder, signature, arguments):  # type: ignore[no-untyped-def] # noqa: ARG001
            return builder.bitcast(arguments[0], llvm)

        return target(source), generate

    return cast


as_real = _cast(types.int64, types.float64, ir.DoubleType())
"""Return the float64 with the bits of an int64."""
as_bits = _cast(types.float64, types.int64, ir.IntType(64))
"""Return the bits of a float64 as an int64."""


def address_of(array: AnyArray) -> int:
    """Return the address of the first item of `array`, which must be contiguous.

    The caller keeps the array alive. numpy returns the same, but takes a microsecond.
    """
    return int(_py_buffer(array).address)
