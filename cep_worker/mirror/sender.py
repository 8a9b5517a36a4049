"""The active worker's side of the mirror: sends changes in batches, and tracks what the passive node has.

One batch is in flight at a time; changes meanwhile are in the next one. So the passive node determines the pace, and
each acknowledgement waits for two round trips at most.
"""

from __future__ import annotations

import logging
import os
import threading
import time
import uuid
from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import Any

import zmq

from cep_common.errors import DecodeError
from cep_common.ids import Endpoint
from cep_common.monitoring.paced_log import PacedLog
from cep_common.nodes.config import WorkerNode
from cep_common.nodes.files import MIRROR_FILE, MirrorReport, ProtectionState, write_file
from cep_common.nodes.role_watch import FENCED, RoleWatch, monotonic_ms
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
from cep_common.sockets.transport import connecting_socket, receive_now, send_now
from cep_worker.mirror.folders import checksum, is_mirrored, mirrored_files
from cep_worker.mirror.protection import Instruction, Protection, Record, Release, State
from cep_worker.storage.file_changes import FileChanges

logger = logging.getLogger(__name__)
paced_logger = PacedLog(logger)

GROWS = (".segment", ".results")
"""Suffixes of append-only files, whose new bytes are sent; other files are sent whole."""
BATCH_BYTES = 8 * 1024 * 1024
BODY_BYTES = 4 * 1024 * 1024
MOST_CHANGES = 1_000
SWEEP_S = 0.3
"""Interval at which the folder is compared with the sent state, to find deletions and unreported changes."""
BEAT_S = 0.25
"""Interval of heartbeats while nothing else is sent."""
REPORT_S = 0.2
RETRY_S = 0.5
OPEN_S = 60.0
"""How long the passive node may take to list its files."""
FLUSH_S = 5.0


class LostError(Exception):
    """The passive node does not respond, or refused something."""


