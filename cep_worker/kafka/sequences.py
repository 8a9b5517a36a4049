"""The header with a number that sinks with `sequence.id` put before messages, and sources with `seq.enabled` take off.

text      <sequence.id>:<n>~<payload>
binary    length of the header (4 bytes, big-endian), <sequence.id>:<n>, payload
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from pathlib import Path

from cep_common.process.atomic_files import write_atomically

_LENGTH = struct.Struct(">i")
_LONGEST = 1_000
BLOCK = 10_000
"""The number of numbers that are reserved on the disk at once; those that a process did not use are left out."""


class HeaderError(ValueError):
    """A message without a header that can be read."""


def with_header(payload: bytes, sequence: str, number: int, *, binary: bool) -> bytes:
    """Return the message with its header."""
    header = f"{sequence}:{number}".encode()
    return _LENGTH.pack(len(header)) + header + payload if binary else header + b"~" + payload


def without_header(message: bytes, *, binary: bool) -> tuple[str, int, bytes]:
    """Return the sequence, the number and the payload. Raises HeaderError."""
    if binary:
        length = _LENGTH.unpack_from(message)[0] if len(message) >= _LENGTH.size else -1
        if not 0 < length <= min(_LONGEST, len(message) - _LENGTH.size):
            raise HeaderError("has no header with a sequence number (seq.enabled, is.binary.message)")
        header, payload = message[_LENGTH.size : _LENGTH.size + length], message[_LENGTH.size + length :]
    else:
        header, tilde, payload = message.partition(b"~")
        if not tilde or len(header) > _LONGEST:
            raise HeaderError("has no header with a sequence number (seq.enabled)")
    sequence, colon, number = header.decode(errors="replace").rpartition(":")
    if not colon or not number.isascii() or not number.isdecimal():
        raise HeaderError("has no header with a sequence number (seq.enabled)")
    return sequence, int(number), payload


class Numbers:
    """Numbers that increase over the life of a sink, even if the process fails. Belongs to one thread."""

    def __init__(self, path: Path) -> None:
        """`path` is the file that stores how far numbers were assigned."""
        self._path = path
        self._next = self._reserved = _read(path)

    def take(self, count: int) -> Iterator[int]:
        """Return the next `count` numbers. Raises OSError when they cannot be reserved."""
        first = self._next
        if first + count > self._reserved:
            self._reserve(first + count + BLOCK)
        self._next += count
        return iter(range(first, first + count))

    def _reserve(self, up_to: int) -> None:
        self._path.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(self._path, str(up_to).encode(), durable=True)
        self._reserved = up_to


def _read(path: Path) -> int:
    try:
        return int(path.read_text())
    except (FileNotFoundError, ValueError):
        return 0
