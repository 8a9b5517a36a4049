"""The files through which the processes of one node communicate: `role.json`, `mirror.json` and `drained`.

The driver writes its process id to `drained` when its topologies have ended; its Spark session takes longer to end.
Each has one writer and is replaced as a whole. Times are of the host's monotonic clock, which all its processes share.
"""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import Generic, Literal, TypeVar

import msgspec

from cep_common.ids import Endpoint
from cep_common.process.atomic_files import write_atomically

ROLE_FILE, MIRROR_FILE, DRAINED_FILE = "role.json", "mirror.json", "drained"

NodeOrder = Literal["", "restart", "stop"]
ProtectionState = Literal["passive", "alone", "catching-up", "joining", "confirming", "protected", "leaving", "left"]


class NodeRole(msgspec.Struct, frozen=True):
    """The role of the node, written by its manager.

    Attributes:
        node: The node's name.
        token: The token of the lease that this node holds, or 0.
        until_ms: The node is active before this monotonic time, if it holds the lease.
        peer: The name of the other node; empty: none is known.
        peer_sync: The address of the other node's event-sync server when it is passive.
        peer_in_sync: Whether, according to the database, the other node has every acknowledged event.
        answered: The number of the newest request of `MirrorReport` that the database has confirmed, made by the
            process `answered_process`.
        order: The administrator's order to the node: `restart` ends all its processes in order and starts them again,
            so that the other node takes over from an active one; `stop` ends the node.
        order_until_ms: Monotonic time at which the order expires if the node has not accepted it.
    """

    node: str
    token: int = 0
    until_ms: int = 0
    peer: str = ""
    peer_sync: Endpoint | None = None
    peer_in_sync: bool = False
    answered: int = 0
    answered_process: int = 0
    order: NodeOrder = ""
    order_until_ms: int = 0

    def order_at(self, now_ms: int) -> NodeOrder:
        """Return the order that is valid at this monotonic time, or an empty one: orders expire."""
        return self.order if now_ms < self.order_until_ms else ""

    def is_active(self, now_ms: int) -> bool:
        """Return whether the node holds the lease at this monotonic time."""
        return self.token > 0 and now_ms < self.until_ms


class MirrorReport(msgspec.Struct, frozen=True):
    """The state of the mirror of the node's worker, and what the worker asks the manager to record.

    Attributes:
        state: See `cep_worker.mirror.protection`; `left` when a protected worker has ended in order: its ports are
            closed, and the passive node has everything.
        token: The token under which the worker is active, or the newest that a passive worker has seen.
        process: The worker's process id: request numbers count within one process.
        request: The number of the newest request, 0: none yet.
        wants_in_sync: Whether that request asks to record the other node as in sync.
        since_ms: Time of day of the last change of state.
        reason: Why the state is not `protected`.
        lag_ms: How long the oldest change has waited for the passive node, or 0.
        lag_bytes: Bytes that the passive node does not have yet.
        could_lose: Batches that are acknowledged and that the passive node does not have yet.
        mirrored_bytes: Bytes sent (active) or applied (passive) since the process started.
    """

    state: ProtectionState
    token: int = 0
    process: int = 0
    request: int = 0
    wants_in_sync: bool = False
    since_ms: int = 0
    reason: str = ""
    lag_ms: int = 0
    lag_bytes: int = 0
    could_lose: int = 0
    mirrored_bytes: int = 0


Kind = TypeVar("Kind", NodeRole, MirrorReport)


def write_file(path: Path, value: NodeRole | MirrorReport) -> None:
    """Replace the file at `path`. Raises OSError."""
    write_atomically(path, msgspec.json.encode(value), several_writers=True)


class FileView(Generic[Kind]):
    """The contents of one of these files, read again only after it was replaced. Belongs to one thread."""

    def __init__(self, path: Path, kind: type[Kind]) -> None:
        """Create the view of a file that another process writes.

        Args:
            path: The file; it need not exist yet.
            kind: The type that its JSON is decoded to.
        """
        self._path = path
        self._kind: type[Kind] = kind
        self._seen: tuple[int, int] | None = None
        self._value: Kind | None = None

    def read(self) -> Kind | None:
        """Return the newest content, or None when there is no readable file."""
        try:
            status = self._path.stat()
        except OSError:
            self._seen = self._value = None
            return None
        seen = (status.st_ino, status.st_mtime_ns)
        if seen != self._seen:
            with contextlib.suppress(OSError, msgspec.MsgspecError, UnicodeDecodeError):
                self._value = msgspec.json.decode(self._path.read_bytes(), type=self._kind)
                self._seen = seen
        return self._value
