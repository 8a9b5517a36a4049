"""Messages to frames and back.

The first frame is magic, type, correlation id (both with a length byte in front) and body; the raw bodies of data
messages follow in frames of their own. The header is one frame because each further one costs microseconds a hop.

Decoding takes any bytes, and returns an `Envelope` or raises `DecodeError`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from cep_common.errors import DecodeError
from cep_common.protocol.message_types import message_types
from cep_common.protocol.registry import Message

MAGIC = b"CEP1"
MAXIMUM_CONTROL_BYTES = 8 * 1024 * 1024
"""The maximum size of a control message: the largest is a query plan of some thousand queries."""

MAXIMUM_DATA_BYTES = 64 * 1024 * 1024
"""The maximum size of a frame of a data socket."""

_ENCODER = msgspec.msgpack.Encoder()
_DECODERS = {name.encode(): msgspec.msgpack.Decoder(message) for name, message in message_types().items()}
_PREFIXES = {message: MAGIC + bytes([len(name)]) + name.encode() for name, message in message_types().items()}


class Envelope(msgspec.Struct, frozen=True):
    """A decoded message with its correlation id (empty if no answer is expected) and its raw bodies."""

    message: Message
    correlation: bytes = b""
    bodies: tuple[Any, ...] = ()


def encode(message: Message, correlation: bytes = b"", bodies: Sequence[Any] = ()) -> list[Any]:
    """Return the frames of `message`.

    `correlation` has at most 255 bytes; `bodies` are buffers that are sent unchanged.
    """
    header = _PREFIXES[type(message)] + bytes([len(correlation)]) + correlation + _ENCODER.encode(message)
    return [header, *bodies]


def decode(frames: Sequence[bytes]) -> Envelope:
    """Return the message in `frames` (without any routing id)."""
    if not frames or not frames[0].startswith(MAGIC):
        raise DecodeError(f"not a message of this protocol (it begins with {MAGIC.decode()})")
    header = frames[0]
    name, after_name = _short_text(header, len(MAGIC))
    correlation, after_correlation = _short_text(header, after_name)
    decoder = _DECODERS.get(name)
    if decoder is None:
        raise DecodeError(f"unknown message type {name[:40]!r}")
    try:
        message = decoder.decode(memoryview(header)[after_correlation:])
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise DecodeError(f"a {name.decode()} message that cannot be read: {error}") from error
    return Envelope(message, correlation, tuple(frames[1:]))


def _short_text(header: bytes, start: int) -> tuple[bytes, int]:
    """Return the bytes that follow the length byte at `start`, and the index of their end."""
    if start >= len(header):
        raise DecodeError("a message that ends inside its header")
    end = start + 1 + header[start]
    return header[start + 1 : end], end
