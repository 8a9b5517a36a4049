"""Reading memory by its address inside kernels: Arrow's buffers as they lie there, without an array around them.

An address is an int64; whoever passes one keeps the memory alive until the kernel has returned.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import types
from numba.extending import intrinsic


def _loader(kind: types.Type, llvm: ir.Type) -> Any:
    """What reads one `kind` at an address, which need not be aligned."""

    @intrinsic
    def load(typing_context, address):  # type: ignore[no-untyped-def] # noqa: ARG001 - numba calls it
        def generate(context, builder, signature, arguments):  # type: ignore[no-untyped-def] # noqa: ARG001
            read = builder.load(builder.inttoptr(arguments[0], llvm.as_pointer()))
            read.align = 1
            return read

        return kind(types.int64), generate

    return load


def _prefetcher() -> Any:
    @intrinsic
    def prefetch(typing_context, address):  # type: ignore[no-untyped-def] # noqa: ARG001 - numba calls it
        def generate(context, builder, signature, arguments):  # type: ignore[no-untyped-def] # noqa: ARG001
            number, pointer = ir.IntType(32), ir.IntType(8).as_pointer()
            shape = ir.FunctionType(ir.VoidType(), [pointer, number, number, number])
            function = builder.module.declare_intrinsic("llvm.prefetch", [pointer], shape)
            read, keep, data = (ir.Constant(number, value) for value in (0, 3, 1))
            builder.call(function, [builder.inttoptr(arguments[0], pointer), read, keep, data])
            return context.get_dummy_value()

        return types.none(types.int64), generate

    return prefetch


byte_at = _loader(types.uint8, ir.IntType(8))
"""The byte at an address."""
offset_at = _loader(types.int32, ir.IntType(32))
"""The int32 at an address: an offset of an Arrow string array."""
word_at = _loader(types.uint64, ir.IntType(64))
"""The eight bytes at an address."""
fetch = _prefetcher()
"""Has the memory at an address brought near, as it will be read soon; any address may be given."""
