"""Storage of checkpoints as named blobs: a directory, or an object store through pyarrow.

Names have the form `part/part/part`, each part made of letters, digits and `-_~%` (see `safe_name`). Any thread of any
process may use a store; a name appears in one step, with all its bytes, or not at all.
"""

from __future__ import annotations

import hashlib
import os
import secrets
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path
from typing import Protocol
from urllib.parse import quote

from pyarrow import ArrowException
from pyarrow.fs import FileSelector, FileSystem, FileType, HadoopFileSystem

from cep_common.process.atomic_files import sync_folder
from topology.checkpoint.errors import CheckpointUnreadableError, StoreUnreachableError

Buffer = bytes | memoryview
Range = tuple[int, int]
"""Offset and length."""

LONGEST_NAME = 100
_BEING_WRITTEN = ".being-written"
_PIECES_AT_ONCE = 512
"""The maximum number of buffers of one system call."""


class Blobs(Protocol):
    """A store of bytes under names.

    Every call raises StoreUnreachableError when the store cannot be used, and calls that read raise
    CheckpointUnreadableError (`missing`, `torn`).
    """

    def put(self, name: str, pieces: Sequence[Buffer]) -> None:
        """Store the concatenated pieces durably as `name`, replacing old content."""

    def get(self, name: str) -> bytes:
        """Return the content of `name`."""

    def get_ranges(self, name: str, ranges: Sequence[Range]) -> list[bytes]:
        """Return parts of the object `name`."""

    def sizes(self, folder: str) -> dict[str, int]:
        """Return the sizes of what is stored directly in `folder`, by the last part of the name.

        The result is empty when there is no such folder.
        """

    def folders(self, folder: str) -> tuple[str, ...]:
        """Return the folders directly in `folder`, by the last part of the name."""

    def delete(self, name: str) -> None:
        """Delete `name`, if it exists."""


def safe_name(text: str) -> str:
    """Return `text` as one part of a blob's name: different for different texts, and never a path out of its folder."""
    name = quote(text, safe="", errors="surrogatepass").replace(".", "%2E")
    if name and len(name) <= LONGEST_NAME:
        return name
    digest = hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:32]
    return f"{name[: LONGEST_NAME - 40]}~{digest}"


