"""The files of a worker's folder that are mirrored, and their paths."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from zlib import crc32

CHUNK_BYTES = 1_048_576
LOCAL_NAMES = frozenset({"lock"})
"""Files that are not mirrored because they belong to one host: locks."""
LOCAL_SUFFIXES = (".new", ".spare")
"""Suffixes of files that are not mirrored because they are temporary or spare."""


def is_mirrored(name: str) -> bool:
    """Return whether a file or folder of that name is mirrored."""
    return name not in LOCAL_NAMES and not name.endswith(LOCAL_SUFFIXES) and not name.startswith(".removed-")


def mirrored_files(root: Path) -> Iterator[Path]:
    """Yield all existing files below `root` that are mirrored."""
    try:
        entries = sorted(os.scandir(root), key=lambda entry: entry.name)
    except FileNotFoundError:
        return
    for entry in entries:
        if not is_mirrored(entry.name):
            continue
        if entry.is_dir(follow_symlinks=False):
            yield from mirrored_files(Path(entry.path))
        elif entry.is_file(follow_symlinks=False):
            yield Path(entry.path)


def checksum(path: Path, size: int) -> int | None:
    """Return the CRC-32 of the first `size` bytes of the file, or None when it has fewer or cannot be read."""
    crc = 0
    try:
        with path.open("rb") as file:
            while size:
                data = file.read(min(size, CHUNK_BYTES))
                if not data:
                    return None
                crc = crc32(data, crc)
                size -= len(data)
    except OSError:
        return None
    return crc


def below(root: Path, name: str) -> Path:
    """Return the path below `root` with a name from a peer. Raises ValueError if it is outside `root`."""
    parts = name.split("/")
    if not name or any(part in ("", ".", "..") or "\0" in part for part in parts):
        raise ValueError(f"not a path in the mirrored folder: {name[:80]!r}")
    return root.joinpath(*parts)
