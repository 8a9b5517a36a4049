"""Whose a worker's folder is: the worker's own identity, and the system whose plans it serves, beside its logs."""

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
    """`identity` is drawn by chance when the folder is made.

    `inode` is that of the folder's lock file: a copy of the folder has another one, and gets an identity of its own;
    `copy_of` is the one that it had.
    """

    identity: str
    inode: int
    copy_of: str = ""


class ServedSystem(msgspec.Struct, frozen=True):
    """The identity of the database of the managers whose plans are served."""

    system: str


class Ownership:
    """The owner of a worker's folder. Any thread may use it."""

    def __init__(self, folder: Path, lock: Path) -> None:
        """Read what is in `folder`, or make it; `lock` is a file that stays there.

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
        """That of this process."""
        served = read_checked(folder / SYSTEM_FILE, ServedSystem)
        self._system = served.system if served is not None else ""
        self._refused = ""

    @property
    def system(self) -> str:
        """The system whose plans are served; empty until one is known."""
        return self._system

    @property
    def refused(self) -> str:
        """The system whose plans are refused now; empty: none."""
        return self._refused

    def serves(self, system: str) -> bool:
        """Return whether what managers of `system` say is to be followed.

        The first system that is heard is the one that is served.

        Raises:
            OSError: that cannot be noted.
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
