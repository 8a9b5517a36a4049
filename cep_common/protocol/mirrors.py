"""The messages between the workers of two nodes: the active one replicates its files to the passive one.

`mirrors.md` describes each, and a test compares the two.
"""

from __future__ import annotations

from typing import Literal

import msgspec

from cep_common.protocol.registry import Message


class MirroredFile(msgspec.Struct, frozen=True, array_like=True):
    """A file of the passive node's copy: `path` below its folder, and the CRC-32 of its `size` bytes."""

    path: str
    size: int
    crc: int


class FileChange(msgspec.Struct, frozen=True, array_like=True):
    """A change of the file at `path`.

    `append`: the body is written at `offset`, and the file ends behind it; `replace`: the body is the file; `remove`:
    there is no such file or folder.
    """

    kind: Literal["append", "replace", "remove"]
    path: str
    offset: int = 0


class OpenMirror(Message, frozen=True):
    """Begins a session of the active worker and asks for the files of the passive node's copy."""

    TYPE = "open-mirror"
    token: int
    node: str
    session: str


class MirrorOpened(Message, frozen=True):
    """The files of the passive node's copy; `last` with those that end the list."""

    TYPE = "mirror-opened"
    session: str
    node: str
    files: tuple[MirroredFile, ...]
    last: bool = True


class MirrorChanges(Message, frozen=True):
    """Changes to be applied together, followed by their bodies. Without changes it is a heartbeat."""

    TYPE = "mirror-changes"
    token: int
    session: str
    number: int
    changes: tuple[FileChange, ...]
    last: bool = True


class MirrorApplied(Message, frozen=True):
    """Reports that everything up to `number` is applied; an `error` ends the session."""

    TYPE = "mirror-applied"
    session: str
    number: int
    token: int
    error: str = ""
