"""Operator state as a tree of plain values and arrays, and its bytes: MessagePack, no pickle."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, TypeAlias

import msgspec
import numpy as np

from siddhi.engine.arrays import AnyArray, Int64Array

State: TypeAlias = Any
"""None, bool, int, float, str, bytes, set, list and dict of these, numpy arrays and `Codes`; tuples become lists."""

_ARRAY = 1
_CODES = 2
_SET = 3
_OBJECTS = 4
_FROZEN_SET = 5
_INTEGER = 6
_INTEGERS = range(-(2**63), 2**64)
"""What MessagePack writes as numbers."""


class Codes:
    """An int64 array of string codes inside a state; marked, so that the app's string pool may be compacted."""

    __slots__ = ("array",)

    def __init__(self, array: Int64Array) -> None:
        self.array = array


class StateError(ValueError):
    """Bytes that cannot be read as what they should be."""


def encode_state(state: State) -> bytes:
    """The bytes of `state`."""
    return msgspec.msgpack.encode(_writable(state), enc_hook=_to_extension)


def decode_state(data: bytes | memoryview) -> State:
    """The state that `encode_state` wrote; `StateError` for anything else."""
    try:
        return msgspec.msgpack.decode(data, ext_hook=_from_extension)
    except (msgspec.MsgspecError, ValueError, TypeError, IndexError, RecursionError) as error:
        raise StateError(f"these bytes are no state: {error}") from error


def _writable(value: State) -> State:
    """`value` without what MessagePack would take for something else: sets for lists, large numbers for none at all."""
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


def _to_extension(value: object) -> msgspec.msgpack.Ext:
    if isinstance(value, Codes):
        return msgspec.msgpack.Ext(_CODES, np.ascontiguousarray(value.array, dtype=np.int64).tobytes())
    if isinstance(value, np.ndarray):
        if value.dtype == object:
            items = msgspec.msgpack.encode(_writable(value.tolist()), enc_hook=_to_extension)
            return msgspec.msgpack.Ext(_OBJECTS, items)
        header = [value.dtype.str, list(value.shape), np.ascontiguousarray(value).tobytes()]
        return msgspec.msgpack.Ext(_ARRAY, msgspec.msgpack.encode(header))
    if isinstance(value, np.generic):
        return value.item()  # type: ignore[no-any-return]
    raise NotImplementedError(f"{type(value).__name__} cannot be part of a snapshot")


def _from_extension(code: int, data: memoryview) -> object:
    if code == _CODES:
        return Codes(np.frombuffer(data, dtype=np.int64).copy())
    if code == _ARRAY:
        dtype, shape, raw = msgspec.msgpack.decode(data)
        if np.dtype(dtype).hasobject:
            raise StateError("an array of objects is no plain array")
        return np.frombuffer(raw, dtype=dtype).reshape(shape).copy()
    if code == _OBJECTS:
        items = msgspec.msgpack.decode(data, ext_hook=_from_extension)
        array: AnyArray = np.empty(len(items), dtype=object)
        for position, item in enumerate(items):
            array[position] = item
        return array
    if code == _SET:
        return set(msgspec.msgpack.decode(data, ext_hook=_from_extension))
    if code == _FROZEN_SET:
        return frozenset(msgspec.msgpack.decode(data, ext_hook=_from_extension))
    if code == _INTEGER:
        return int(bytes(data))
    raise StateError(f"unknown part {code} in a snapshot")


CodeChange: TypeAlias = Callable[[Int64Array], Int64Array]
"""Gives for string codes (-1 stays -1) the codes that take their place."""


def codes_in(state: State) -> Iterator[Int64Array]:
    """All string codes inside `state`."""
    if isinstance(state, Codes):
        if state.array.size:
            yield state.array
    elif isinstance(state, dict | list):
        for value in state.values() if isinstance(state, dict) else state:
            yield from codes_in(value)


def map_codes(state: State, change: CodeChange) -> State:
    """`state` with every `Codes` array replaced by `change` of it."""
    if isinstance(state, Codes):
        return Codes(change(state.array))
    if isinstance(state, dict):
        return {key: map_codes(value, change) for key, value in state.items()}
    if isinstance(state, list):
        return [map_codes(value, change) for value in state]
    return state
