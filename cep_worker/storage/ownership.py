"""The owner of a worker's folder: the worker's identity, and the system whose plans it serves."""

from __future__ import annotations

import logging
import threading
import uuid
from pathlib import Path

import msgspec

from cep_worker.storage.checked_json import read_checked, write_checked

logger = logging.getLogger(__name__)

WORKER_FILE = "worker.json"
SYSTEM_FILE = "system.json"


class WorkerIdentity(msgspec.Struct, frozen=True):
    """The stored identity; `identity` is random, drawn when the folder is created.

    `inode` is that of the folder's lock file: a copy of the folder has another inode and gets a new identity, with the
    old one as `copy_of`.
    """

    identity: str
    inode: int
    copy_of: str = ""


class ServedSystem(msgspec.Struct, frozen=True):
    """The identity of the database of the managers whose plans are served."""

    system: str


class Ownership:
    """The owner of a worker's folder. Thread-safe."""

    def __init__(self, folder: Path, lock: Path) -> None:
        """Read the owner in `folder`, or create it; `lock` is a permanent file there.

        Raises OSError.
        """
        self._folder = folder
        self._lock = threading.Lock()
        inode = lock.stat().st_ino
        found = read_checked(folder / WORKER_FILE, WorkerIdentity)
        if found is None or found.inode != inode:
            copy_of = found.identity if found is not None else ""
            if copy_of:
                logger.warning("the folder was copied or restored, the worker has a new identity: folder=%s", folder)
            found = WorkerIdentity(uuid.uuid4().hex, inode, copy_of)
            write_checked(folder / WORKER_FILE, found)
        self.worker = found
        self.instance = uuid.uuid4().hex
        """The identity of this process."""
        served = read_checked(folder / SYSTEM_FILE, ServedSystem)
        self._system = served.system if served is not None else ""
        self._refused = ""

    @property
    def system(self) -> str:
        """Return the system whose plans are served; empty until one is known."""
        return self._system

    @property
    def refused(self) -> str:
        """Return the system whose plans are refused now; empty: none."""
        return self._refused

    def serves(self, system: str) -> bool:
        """Return whether to follow managers of `system`.

        The first system that connects is the one that is served.

        Raises:
            OSError: the system cannot be saved.
        """
        with self._lock:
            if not system or system == self._system:
                self._refused = ""
                return True
            if self._system:
                self._refused = system
                return False
        self.adopt(system)
        return True

    def adopt(self, system: str) -> None:
        """Serve `system` from now on.

        Raises OSError.
        """
        with self._lock:
            write_checked(self._folder / SYSTEM_FILE, ServedSystem(system))
            if self._system and self._system != system:
                logger.warning("now serving another system: system=%s before=%s", system, self._system)
            self._system, self._refused = system, ""