class MirrorSender:
    """Mirrors the worker's folder from `start` to `close`. `when_mirrored` belongs to the data thread."""

    def __init__(
        self,
        config: WorkerNode,
        context: zmq.Context[zmq.Socket[bytes]],
        watch: RoleWatch,
        changes: FileChanges,
        wall_ms: Callable[[], int],
        ended: Callable[[int], None] = os._exit,
    ) -> None:
        """Create a sender; `changes` collects what the stores write.

        `ended` is called with the exit code when this node is fenced.
        """
        self._config = config
        self._context = context
        self._watch = watch
        self._changes = changes
        self._wall_ms = wall_ms
        self._ended = ended
        self._root = changes.root
        self._post: Callable[[Callable[[], None]], None] = lambda call: call()
        self._lock = threading.Lock()
        self._protection = Protection(monotonic_ms())
        self._since_ms = wall_ms()
        self._next = 1
        """The number of the batch that will contain present changes."""
        self._waiting: deque[tuple[int, int, Callable[[], None]]] = deque()
        self._ahead: deque[int] = deque()
        """The numbers of the mirror batches with events that are acknowledged and not mirrored yet."""
        self._sent: dict[str, int] = {}
        self._seen: dict[str, tuple[int, int, int]] = {}
        self._pending: dict[Path, None] = {}
        self._socket: zmq.Socket[bytes] | None = None
        self._session = ""
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="mirror")
        self._swept_at = self._reported_at = 0.0
        self._bytes = 0
        self._request: Record | None = None
        self.failure: BaseException | None = None

    def attach(self, post: Callable[[Callable[[], None]], None]) -> None:
        """Use `post` to run released calls on the data thread."""
        self._post = post

    def start(self) -> None:
        """Start the mirror's thread."""
        self._thread.start()

    def when_mirrored(self, call: Callable[[], None]) -> None:
        """Run `call`, which acknowledges stored events, when the passive node has these events, too.

        It runs at once if this node is alone, and never if the node is no longer active.
        """
        with self._lock:
            waits = self._protection.waits
            if waits and not (self._may_run_ahead()):
                self._waiting.append((self._next, monotonic_ms(), call))
                self._changes.wanted.set()
                return
            if waits:
                self._ahead.append(self._next)
        if self._watch.holds():
            call()

    def is_behind(self) -> bool:
        """Return whether acknowledgements wait for the passive node. Any thread may call this."""
        with self._lock:
            return bool(self._waiting)

    def close(self) -> None:
        """Send pending changes while the passive node accepts them in time, and stop.

        If it accepts everything, this is reported to the manager, which lets the passive node take over.
        """
        self._stopping.set()
        self._changes.wanted.set()
        if self._thread.ident is not None:
            self._thread.join()
        if self._protection.state is State.PROTECTED and not self._pending:
            self._watch.close()  # the node is about to become passive
            self._report("left")

    def _may_run_ahead(self) -> bool:
        settled = self._protection.state is not State.LEAVING
        return self._config.mirror == "async" and settled and len(self._ahead) < self._config.queue

    # ---- the mirror's thread ----------------------------------------------------------------------------------------

    def _run(self) -> None:
        try:
            self._do(self._protection.begin(monotonic_ms()))
            while not self._stopping.is_set():
                self._follow_role()
                peer = self._peer()
                if peer is None or self._protection.state is not State.ALONE:
                    self._stopping.wait(0.01 if self._protection.state is State.LEAVING else RETRY_S)
                    continue
                try:
                    self._mirror(peer)
                except LostError as error:
                    self._lost(str(error))
                    self._stopping.wait(RETRY_S)
        except BaseException as failure:
            logger.exception("the mirror failed")
            self.failure = failure
            self._ended(1)
        finally:
            self._disconnect()

    def _peer(self) -> Endpoint | None:
        role = self._watch.role
        return role.peer_sync if role is not None else None

    def _mirror(self, peer: Endpoint) -> None:
        """Mirror to `peer` until it is lost (LostError), or this process shuts down."""
        found = self._open(peer)
        self._compare(found)
        self._do(self._protection.linked(monotonic_ms()))
        flush_until: float | None = None
        while True:
            wanted = self._changes.wanted.wait(BEAT_S) if not self._pending else True
            self._changes.wanted.clear()
            if self._peer() != peer:
                raise LostError("the other node has a new address")
            if wanted or not self._stopping.is_set():
                self._batch()
            self._follow_role()
            if self._stopping.is_set():
                flush_until = flush_until or time.monotonic() + FLUSH_S
                self._sweep()
                if not self._pending:
                    return
                if time.monotonic() > flush_until:
                    lacks = ", ".join(self._name(path) for path in self._pending)
                    logger.warning(
                        "the passive node did not receive everything within %.0f s: files=%s", FLUSH_S, lacks
                    )
                    return

    def _open(self, peer: Endpoint) -> list[MirroredFile]:
        self._disconnect()
        self._session = uuid.uuid4().hex
        self._socket = connecting_socket(self._context, SocketKind.MIRROR, MAXIMUM_DATA_BYTES)
        self._socket.connect(peer.url())
        role = self._watch.role
        self._send(OpenMirror(self._watch.token, role.node if role is not None else "", self._session))
        found: list[MirroredFile] = []
        while True:
            answer = self._receive(OPEN_S if found else self._config.timeout_ms / 1000 * 2)
            if isinstance(answer, MirrorApplied):
                raise self._refused(answer)
            if isinstance(answer, MirrorOpened) and answer.session == self._session:
                found += answer.files
                if answer.last:
                    return found

    def _compare(self, found: list[MirroredFile]) -> None:
        """Determine what the passive node lacks."""
        self._sent, self._seen, self._pending = {}, {}, {}
        theirs = {one.path: one for one in found}
        with self._lock:
            self._ahead.clear()
        for path in mirrored_files(self._root):
            name = self._name(path)
            other = theirs.pop(name, None)
            if other is not None and checksum(path, other.size) == other.crc and self._fits(path, other.size):
                self._sent[name] = other.size
            self._pending[path] = None
        for name in theirs:
            self._sent[name] = 0
            self._pending[self._root / name] = None

    def _fits(self, path: Path, size: int) -> bool:
        return size <= self._size(path) if path.name.endswith(GROWS) else size == path.stat().st_size

    def _batch(self) -> None:
        """Send pending changes, and wait until they are applied. Raises LostError."""
        began_ms = monotonic_ms()
        with self._lock:
            number, self._next = self._next, self._next + 1
        for path in self._changes.take():
            self._pending[path] = None
        if time.monotonic() - self._swept_at >= SWEEP_S:
            self._sweep()
        complete = self._send_changes(number)
        answer = self._await(number)
        self._bytes += answer
        now_ms = monotonic_ms()
        with self._lock:
            instructions = self._protection.applied(began_ms, now_ms) if complete else []
            if complete:
                instructions += self._protection.caught_up(now_ms)
        if complete:
            self._release(number)
        self._do(instructions)
        if instructions or time.monotonic() - self._reported_at >= REPORT_S:
            self._report()

    def _send_changes(self, number: int) -> bool:
        """Send the batch, and return whether it contains all pending changes."""
        budget, changes, bodies = BATCH_BYTES, list[FileChange](), list[Any]()
        self._in_batch = 0
        # files that record progress first, since read later they would refer to data that is not sent yet
        for path in sorted(self._pending, key=lambda one: one.name.endswith(GROWS)):
            if budget <= 0 or len(changes) >= MOST_CHANGES:
                break
            taken = self._change_of(path, min(budget, BODY_BYTES))
            if taken is None:
                self._pending.pop(path)
                continue
            change, body, whole = taken
            changes.append(change)
            if change.kind != "remove":
                bodies.append(body)
                budget -= len(body)
                self._in_batch += len(body)
            if whole:
                self._pending.pop(path)
        self._send(MirrorChanges(self._watch.token, self._session, number, tuple(changes)), bodies)
        return not self._pending

    def _change_of(self, path: Path, most: int) -> tuple[FileChange, bytes, bool] | None:
        """Return the change that the passive node needs, if any, and whether it is the last one of the file."""
        name = self._name(path)
        try:
            if not path.name.endswith(GROWS):
                body = path.read_bytes()
                self._sent[name] = len(body)
                return FileChange("replace", name), body, True
            size, offset = self._size(path), self._sent.get(name, 0)
            if offset > size:
                offset = 0
            elif offset == size and name in self._sent:
                path.stat()  # it was deleted without a report
                return None
            with path.open("rb") as file:
                body = os.pread(file.fileno(), min(size - offset, most), offset)
        except (FileNotFoundError, NotADirectoryError, IsADirectoryError):
            if path.is_dir() or name not in self._sent:
                return None
            self._changes.forget(path)
            self._sent.pop(name)
            self._seen.pop(name, None)
            return FileChange("remove", name), b"", True
        self._sent[name] = offset + len(body)
        return FileChange("append", name, offset), body, offset + len(body) >= size or not body

    def _sweep(self) -> None:
        """Find unreported changes and deletions."""
        self._swept_at = time.monotonic()
        present: set[str] = set()
        for path in mirrored_files(self._root):
            name = self._name(path)
            present.add(name)
            try:
                status = path.stat()
            except FileNotFoundError:
                continue
            seen = (status.st_ino, status.st_size, status.st_mtime_ns)
            if self._seen.get(name) == seen:
                continue
            self._seen[name] = seen
            if not path.name.endswith(GROWS) or self._size(path) != self._sent.get(name):
                self._pending[path] = None
        for name in self._sent.keys() - present:
            self._pending[self._root / name] = None

    def _size(self, path: Path) -> int:
        noted = self._changes.size_of(path)
        return noted if noted is not None else path.stat().st_size

    def _name(self, path: Path) -> str:
        return path.relative_to(self._root).as_posix()

    def _await(self, number: int) -> int:
        while True:
            answer = self._receive(self._config.timeout_ms / 1000)
            if isinstance(answer, MirrorApplied) and answer.session == self._session:
                if answer.error:
                    raise self._refused(answer)
                if answer.number >= number:
                    return self._in_batch

    def _refused(self, answer: MirrorApplied) -> LostError:
        if answer.token > self._watch.token:
            logger.error(
                "another node is active, this one was fenced: token=%d theirs=%d", self._watch.token, answer.token
            )
            logging.shutdown()
            self._ended(FENCED)
        return LostError(f"the passive node refused events: {answer.error}")

    def _lost(self, reason: str) -> None:
        self._disconnect()
        with self._lock:
            protected = self._protection.state in (State.CONFIRMING, State.PROTECTED)
            instructions = self._protection.lost(reason, monotonic_ms())
        if protected:
            logger.error("NOT PROTECTED: accepted events are on this node only: reason=%s", reason)
        else:
            paced_logger.problem("mirror", "the passive node cannot be reached: reason=%s", reason)
        self._do(instructions)

    def _follow_role(self) -> None:
        role = self._watch.role
        if role is None or self._request is None or role.token != self._watch.token:
            return
        if role.answered_process == os.getpid() and role.answered >= self._request.number:
            number, self._request = self._request.number, None
            with self._lock:
                instructions = self._protection.recorded(number, monotonic_ms())
            if self._protection.state is State.PROTECTED:
                logger.info("protected: the passive node has every accepted event: node=%s", role.peer)
            self._do(instructions)
            self._report()
        elif time.monotonic() - self._reported_at >= REPORT_S:
            self._report()

    def _do(self, instructions: list[Instruction]) -> None:
        for instruction in instructions:
            match instruction:
                case Record():
                    self._request = instruction
                    self._report()
                case Release():
                    self._release(None)

    def _release(self, number: int | None) -> None:
        """Run the calls that wait for batches up to `number`; None: all."""
        with self._lock:
            while self._ahead and (number is None or self._ahead[0] <= number):
                self._ahead.popleft()
            calls = []
            while self._waiting and (number is None or self._waiting[0][0] <= number):
                calls.append(self._waiting.popleft()[2])
        if calls:
            self._post(lambda: self._run_calls(calls))

    def _run_calls(self, calls: list[Callable[[], None]]) -> None:
        if self._watch.holds():
            for call in calls:
                call()

    def _report(self, state: ProtectionState | None = None) -> None:
        protection, now_ms = self._protection, monotonic_ms()
        self._reported_at = time.monotonic()
        with self._lock:
            oldest = self._waiting[0][1] if self._waiting else now_ms
            ahead = len(self._ahead)
        report = MirrorReport(
            state=state or protection.state.value,
            token=self._watch.token,
            process=os.getpid(),
            request=protection.number,
            wants_in_sync=protection.in_sync,
            since_ms=self._wall_ms() - (now_ms - protection.since_ms),
            reason=protection.reason,
            lag_ms=now_ms - oldest,
            lag_bytes=sum(max(0, self._lacks(path)) for path in self._pending),
            could_lose=ahead,
            mirrored_bytes=self._bytes,
        )
        try:
            write_file(Path(self._config.folder) / MIRROR_FILE, report)
        except OSError as error:
            paced_logger.problem("report", "the mirror's state cannot be reported: reason=%s", error)

    def _lacks(self, path: Path) -> int:
        try:
            return self._size(path) - self._sent.get(self._name(path), 0)
        except OSError:
            return 0

    # ---- the socket -------------------------------------------------------------------------------------------------

    def _send(self, message: Message, bodies: list[Any] | None = None) -> None:
        # if this process was suspended, the other node may have become active, and its events must not be overwritten
        if not self._watch.holds():
            raise LostError("this node is no longer active")
        if self._socket is None or not send_now(self._socket, encode(message, bodies=bodies or ())):
            raise LostError("the passive node is not connected")

    def _receive(self, timeout_s: float) -> Message:
        """Return the next message. Raises LostError when none arrives in time."""
        assert self._socket is not None  # noqa: S101 - made by _open
        until = time.monotonic() + timeout_s
        while (left_s := until - time.monotonic()) > 0:
            if not self._socket.poll(int(min(left_s, 0.1) * 1000) + 1):
                self._follow_role()
                continue
            frames = receive_now(self._socket)
            try:
                if frames is not None:
                    return decode(frames).message
            except DecodeError as error:
                raise LostError(f"the passive node speaks another protocol: {error}") from error
        raise LostError(f"the passive node has not answered for {timeout_s * 1000:.0f} ms")

    def _disconnect(self) -> None:
        if self._socket is not None:
            self._socket.close()
            self._socket = None


def notes(path: Path) -> bool:
    """Return whether changes of the file are mirrored."""
    return is_mirrored(path.name)
