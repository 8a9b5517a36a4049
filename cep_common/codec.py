"""Messages to frames and back: magic, type, correlation id, body, then the raw bodies of data messages.

Decoding takes any bytes and gives an `Envelope` or raises `DecodeError`, nothing else.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from cep_common.errors import DecodeError
from cep_common.messages import Message, message_types

MAGIC = b"CEP1"
MAXIMUM_CONTROL_BYTES = 8 * 1024 * 1024
"""No control message is larger: the largest is a query plan of some thousand queries."""

MAXIMUM_DATA_BYTES = 64 * 1024 * 1024
"""No frame of a data socket is larger."""

_TYPES = message_types()
_ENCODER = msgspec.msgpack.Encoder()
_DECODERS = {name.encode(): msgspec.msgpack.Decoder(message) for name, message in _TYPES.items()}
_NAMES = {message: name.encode() for name, message in _TYPES.items()}


class Envelope(msgspec.Struct, frozen=True):
    """A decoded message with its correlation id (empty when nobody waits for an answer) and its raw bodies."""

    message: Message
    correlation: bytes = b""
    bodies: tuple[Any, ...] = ()


def encode(message: Message, correlation: bytes = b"", bodies: Sequence[Any] = ()) -> list[Any]:
    """The frames of `message`; `bodies` are buffers that are sent as they are."""
    return [MAGIC, _NAMES[type(message)], correlation, _ENCODER.encode(message), *bodies]


def decode(frames: Sequence[Any]) -> Envelope:
    """The message in `frames` (bytes or memoryviews, without any routing id)."""
    if len(frames) < 4 or bytes(frames[0]) != MAGIC:
        raise DecodeError(f"not a frame of this protocol (expected {MAGIC.decode()}, a type, an id and a body)")
    name = bytes(frames[1])
    decoder = _DECODERS.get(name)
    if decoder is None:
        raise DecodeError(f"unknown message type {name[:40]!r}")
    try:
        message = decoder.decode(frames[3])
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise DecodeError(f"a {name.decode()} message that cannot be read: {error}") from error
    return Envelope(message, bytes(frames[2]), tuple(frames[4:]))
