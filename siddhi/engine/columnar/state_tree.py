"""Operator state as a tree of plain values and arrays, and its bytes: no pickle.

length of the tree   tree, as MessagePack                  large arrays, and states that were written before, one
8 bytes              …with short arrays in their places    after the other in the order in which the tree names them

The bytes contain no offsets of arrays, so a change in one place leaves all other bytes unchanged: a store that keeps
snapshots in chunks writes only the chunks that changed.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from typing import Any, TypeAlias

import msgspec
import numpy as np

from siddhi.engine.jit.arrays import AnyArray, Int64Array
from siddhi.engine.tuning import MIN_DETACHED_ARRAY_BYTES

State: TypeAlias = Any
"""None, bool, int, float, str, bytes, set, list and dict of these, numpy arrays, `Codes` and `EncodedParts`.

Tuples and pieces become lists.
"""
Buffer: TypeAlias = bytes | bytearray | memoryview

_ARRAY = 1
_CODES = 2
_SET = 3
_OBJECTS = 4
_FROZEN_SET = 5
_INTEGER = 6
_ARRAY_APART = 7
_CODES_APART = 8
_PIECES = 9
_INTEGERS = range(-(2**63), 2**64)
"""The integers that MessagePack supports."""
_LENGTH = struct.Struct("<Q")
_PLAIN_KINDS = "biuf"
"""The kinds of arrays that a state may contain."""


class Codes:
    """An int64 array of string codes inside a state. The class marks them, so that the string pool may be compacted."""

    __slots__ = ("array",)

    def __init__(self, array: Int64Array) -> None:
        """Wrap codes of the string pool, which a restore replaces by those of its own pool.

        Args:
            array: The codes.
        """
        self.array = array


class EncodedParts:
    """A list of states that are already encoded by `encode_piece`. It decodes to a list of these states."""

    __slots__ = ("pieces",)

    def __init__(self, pieces: list[bytes]) -> None:
        """Wrap state that is kept as it was serialized.

        Args:
            pieces: The serialized parts, in order.
        """
        self.pieces = pieces


class StateError(ValueError):
    """The bytes are not a valid encoded state."""


class NotByKeyError(Exception):
    """State without a key, which cannot be redistributed or merged by key."""


def encode_state(state: State) -> list[Buffer]:
    """Return the bytes of `state`, in consecutive pieces; large arrays are pieces without a copy."""
    arrays: list[Buffer] = []

    def to_extension(value: object) -> object:
        return _to_extension(value, arrays)

    tree = msgspec.msgpack.encode(_writable(state), enc_hook=to_extension)
    return [_LENGTH.pack(len(tree)), tree, *arrays]


def encode_piece(state: State) -> bytes:
    """Return `state` encoded as an item of `EncodedParts`."""
    return msgspec.msgpack.encode(_writable(state), enc_hook=_to_extension)


def decode_state(data: Buffer) -> State:
    """Return the state that `encode_state` wrote; raise `StateError` for anything else."""
    try:
        (length,) = _LENGTH.unpack_from(data)
        body = memoryview(data)[_LENGTH.size :]
        reader = _Reader(body[length:])
        state = msgspec.msgpack.decode(body[:length], ext_hook=reader.from_extension)
    except (msgspec.MsgspecError, struct.error, ValueError, TypeError, IndexError, RecursionError) as error:
        raise StateError(f"these bytes are not state: {error}") from error
    if reader.left:
        raise StateError(f"these bytes are not state: {reader.left} bytes are left over")
    return state


def _writable(value: State) -> State:
    """Return `value` in a form that MessagePack restores exactly.

    Sets, which it would write as lists, and numbers that are too large for it become extension values.
    """
    kind = type(value)
    if kind is list or kind is tuple:
        return [_writable(item) for item in value]
    if kind is dict:
        return {key: _writable(item) for key, item in value.items()}
    if kind is set or kind is frozenset:
        items = msgspec.msgpack.encode([_writable(item) for item in value], enc_hook=_to_extension)
        return msgspec.msgpack.Ext(_SET if kind is set else _FROZEN_SET, items)
    if kind is int and value not in _INTEGERS:
        return msgspec.msgpack.Ext(_INTEGER, str(value).encode())
    return value


def _to_extension(value: object, apart: list[Buffer] | None = None) -> object:
    """Return `value` as a MessagePack extension; a large array is added to `apart`, when there is such a list."""
    if isinstance(value, Codes):
        return _array_extension(shortened(value.array), apart, _CODES, _CODES_APART)
    if isinstance(value, EncodedParts) and apart is not None:
        apart.append(b"".join(value.pieces))
        return msgspec.msgpack.Ext(_PIECES, msgspec.msgpack.encode(list(map(len, value.pieces))))
    if isinstance(value, np.ndarray):
        if value.dtype == object:
            items = msgspec.msgpack.encode(_writable(value.tolist()), enc_hook=_to_extension)
            return msgspec.msgpack.Ext(_OBJECTS, items)
        return _array_extension(value, apart, _ARRAY, _ARRAY_APART)
    if isinstance(value, np.generic):
        return value.item()
    raise NotImplementedError(f"{type(value).__name__} cannot be part of a snapshot")


def _array_extension(array: AnyArray, apart: list[Buffer] | None, code: int, code_apart: int) -> msgspec.msgpack.Ext:
    array = np.ascontiguousarray(array)
    head = [array.dtype.str, list(array.shape)]
    if apart is None or array.nbytes < MIN_DETACHED_ARRAY_BYTES:
        return msgspec.msgpack.Ext(code, msgspec.msgpack.encode([*head, array.tobytes()]))
    apart.append(array.reshape(-1).view(np.uint8).data)
    return msgspec.msgpack.Ext(code_apart, msgspec.msgpack.encode(head))


def shortened(numbers: Int64Array) -> AnyArray:
    """Return the same numbers in four bytes each, if they fit."""
    short = numbers.astype(np.int32)
    return short if (short == numbers).all() else numbers


class _Reader:
    """A reader of values that MessagePack does not support; arrays that follow the tree come from `arrays`."""

    def __init__(self, arrays: memoryview) -> None:
        self._arrays = arrays
        self._read = 0

    @property
    def left(self) -> int:
        """The number of bytes of arrays that have not been read."""
        return len(self._arrays) - self._read

    def from_extension(self, code: int, data: memoryview) -> object:
        if code == _INTEGER:
            return int(bytes(data))
        if code in (_SET, _FROZEN_SET, _OBJECTS):
            items = msgspec.msgpack.decode(data, ext_hook=self.from_extension)
            return _objects(items) if code == _OBJECTS else set(items) if code == _SET else frozenset(items)
        if code == _PIECES:
            return [self._piece(length) for length in msgspec.msgpack.decode(data)]
        if code in (_ARRAY, _CODES):
            dtype, shape, raw = msgspec.msgpack.decode(data)
            return _array_or_codes(np.frombuffer(raw, dtype=_plain(dtype)), shape, codes=code == _CODES)
        if code in (_ARRAY_APART, _CODES_APART):
            dtype, shape = msgspec.msgpack.decode(data)
            return _array_or_codes(self._next(_plain(dtype), shape), shape, codes=code == _CODES_APART)
        raise StateError(f"unknown part {code} in a snapshot")

    def _piece(self, length: int) -> State:
        return msgspec.msgpack.decode(self._take(length), ext_hook=self.from_extension)

    def _next(self, dtype: np.dtype[Any], shape: list[int]) -> AnyArray:
        size = dtype.itemsize
        for length in shape:
            size *= length
        array: AnyArray = np.frombuffer(self._take(size), dtype=dtype)
        return array

    def _take(self, size: int) -> memoryview:
        if not 0 <= size <= self.left:
            raise StateError("something is longer than the snapshot")
        start, self._read = self._read, self._read + size
        return self._arrays[start : self._read]


_TYPE_NAME = re.compile(r"[<>|=]?[A-Za-z?][0-9]{0,9}")


@lru_cache(maxsize=64)
def _plain(name: str) -> np.dtype[Any]:
    if not _TYPE_NAME.fullmatch(name):  # numpy would evaluate other texts as Python
        raise StateError(f"{name[:40]} is not a type of arrays")
    dtype = np.dtype(name)
    if dtype.kind not in _PLAIN_KINDS:
        raise StateError(f"an array of {name} is not allowed in a state")
    return dtype


def _array_or_codes(array: AnyArray, shape: list[int], *, codes: bool) -> AnyArray | Codes:
    shaped = array.reshape(shape)
    if codes and shaped.dtype.kind != "i":
        raise StateError("codes of strings are whole numbers")
    return Codes(shaped.astype(np.int64)) if codes else shaped.copy()


def _objects(items: list[object]) -> AnyArray:
    array: AnyArray = np.empty(len(items), dtype=object)
    for position, item in enumerate(items):
        array[position] = item
    return array


def same_state(one: State, other: State) -> bool:
    """Return whether both states have the same encoding."""
    return b"".join(encode_state(one)) == b"".join(encode_state(other))


CodeChange: TypeAlias = Callable[[Int64Array], Int64Array]
"""Returns the new codes for string codes (-1 stays -1)."""


def codes_in(state: State) -> Iterator[Int64Array]:
    """Yield all string codes inside `state`."""
    if isinstance(state, Codes):
        if state.array.size:
            yield state.array
    elif isinstance(state, dict | list):
        for value in state.values() if isinstance(state, dict) else state:
            yield from codes_in(value)


def map_codes(state: State, change: CodeChange) -> State:
    """Return `state` with `change` applied to every `Codes` array."""
    if isinstance(state, Codes):
        return Codes(change(state.array))
    if isinstance(state, dict):
        return {key: map_codes(value, change) for key, value in state.items()}
    if isinstance(state, list):
        return [map_codes(value, change) for value in state]
    return state


def end_to_end(parts: Sequence[State]) -> State:
    """Return the concatenation of `parts`, which are arrays, codes or lists."""
    if isinstance(parts[0], list):
        return [item for part in parts for item in part]
    if isinstance(parts[0], Codes):
        return Codes(np.concatenate([part.array for part in parts]))
    return np.concatenate(parts)
