"""Messages between a process that runs scripts and the process that started it.

Each message is a frame: its length, then msgpack. Neither side executes anything that it reads, and both limit the size
of messages. Values keep their types: types that msgpack lacks are sent as extension types.

    parent                                child
      ScriptStart ──────────────────────▶   compiles the functions
                   ◀───────────────────── READY
      CallRequest ──────────────────────▶   makes the calls, one after the other
                   ◀───────────────────── CallAnswers, as many as it takes, in the order of the calls
"""

from __future__ import annotations

import struct
from typing import Any

import msgspec

from siddhi.nesting import TOO_DEEP, nests_too_deeply, whole_text
from siddhi.scripts.nested_values import whole

LENGTH = struct.Struct("<I")
READY = b"ready"
LARGEST_REQUEST = 64 * 2**20
"""Maximum size of the arguments of one call, or of several, in bytes."""
LARGEST_RESULT = 16 * 2**20
"""Maximum size of a result in bytes: the longest text that a function may return, in UTF-8."""
LARGEST_ANSWERS = LARGEST_RESULT + 2**20
"""Maximum size of a message with answers in bytes."""
LONGEST_REASON = 1_000
"""Maximum number of characters of an error message; the rest is left out."""

_INTEGER, _TUPLE, _SET, _FROZEN_SET, _MAP = 1, 2, 3, 4, 5
_PLAIN = frozenset({bool, float, str, type(None)})
_INT64 = 2**63


class FunctionSource(msgspec.Struct, frozen=True, array_like=True):
    """A function to compile: the module and the name of its language's compiler, and the text of the function."""

    module: str
    compiler: str
    body: str


class ScriptStart(msgspec.Struct, frozen=True, array_like=True):
    """The first message to a process: the functions to run, the memory limit, and the idle time after which it ends."""

    functions: tuple[FunctionSource, ...]
    memory_bytes: int
    idle_ms: int


class CallRequest(msgspec.Struct, frozen=True, array_like=True):
    """Calls of one function, each limited to `cpu_ms` of processor time."""

    function: int
    cpu_ms: int
    calls: list[Any]


class CallAnswers(msgspec.Struct, frozen=True, array_like=True):
    """The results of consecutive calls, None for those that failed; `failures` has the reasons, by index."""

    values: list[Any]
    failures: dict[int, str]


def to_wire(value: Any) -> Any:
    """Return `value` in a form that msgpack can write.

    Raises:
        ValueError: It is too large, or nests too deeply.
        TypeError: It is nothing that a plan has.
    """
    kind = type(value)
    if kind in _PLAIN:
        return text_bytes(value)[0] if kind is str else value
    if kind is int:
        return value if -_INT64 <= value < _INT64 else msgspec.msgpack.Ext(_INTEGER, f"{value:x}".encode())
    if nests_too_deeply(value):
        raise ValueError(TOO_DEEP)
    return _nested(whole(value))


def _nested(value: Any) -> Any:
    kind = type(value)
    if kind is str:
        return text_bytes(value)[0]
    if kind in _PLAIN or kind is int:
        return to_wire(value)
    if kind is list:
        return [_nested(item) for item in value]
    if kind is dict:
        if all(type(key) is str for key in value):
            return {_nested(key): _nested(item) for key, item in value.items()}
        return _extension(_MAP, [part for key, item in value.items() for part in (_nested(key), _nested(item))])
    if kind is tuple:
        return _extension(_TUPLE, [_nested(item) for item in value])
    if kind is set or kind is frozenset:
        return _extension(_SET if kind is set else _FROZEN_SET, [_nested(item) for item in value])
    raise TypeError(f"a {kind.__name__} is no value of a plan")


def _extension(code: int, parts: list[Any]) -> msgspec.msgpack.Ext:
    return msgspec.msgpack.Ext(code, write(parts))


def _read_extension(code: int, data: memoryview) -> Any:
    if code == _INTEGER:
        return int(bytes(data), 16)
    parts: list[Any] = _ANYTHING.decode(data)
    if code == _TUPLE:
        return tuple(parts)
    if code == _SET:
        return set(parts)
    if code == _FROZEN_SET:
        return frozenset(parts)
    if code == _MAP:
        return dict(zip(parts[::2], parts[1::2], strict=True))
    raise ValueError(f"there is no type {code}")


_ANYTHING: msgspec.msgpack.Decoder[list[Any]] = msgspec.msgpack.Decoder(list[Any], ext_hook=_read_extension)
_START = msgspec.msgpack.Decoder(ScriptStart)
_REQUEST = msgspec.msgpack.Decoder(CallRequest, ext_hook=_read_extension)
_ANSWERS = msgspec.msgpack.Decoder(CallAnswers, ext_hook=_read_extension)
_encoder = msgspec.msgpack.Encoder()


def write(message: Any) -> bytes:
    """Return `message` as msgpack."""
    return _encoder.encode(message)


def text_bytes(text: str) -> tuple[str, int]:
    """Return a text that msgpack can write, and its size; an unpaired surrogate becomes `?`."""
    if text.isascii():
        return text, len(text)
    try:
        return text, len(text.encode())
    except UnicodeEncodeError:
        text = whole_text(text)
        return text, len(text.encode())


def framed(message: bytes) -> bytes:
    """Return the frame of a message."""
    return LENGTH.pack(len(message)) + message


def read_start(message: bytes) -> ScriptStart:
    """Return the first message of a process. Raise msgspec.DecodeError for anything else."""
    return _START.decode(message)


def read_request(message: bytes) -> CallRequest:
    """Return the calls in a message. Raise msgspec.DecodeError or ValueError for anything else."""
    return _REQUEST.decode(message)


def read_answers(message: bytes) -> CallAnswers:
    """Return the answers in a message.

    Raises:
        ValueError: It is anything else.
    """
    try:
        return _ANSWERS.decode(message)
    except (ValueError, TypeError, RecursionError, MemoryError) as error:  # DecodeError is a ValueError
        raise ValueError(f"no message with answers: {error}") from error
