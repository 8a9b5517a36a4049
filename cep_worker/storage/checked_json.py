"""Small JSON files that describe other files, with a checksum and a copy.

A damaged byte in them must not make the described files unusable.
"""

from __future__ import annotations

import logging
from pathlib import Path
from typing import TypeVar
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

    The next write replaces a damaged file.
    """
    found, damaged = _read(path, kind)
    if found is not None:
        return found
    copied, _ = _read(copy_of(path), kind)
    if damaged or copied is not None:
        text = "its copy is used" if copied is not None else "its copy cannot be read either"
        logger.error("a file is %s: file=%s, %s", "damaged" if damaged else "missing", path, text)
    return copied


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


def _read(path: Path, kind: type[Kind]) -> tuple[Kind | None, bool]:
    """Return the content of the file, and whether it exists and is damaged."""
    try:
        data = path.read_bytes()
    except (FileNotFoundError, NotADirectoryError):
        return None, False
    found = checked(data, kind)
    return found, found is None
