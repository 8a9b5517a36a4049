"""Small JSON files that describe other files, with a checksum and a copy.

A damaged byte in them must not make the described files unusable.
"""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Generic, NamedTuple, TypeVar
from zlib import crc32

import msgspec

from cep_common.process.atomic_files import write_atomically
from cep_common.process.private_folders import make_private
from cep_worker.storage.file_changes import replaced
from cep_worker.storage.group_commit import sync_folders

logger = logging.getLogger(__name__)

COPY = ".copy"
_SEAL = b"\n#"

Kind = TypeVar("Kind", bound=msgspec.Struct)


def read_checked(path: Path, kind: type[Kind]) -> Kind | None:
    """Return the content of the file, or else of its copy; None if neither can be read.

    Of the two, one that is damaged or missing is written again: otherwise damage to one today and to the other next
    month would destroy both.

    Raises:
        OSError: The disk fails.
    """
    first = _read(path, kind)
    try:
        copy = _read(copy_of(path), kind)
    except OSError:
        if first.value is None:
            raise
        copy = _Content(b"", None, damaged=True)
    if first.value is not None:
        if copy.value is None:
            _restore(copy_of(path), first)
        return first.value
    if first.damaged or copy.value is not None:
        text = "its copy is used" if copy.value is not None else "its copy cannot be read either"
        logger.error("a file is %s: file=%s, %s", "damaged" if first.damaged else "missing", path, text)
    if copy.value is not None:
        _restore(path, copy)
    return copy.value


def write_checked(path: Path, value: msgspec.Struct, *, copied: bool = True) -> None:
    """Write `value` durably to the file, and to its copy if it is `copied`.

    Raises:
        OSError: the disk fails.
    """
    make_private(path.parent)
    sealed = with_checksum(value)
    for place in (copy_of(path), path) if copied else (path,):
        write_atomically(place, sealed, durable=True)
        replaced(place)
    sync_folders(path.parent, levels=1)


def delete_checked(path: Path) -> None:
    """Delete the file and its copy, if they are there.

    Raises:
        OSError: the disk fails.
    """
    for place in (copy_of(path), path):
        place.unlink(missing_ok=True)
        replaced(place)


def copy_of(path: Path) -> Path:
    """Return the path of the file's copy."""
    return path.with_name(f"{path.name}{COPY}")


def with_checksum(value: msgspec.Struct) -> bytes:
    """Return `value` as JSON followed by its checksum."""
    data = msgspec.json.encode(value)
    return data + _SEAL + f"{crc32(data):08x}\n".encode()


def checked(data: bytes, kind: type[Kind]) -> Kind | None:
    """Return the value that `with_checksum` wrote; None if it is damaged.

    Earlier versions wrote no checksum.
    """
    text, seal, checksum = data.rpartition(_SEAL)
    if seal and checksum.strip() != f"{crc32(text):08x}".encode():
        return None
    try:
        return msgspec.json.decode(text if seal else data, type=kind)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return None


class _Content(NamedTuple, Generic[Kind]):
    """The bytes of a file and what they say; `value` is None if it is `damaged` or not there."""

    data: bytes
    value: Kind | None
    damaged: bool


def _read(path: Path, kind: type[Kind]) -> _Content[Kind]:
    try:
        data = path.read_bytes()
    except (FileNotFoundError, NotADirectoryError):
        return _Content(b"", None, damaged=False)
    found = checked(data, kind)
    return _Content(data, found, found is None)


def _restore(path: Path, whole: _Content[Kind]) -> None:
    """Write the other one of a file and its copy again."""
    try:
        write_atomically(path, whole.data, durable=True)
    except OSError as error:  # what was read is valid without it
        logger.warning("a file or its copy is damaged and cannot be restored: file=%s reason=%s", path, error.strerror)
        return
    replaced(path)
    logger.warning("a file or its copy was missing or damaged and is restored: file=%s", path)
