"""Operator state as a tree of plain values and arrays, and its bytes: versioned, no pickle."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import msgspec
import numpy as np

from siddhi.engine.arrays import AnyArray, Int64Array

FORMAT_VERSION = 2

State: TypeAlias = Any
"""None, bool, int, float, str, bytes, set, list and dict (with string keys) of these, numpy arrays and `Codes`."""

_ARRAY = 1
_CODES = 2
_SET = 3
_OBJECTS = 4


class Codes:
    """An int64 array of string codes inside a state; marked, so that the app's string pool may be compacted."""

    __slots__ = ("array",)

    def __init__(self, array: Int64Array) -> None:
        self.array = array


class StateError(ValueError):
    """Bytes that are no snapshot of this version."""


def encode_state(state: State) -> bytes:
    """The bytes of `state`."""
    return msgspec.msgpack.encode([FORMAT_VERSION, state], enc_hook=_to_extension)


def decode_state(data: bytes) -> State:
    """The state that `encode_state` wrote; `StateError` for anything else."""
    try:
        document = msgspec.msgpack.decode(data, ext_hook=_from_extension)
    except (msgspec.MsgspecError, ValueError, TypeError, IndexError) as error:
        raise StateError(f"not a snapshot: {error}") from error
    if not isinstance(document, list) or len(document) != 2 or document[0] != FORMAT_VERSION:
        raise StateError(f"not a snapshot of format version {FORMAT_VERSION}")
    return document[1]


def _to_extension(value: object) -> msgspec.msgpack.Ext:
    if isinstance(value, Codes):
        return msgspec.msgpack.Ext(_CODES, np.ascontiguousarray(value.array, dtype=np.int64).tobytes())
    if isinstance(value, np.ndarray):
        if value.dtype == object:
            return msgspec.msgpack.Ext(_OBJECTS, msgspec.msgpack.encode(value.tolist(), enc_hook=_to_extension))
        header = [value.dtype.str, list(value.shape), np.ascontiguousarray(value).tobytes()]
        return msgspec.msgpack.Ext(_ARRAY, msgspec.msgpack.encode(header))
    if isinstance(value, set | frozenset):
        return msgspec.msgpack.Ext(_SET, msgspec.msgpack.encode(list(value), enc_hook=_to_extension))
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
    raise StateError(f"unknown part {code} in a snapshot")


def map_codes(state: State, change: Callable[[Int64Array], Int64Array]) -> State:
    """`state` with every `Codes` array replaced by `change` of it."""
    if isinstance(state, Codes):
        return Codes(change(state.array))
    if isinstance(state, dict):
        return {key: map_codes(value, change) for key, value in state.items()}
    if isinstance(state, list):
        return [map_codes(value, change) for value in state]
    return state
