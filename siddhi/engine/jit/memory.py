"""Read and write memory by address inside kernels: Arrow buffers without wrapping arrays.

An address is an int64; the caller keeps the memory alive until the kernel returns.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from siddhi.engine.tuning import CACHE_LINE_BYTES


def _loader(kind: types.Type, llvm: ir.Type) -> Any:
    """Return an intrinsic that reads one `kind` at an address, which need not be aligned."""

    @intrinsic
    def load(typing_context, address):  # type: ignore[no-untyped-def] # noqa: ARG001 - numba calls it
        def generate(context, builder, signature, arguments):  # type: ignore[no-untyped-def] # noqa: ARG001
            read = builder.load(builder.inttoptr(arguments[0], llvm.as_pointer()))
            read.align = 1
            return read

        return kind(types.int64), generate

    return load


def _storer(kind: types.Type, llvm: ir.Type) -> Any:
    """Return an intrinsic that writes one `kind` at an address, which need not be aligned."""

    @intrinsic
    def store(typing_context, address, value):  # type: ignore[no-untyped-def] # noqa: ARG001 - numba calls it
        def generate(context, builder, signature, arguments):  # type: ignore[no-untyped-def] # noqa: ARG001
            written = builder.store(arguments[1], builder.inttoptr(arguments[0], llvm.as_pointer()))
            written.align = 1
            return context.get_dummy_value()

        return types.none(types.int64, kind), generate

    return store


def _copier() -> Any:
    @intrinsic
    def copy(typing_context, target, source, size):  # type: ignore[no-untyped-def] # noqa: ARG001 - numba calls it
        def generate(context, builder, signature, arguments):  # type: ignore[no-untyped-def] # noqa: ARG001
            number, pointer = ir.IntType(64), ir.IntType(8).as_pointer()
            function = builder.module.declare_intrinsic("llvm.memcpy", [pointer, pointer, number])
            target, source = (builder.inttoptr(address, pointer) for address in arguments[:2])
            builder.call(function, [target, source, arguments[2], ir.Constant(ir.IntType(1), 0)])
            return context.get_dummy_value()

        return types.none(types.int64, types.int64, types.int64), generate

    return copy


def _mover() -> Any:
    @intrinsic
    def move(typing_context, target, source, size):  # type: ignore[no-untyped-def] # noqa: ARG001 - numba calls it
        def generate(context, builder, signature, arguments):  # type: ignore[no-untyped-def] # noqa: ARG001
            number, pointer = ir.IntType(64), ir.IntType(8).as_pointer()
            function = builder.module.declare_intrinsic("llvm.memmove", [pointer, pointer, number])
            target, source = (builder.inttoptr(address, pointer) for address in arguments[:2])
            builder.call(function, [target, source, arguments[2], ir.Constant(ir.IntType(1), 0)])
            return context.get_dummy_value()

        return types.none(types.int64, types.int64, types.int64), generate

    return move


def _from_c(name: str, result: ir.Type, parameters: list[ir.Type]) -> Any:
    """Return a declaration of the function `name` of the C library for kernels."""

    def declared(module: Any) -> Any:
        known = module.globals.get(name)
        return ir.Function(module, ir.FunctionType(result, parameters), name) if known is None else known

    return declared


_BYTES = ir.IntType(8).as_pointer()
_ALLOCATE = _from_c("aligned_alloc", _BYTES, [ir.IntType(64), ir.IntType(64)])
_FREE = _from_c("free", ir.VoidType(), [_BYTES])


def _allocator() -> Any:
    @intrinsic
    def allocate(typing_context, size):  # type: ignore[no-untyped-def] # noqa: ARG001 - numba calls it
        def generate(context, builder, signature, arguments):  # type: ignore[no-untyped-def] # noqa: ARG001
            alignment = ir.Constant(ir.IntType(64), CACHE_LINE_BYTES)
            block = builder.call(_ALLOCATE(builder.module), [alignment, arguments[0]])
            return builder.ptrtoint(block, ir.IntType(64))

        return types.int64(types.int64), generate

    return allocate


def _liberator() -> Any:
    @intrinsic
    def free(typing_context, address):  # type: ignore[no-untyped-def] # noqa: ARG001 - numba calls it
        def generate(context, builder, signature, arguments):  # type: ignore[no-untyped-def] # noqa: ARG001
            builder.call(_FREE(builder.module), [builder.inttoptr(arguments[0], _BYTES)])
            return context.get_dummy_value()

        return types.none(types.int64), generate

    return free


def _caller() -> Any:
    @intrinsic
    def call(typing_context, function, argument):  # type: ignore[no-untyped-def] # noqa: ARG001 - numba calls it
        def generate(context, builder, signature, arguments):  # type: ignore[no-untyped-def] # noqa: ARG001
            shape = ir.FunctionType(ir.VoidType(), [_BYTES])
            callee = builder.inttoptr(arguments[0], shape.as_pointer())
            builder.call(callee, [builder.inttoptr(arguments[1], _BYTES)])
            return context.get_dummy_value()

        return types.none(types.int64, types.int64), generate

    return call


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
single_at = _loader(types.float32, ir.FloatType())
"""The float32 at an address."""
word_at = _loader(types.uint64, ir.IntType(64))
"""The eight bytes at an address."""
fetch = _prefetcher()
"""Prefetch the memory at an address, which will be read soon; any address is allowed."""
set_byte = _storer(types.uint8, ir.IntType(8))
"""Writes the byte at an address."""
set_offset = _storer(types.int32, ir.IntType(32))
"""Writes the int32 at an address."""
set_word = _storer(types.int64, ir.IntType(64))
"""Writes the eight bytes at an address."""
copy_bytes = _copier()
"""Copies `size` bytes from one address to another; the two places do not overlap."""
move_bytes = _mover()
"""Copies `size` bytes from one address to another, also where the two places overlap."""
allocate = _allocator()
"""The address of a new block of `size` bytes, a multiple of 64, or 0 when there is no memory."""
free = _liberator()
"""Free a block of `allocate`."""
call_at = _caller()
"""Calls the C function at an address, which takes a pointer and returns nothing, with a pointer to another address."""
