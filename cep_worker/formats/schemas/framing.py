"""Confluent's wire format: a prefix that identifies the schema of a body in the registry.

0   int32 number of the schema   [Protobuf: which message of the schema]   the event
"""

from __future__ import annotations

import struct
from collections.abc import Sequence

from cep_worker.formats.schemas.problems import BodyError

MAGIC = 0
HEADER = struct.Struct(">bI")
MOST_INDEXES = 32
_LONGEST_VARINT = 5


def header(number: int) -> bytes:
    """Return the prefix of bodies whose schema has this number."""
    return HEADER.pack(MAGIC, number)


def unframed(body: bytes) -> tuple[int, bytes]:
    """Return the number of the schema, and the rest of the body.

    Raises:
        BodyError: the body does not begin with one.
    """
    if len(body) < HEADER.size or body[0] != MAGIC:
        raise BodyError(
            "the body does not begin with the number of a schema (a 0 and four bytes): its sender uses no registry"
        )
    return HEADER.unpack_from(body)[1], body[HEADER.size :]


def indexes_header(indexes: Sequence[int]) -> bytes:
    """Return the path to a message of a Protobuf schema: the first one is a 0 alone."""
    if list(indexes) == [0]:
        return b"\x00"
    return b"".join(map(_varint, (len(indexes), *indexes)))


def read_indexes(payload: bytes) -> tuple[tuple[int, ...], bytes]:
    """Return the path to the message that an event is of, and the event.

    Raises:
        BodyError: it is none.
    """
    count, place = _read_varint(payload, 0)
    if not 0 <= count <= MOST_INDEXES:
        raise BodyError(f"the path to a message of the schema has {count} steps")
    found = []
    for _ in range(count):
        index, place = _read_varint(payload, place)
        found.append(index)
    return tuple(found) or (0,), payload[place:]


def _varint(value: int) -> bytes:
    """Return a number as Avro and Confluent write it: zigzag, seven bits to a byte."""
    left, found = value << 1, bytearray()
    while left > 0x7F:
        found.append(left & 0x7F | 0x80)
        left >>= 7
    found.append(left)
    return bytes(found)


def _read_varint(data: bytes, place: int) -> tuple[int, int]:
    value = 0
    for shift in range(_LONGEST_VARINT):
        if place >= len(data):
            break
        byte = data[place]
        place += 1
        value |= (byte & 0x7F) << (7 * shift)
        if byte < 0x80:
            return value >> 1 ^ -(value & 1), place
    raise BodyError("the body ends within the path to its message")