class DirectoryBlobs:
    """Files below `folder`, which all hosts must reach. Writes survive a power failure."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def put(self, name: str, pieces: Sequence[Buffer]) -> None:
        with _as_checkpoint_error(f"{self._folder}/{name}"):
            path = self._folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            unfinished = path.with_name(f"{path.name}.{secrets.token_hex(4)}{_BEING_WRITTEN}")
            try:
                _write_durably(unfinished, pieces)
                unfinished.replace(path)
            except BaseException:
                unfinished.unlink(missing_ok=True)
                raise
            sync_folder(path.parent)

    def get(self, name: str) -> bytes:
        with _as_checkpoint_error(f"{self._folder}/{name}"):
            return (self._folder / name).read_bytes()

    def get_ranges(self, name: str, ranges: Sequence[Range]) -> list[bytes]:
        with _as_checkpoint_error(f"{self._folder}/{name}"), (self._folder / name).open("rb") as file:
            found = [os.pread(file.fileno(), length, offset) for offset, length in ranges]
        return _whole(name, ranges, found)

    def sizes(self, folder: str) -> dict[str, int]:
        found = {}
        for entry in self._entries(folder):
            if entry.is_file() and not entry.name.endswith(_BEING_WRITTEN):
                with _as_checkpoint_error(entry.path), suppress(FileNotFoundError):  # deleted meanwhile
                    found[entry.name] = entry.stat().st_size
        return found

    def folders(self, folder: str) -> tuple[str, ...]:
        return tuple(sorted(entry.name for entry in self._entries(folder) if entry.is_dir()))

    def delete(self, name: str) -> None:
        with _as_checkpoint_error(f"{self._folder}/{name}"):
            (self._folder / name).unlink(missing_ok=True)

    def _entries(self, folder: str) -> list[os.DirEntry[str]]:
        with _as_checkpoint_error(f"{self._folder}/{folder}"), suppress(FileNotFoundError):
            return list(os.scandir(self._folder / folder))
        return []


class ObjectBlobs:
    """Objects below `folder` of a file system of pyarrow's (S3, GCS, HDFS), shown to users as `shown`.

    An object store shows an object when it is complete, and the old content until then; in HDFS a file gets its name
    when it is complete. `endpoint` is the server's name for error messages, if any.
    """

    def __init__(self, system: FileSystem, folder: str, shown: str, endpoint: str = "") -> None:
        self._system = system
        self._folder = folder.rstrip("/")
        self._shown = shown.rstrip("/")
        self._endpoint = endpoint
        self._has_folders = system.type_name not in ("s3", "gcs")

    def put(self, name: str, pieces: Sequence[Buffer]) -> None:
        path = f"{self._folder}/{name}"
        with self._as_checkpoint_error(name):
            if self._has_folders and (parent := path.rpartition("/")[0]):
                self._system.create_dir(parent, recursive=True)
            unfinished = f"{path}.{secrets.token_hex(4)}{_BEING_WRITTEN}"
            written = unfinished if isinstance(self._system, HadoopFileSystem) else path
            with self._system.open_output_stream(written) as stream:
                for piece in pieces:
                    stream.write(piece)
            if written is unfinished:
                self._system.move(unfinished, path)

    def get(self, name: str) -> bytes:
        with self._as_checkpoint_error(name), self._system.open_input_stream(f"{self._folder}/{name}") as stream:
            return bytes(stream.read())

    def get_ranges(self, name: str, ranges: Sequence[Range]) -> list[bytes]:
        with self._as_checkpoint_error(name), self._system.open_input_file(f"{self._folder}/{name}") as file:
            found = [bytes(file.read_at(length, offset)) for offset, length in ranges]
        return _whole(name, ranges, found)

    def sizes(self, folder: str) -> dict[str, int]:
        files = (info for info in self._list(folder) if info.type is FileType.File)
        return {info.base_name: info.size for info in files if not info.base_name.endswith(_BEING_WRITTEN)}

    def folders(self, folder: str) -> tuple[str, ...]:
        if self._system.type_name != "gcs":
            return tuple(sorted(info.base_name for info in self._list(folder) if info.type is FileType.Directory))
        # For GCS, pyarrow lists only folders that also exist as an object.
        prefix = f"{self._folder}/{folder}".rstrip("/") + "/"
        below = (info.path.removeprefix(prefix).split("/") for info in self._list(folder, recursive=True))
        return tuple(sorted({first for first, *deeper in below if deeper}))

    def delete(self, name: str) -> None:
        with self._as_checkpoint_error(name), suppress(FileNotFoundError):
            self._system.delete_file(f"{self._folder}/{name}")

    def _list(self, folder: str, recursive: bool = False) -> list[_FileInfo]:
        path = f"{self._folder}/{folder}".rstrip("/")
        with self._as_checkpoint_error(folder):
            selector = FileSelector(path, allow_not_found=True, recursive=recursive)
            found: list[_FileInfo] = self._system.get_file_info(selector)
            return found

    def _as_checkpoint_error(self, name: str) -> AbstractContextManager[None]:
        return _as_checkpoint_error(
            f"{self._shown}/{name}".rstrip("/"), f" at {self._endpoint}" if self._endpoint else ""
        )


class _FileInfo(Protocol):
    """The file information of pyarrow."""

    path: str
    base_name: str
    type: FileType
    size: int


@contextmanager
def _as_checkpoint_error(where: str, server: str = "") -> Iterator[None]:
    """Errors of files as those of a store."""
    try:
        yield
    except FileNotFoundError as error:
        raise CheckpointUnreadableError("missing", f"{where} is not there") from error
    except (OSError, ArrowException) as error:
        raise StoreUnreachableError(f"{where}{server} cannot be used: {error}") from error


def _whole(name: str, ranges: Sequence[Range], found: list[bytes]) -> list[bytes]:
    for (offset, length), data in zip(ranges, found, strict=True):
        if len(data) != length:
            raise CheckpointUnreadableError("torn", f"{name} ends before byte {offset + length}")
    return found


def _write_durably(path: Path, pieces: Sequence[Buffer]) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o640)
    try:
        for start in range(0, len(pieces), _PIECES_AT_ONCE):
            group = [memoryview(piece) for piece in pieces[start : start + _PIECES_AT_ONCE] if len(piece)]
            while group:
                written = os.writev(descriptor, group)
                while group and written >= group[0].nbytes:
                    written -= group.pop(0).nbytes
                if group:
                    group[0] = group[0][written:]
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
