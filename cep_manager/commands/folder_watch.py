"""The watched folder in the manager's process: a thread that scans the files and executes what `PlanFolder` decides."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Collection, Mapping
from pathlib import Path, PurePath
from typing import Protocol

from cep_common.errors import CepError
from cep_common.ids import PlanKey
from cep_common.monitoring.paced_log import PacedLog
from cep_manager.config import PlanFolderConfig
from cep_manager.errors import ManagerError, NotLeaderError
from cep_manager.plans.folder import SUFFIX, FileOrigin, FileProblem, PlanFolder, Stamp, origin_of, tenant_of
from query_plan.plan_names import named_after

logger = logging.getLogger(__name__)
paced_logger = PacedLog(logger)

LARGEST_BYTES = 1_048_576
"""The maximum size of a plan file."""


class FilePlans(Protocol):
    """The plans as the folder needs them; every method may raise CepError."""

    def origins(self) -> Mapping[PlanKey, FileOrigin | None]:
        """Return every deployed plan and its file; None if it was deployed by hand."""

    def deploy_file(
        self, tenant: int, text: str, origin: FileOrigin, files: Collection[str], *, edited: bool = False
    ) -> None:
        """Deploy the plan in `text` in place of the one that came from its file before.

        It also replaces a plan from a file that is not among the `files` of the folder any longer, and one of another
        node's file if this file was `edited` here. Raises PlanExistsError when a plan of its name was deployed in
        another way.
        """

    def undeploy(self, key: PlanKey) -> object:
        """Undeploy the plan once what was accepted is processed."""


EMPTY = (
    "the folder is empty, and no file has been seen in it, as when its volume is not mounted; plans of its files stay "
    "until there is a file in it, or they are undeployed by hand"
)


class PlanFolderWatch:
    """Polls the folder until stopped. A folder that cannot be read is reported and changes nothing."""

    def __init__(self, config: PlanFolderConfig, plans: FilePlans, node: str = "") -> None:
        self._config = config
        self._node = node
        self._path = Path(config.path)
        self._plans = plans
        self._folder = PlanFolder(node)
        self._problems: tuple[FileProblem, ...] = ()
        self._had_files: tuple[int, int] | None = None
        """Device and inode of the last folder that contained files."""
        self._again_at: float | None = None
        """When to retry files that wait for Kafka (monotonic)."""
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="plan-folder", daemon=True)

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def stop(self) -> None:
        """Stop the thread and wait until it has ended."""
        self._stopping.set()
        if self._thread.ident is not None:
            self._thread.join()

    def problems(self) -> tuple[FileProblem, ...]:
        """Return why files are not deployed. Any thread may call this."""
        return self._problems

    def look(self) -> None:
        """Scan the folder once."""
        try:
            files = _files(self._path)
            status = self._path.stat()
        except OSError as error:
            self._tell((FileProblem(str(self._path), f"the folder cannot be read: {error.strerror}"),))
            return
        if self._again_at is not None and time.monotonic() >= self._again_at:
            self._again_at = None
            self._folder.try_again()
        try:
            findings = self._folder.look(files, self._plans.origins())
            for name in findings.changed:
                self._deploy(name, files)
            if files:
                self._had_files = status.st_dev, status.st_ino
            elif findings.gone and self._had_files != (status.st_dev, status.st_ino):
                plans = ", ".join(key.plan for key in findings.gone)
                self._tell((FileProblem(str(self._path), f"{EMPTY}: {plans}"),))
                return
            for key in findings.gone:
                logger.info("file is gone, its plan is undeployed plan=%s", key.topology())
                self._plans.undeploy(key)
        except NotLeaderError:  # the leader scans the folder; a new leader scans all of it
            self._folder = PlanFolder(self._node)
            self._tell(())
            return
        except CepError as error:  # the manager or its store is not available now: the next scan continues
            self._tell((*self._folder.problems(), FileProblem(str(self._path), error.message)))
            return
        self._tell(self._folder.problems())

    def _run(self) -> None:
        while not self._stopping.wait(self._config.interval_ms / 1_000):
            try:
                self.look()
            except Exception:
                # outermost frame of the thread: an error in one scan must not end the thread
                paced_logger.exception("folder could not be read path=%s", self._path)

    def _deploy(self, name: str, files: Mapping[str, Stamp]) -> None:
        _, size = files[name]
        if size > LARGEST_BYTES:
            self._folder.handled(name, f"it has {size} bytes; a plan may have {LARGEST_BYTES}")
            return
        try:
            contents = (self._path / name).read_bytes()
            origin = origin_of(name, contents, self._node)
            if any(one is not None and one.is_equal(origin) for one in self._plans.origins().values()):
                self._folder.note_shared(name)
            else:
                text = named_after(contents.decode("utf-8"), PurePath(name).stem)
                edited = self._folder.is_edited(name)
                self._plans.deploy_file(tenant_of(name), text, origin, files, edited=edited)
        except UnicodeDecodeError as error:
            self._folder.handled(name, f"it is not UTF-8 text (byte {error.start})")
        except (ValueError, OSError) as error:
            self._folder.handled(name, str(error))
        except CepError as error:
            if error.code in _PASSING:
                raise
            if error.code in _OF_KAFKA and self._again_at is None:
                self._again_at = time.monotonic() + KAFKA_AGAIN_S
            self._folder.handled(name, _problem(error), waits=error.code in _IN_ITS_WAY | _OF_KAFKA)
        else:
            self._folder.handled(name)

    def _tell(self, problems: tuple[FileProblem, ...]) -> None:
        for one in problems:
            if one not in self._problems:
                logger.warning("file is not deployed file=%s reason=%r", one.name, one.problem)
        self._problems = problems


_PASSING = frozenset({"plan-store", "manager-unavailable", "not-leader"})
"""Errors that are not caused by the file, which is retried."""
_IN_ITS_WAY = frozenset({"plan-exists", "over-quota", "change-under-way"})
"""Errors that may be resolved once other plans or files are removed."""
_OF_KAFKA = frozenset({"kafka-unavailable", "topic-refused"})
"""Errors that may be resolved once brokers answer, or topics are created or deleted; other files do not wait for
that."""
KAFKA_AGAIN_S = 30.0


def _problem(error: CepError) -> str:
    """Return the message of `error`, with the lines by which the file's text differs from that of a deployed plan."""
    details = error.details if isinstance(error, ManagerError) else {}
    return "\n".join((error.message, *details.get("difference", ())))


def _files(folder: Path) -> dict[str, Stamp]:
    """Return the files of the folder and of the tenants' folders in it, by their names within it. Raises OSError."""
    found: dict[str, Stamp] = {}
    for entry in folder.iterdir():
        for path in entry.iterdir() if entry.is_dir() else (entry,):
            if path.suffix == SUFFIX and path.is_file():
                status = path.stat()
                found[path.relative_to(folder).as_posix()] = (status.st_mtime_ns, status.st_size)
    return found
