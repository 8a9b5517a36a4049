"""The event-sync server of a passive worker: keeps a copy of the active worker's files, up to its last batch.

Batches are applied as a whole: an incomplete batch of a sender that died changes nothing. Only the sender with the
newest token is accepted, and none once this node has taken over.
"""

from __future__ import annotations

import logging
import os
import shutil
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import zmq

from cep_common.errors import DecodeError
from cep_common.process.atomic_files import write_atomically
from cep_common.process.private_folders import make_private
from cep_common.protocol.codec import MAXIMUM_DATA_BYTES, decode, encode
from cep_common.protocol.mirrors import (
    FileChange,
    MirrorApplied,
    MirrorChanges,
    MirroredFile,
    MirrorOpened,
    OpenMirror,
)
from cep_common.protocol.registry import Message
from cep_common.security.roles import SocketKind
from cep_common.sockets.transport import bind, listening_socket, receive, send_now
from cep_worker.mirror.folders import below, checksum, mirrored_files

logger = logging.getLogger(__name__)

POLL_MS = 50
FILES_AT_ONCE = 500


class Copy:
    """The files of the active worker in `root`. Belongs to one thread."""

    def __init__(self, root: Path, sync_ms: int | None) -> None:
        """Sync files before their batch is acknowledged (`sync_ms` 0), or every `sync_ms` (None: never explicitly)."""
        self._root = root
        self._sync_ms = sync_ms
        self._unsynced: set[Path] = set()
        self._synced_at = time.monotonic()
        self.bytes = 0
        """Bytes applied since the process started."""

    def files(self) -> Iterator[MirroredFile]:
        """Return the files of the copy."""
        for path in mirrored_files(self._root):
            size = path.stat().st_size
            yield MirroredFile(path.relative_to(self._root).as_posix(), size, checksum(path, size) or 0)

    def apply(self, changes: list[tuple[FileChange, Any]]) -> None:
        """Apply all changes. Raises OSError, and ValueError for a change that does not fit the files."""
        for change, body in changes:
            path = below(self._root, change.path)
            match change.kind:
                case "remove":
                    self._remove(path)
                case "replace":
                    make_private(path.parent)
                    write_atomically(path, body)
                case "append":
                    self._append(path, change.offset, body)
            self._unsynced.add(path)
            self.bytes += len(body)
        if self._sync_ms == 0:
            self.sync()

    def tick(self) -> None:
        """Sync written files to disk when it is due."""
        if self._sync_ms and self._unsynced and (time.monotonic() - self._synced_at) * 1000 >= self._sync_ms:
            self.sync()

    def sync(self) -> None:
        """Sync all written files to disk. Raises OSError."""
        unsynced, self._unsynced = self._unsynced, set()
        for path in (*unsynced, *{path.parent for path in unsynced}):
            try:
                descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
            except (FileNotFoundError, NotADirectoryError):
                continue
            try:
                os.fsync(descriptor)
            finally:
                os.close(descriptor)
        self._synced_at = time.monotonic()

    def _append(self, path: Path, offset: int, body: Any) -> None:
        make_private(path.parent)
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            size = os.fstat(descriptor).st_size
            if size < offset:
                raise ValueError(f"{path} has {size} bytes, the change begins at {offset}")
            written = 0
            while written < len(body):
                written += os.pwrite(descriptor, memoryview(body)[written:], offset + written)
            if size > offset + written:
                os.ftruncate(descriptor, offset + written)
        finally:
            os.close(descriptor)

    def _remove(self, path: Path) -> None:
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink(missing_ok=True)
        parent = path.parent
        while parent != self._root and parent.is_dir() and not any(parent.iterdir()):
            parent.rmdir()
            parent = parent.parent


class MirrorReceiver:
    """Runs the server in a separate thread, from `start` to `close`."""

    def __init__(
        self,
        context: zmq.Context[zmq.Socket[bytes]],
        host: str,
        port: int,
        copy: Copy,
        node: Callable[[], str],
    ) -> None:
        """Bind the port. `node` gives the name of this node. Raises PortInUseError."""
        self._socket = listening_socket(context, SocketKind.MIRROR, host, MAXIMUM_DATA_BYTES)
        try:
            bind(self._socket, host, port, "the active node's events (deployment.config.eventSyncServer.port)")
        except BaseException:
            self._socket.close()
            raise
        self._copy = copy
        self._node = node
        self._session = ""
        self._pending: list[tuple[FileChange, Any]] = []
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="mirror")
        self.token = 0
        """The newest token that was seen."""
        self.heard_at: float | None = None
        """When the active node was heard last (monotonic seconds)."""
        self.failure: BaseException | None = None

    @property
    def mirrored_bytes(self) -> int:
        """Return the bytes applied since the process started."""
        return self._copy.bytes

    def start(self) -> None:
        """Start the server thread."""
        self._thread.start()

    def close(self) -> None:
        """Stop the server; all acknowledged batches are applied and on disk. Raises OSError."""
        self._stopping.set()
        if self._thread.ident is not None:
            self._thread.join()
        self._socket.close()
        self._copy.sync()

    def _run(self) -> None:
        try:
            while not self._stopping.is_set():
                if self._socket.poll(POLL_MS):
                    self._receive()
                self._copy.tick()
        except BaseException as failure:
            logger.exception("the mirror failed")
            self.failure = failure

    def _receive(self) -> None:
        peer, *frames = receive(self._socket)
        try:
            envelope = decode(frames)
        except DecodeError as error:
            logger.warning("invalid message at the mirror: reason=%s", error)
            return
        match envelope.message:
            case OpenMirror() as opening:
                self._open(peer, opening)
            case MirrorChanges() as changes:
                self._change(peer, changes, envelope.bodies)
            case other:
                logger.warning("unexpected message: type=%s", other.TYPE)

    def _open(self, peer: bytes, opening: OpenMirror) -> None:
        if opening.token < self.token:
            self._send(peer, MirrorApplied(opening.session, 0, self.token, "fenced"))
            return
        self.token, self._session, self._pending = opening.token, opening.session, []
        self.heard_at = time.monotonic()
        logger.info("the active node mirrors its events here: node=%s token=%d", opening.node, opening.token)
        files = list(self._copy.files())
        parts = [files[start : start + FILES_AT_ONCE] for start in range(0, len(files), FILES_AT_ONCE)] or [[]]
        for number, part in enumerate(parts, start=1):
            self._send(peer, MirrorOpened(opening.session, self._node(), tuple(part), last=number == len(parts)))

    def _change(self, peer: bytes, message: MirrorChanges, bodies: tuple[Any, ...]) -> None:
        session, number = message.session, message.number
        if message.token < self.token:
            self._send(peer, MirrorApplied(session, number, self.token, "fenced"))
            return
        if session != self._session:
            self._send(peer, MirrorApplied(session, number, self.token, "another session has begun"))
            return
        self.heard_at = time.monotonic()
        following = iter(bodies)
        self._pending += [(one, b"" if one.kind == "remove" else next(following, b"")) for one in message.changes]
        if not message.last:
            return
        pending, self._pending = self._pending, []
        try:
            self._copy.apply(pending)
        except (OSError, ValueError) as error:
            logger.error("the active node's events cannot be stored: reason=%s", error)  # noqa: TRY400 - the text says it all
            self._session = ""
            self._send(peer, MirrorApplied(session, number, self.token, str(error)))
            return
        self._send(peer, MirrorApplied(session, number, self.token))

    def _send(self, peer: bytes, message: Message) -> None:
        send_now(self._socket, [peer, *encode(message)])
