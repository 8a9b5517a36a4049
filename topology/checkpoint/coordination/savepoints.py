"""Savepoints as a driver reports them: stored ones, and requested ones that are not stored yet."""

from __future__ import annotations

import logging

import msgspec

from cep_common.ids import PlanKey
from cep_common.protocol.drivers import SavepointReport
from topology.checkpoint.coordination.archive import Archive
from topology.checkpoint.coordination.storing import Storing
from topology.checkpoint.errors import CheckpointError
from topology.checkpoint.storage.store import Savepoint

logger = logging.getLogger(__name__)

MOST_FAILED = 16
"""The number of failed ones that are remembered."""
MOST_TOLD = 256
"""Number of the newest savepoints in reports."""

_Name = tuple[PlanKey, str]


class Savepoints:
    """The known savepoints of all plans. Not thread-safe: all calls come from the thread that `storing` notifies."""

    def __init__(self, storing: Storing) -> None:
        self._storing = storing
        self._kept: dict[_Name, SavepointReport] = {}
        self._asked: dict[_Name, SavepointReport] = {}
        self._kept_back: dict[_Name, str] = {}
        """Reasons why the deletion of savepoints was deferred."""

    def reports(self) -> tuple[SavepointReport, ...]:
        """Return the newest savepoints, and those that were requested last."""
        found = (
            msgspec.structs.replace(one, error=self._kept_back.get(name, ""))
            for name, one in self._kept.items()
            if name not in self._asked
        )
        kept = sorted(found, key=_age)
        return (*kept, *self._asked.values())[-MOST_TOLD:]

    def look(self, taken: _Name | None = None) -> None:
        """Look up which savepoints the store has, including the one that was just `taken`."""

        def listed(answer: list[SavepointReport] | CheckpointError) -> None:
            if isinstance(answer, CheckpointError):
                logger.warning("savepoints are not known: %s", answer)
                return
            self._kept = {(one.key, one.name): one for one in answer}
            if taken is not None:
                self._asked.pop(taken, None)

        self._storing.do(None, _reports, listed)

    def begun(self, key: PlanKey, name: str) -> None:
        """Record the request for a savepoint."""
        logger.info("savepoint asked for: topology=%s name=%s", key.topology(), name)
        self._asked[key, name] = SavepointReport(key, name, "taking")

    def ended(self, key: PlanKey, name: str, error: str) -> None:
        """Record that the requested savepoint is stored, or failed for the reason `error`."""
        logger.info("savepoint ended: topology=%s name=%s error=%s", key.topology(), name, error or "none")
        if not error:
            self.look((key, name))
            return
        self._asked[key, name] = SavepointReport(key, name, "failed", error=error)
        for failed in [known for known, one in self._asked.items() if one.state == "failed"][:-MOST_FAILED]:
            del self._asked[failed]

    def delete(self, key: PlanKey, name: str) -> None:
        """Delete the savepoint; a failed one is no longer reported."""
        if self._asked.get((key, name), SavepointReport(key, name, "failed")).state == "failed":
            self._asked.pop((key, name), None)

        def deleted(answer: CheckpointError | None) -> None:
            self._kept_back.pop((key, name), None)
            if answer is not None:
                logger.warning("savepoint not removed: topology=%s name=%s reason=%s", key.topology(), name, answer)
                self._kept_back[key, name] = f"not deleted: {answer.message}"
            self.look()

        self._storing.do(key, lambda archive: archive.delete_savepoint(key, name), deleted)


def _age(savepoint: SavepointReport) -> tuple[int, str]:
    return savepoint.taken_ms, savepoint.name


def _reports(archive: Archive) -> list[SavepointReport]:
    return [_report(one) for one in archive.savepoints()]


def _report(savepoint: Savepoint) -> SavepointReport:
    report = SavepointReport(savepoint.key, savepoint.name, "stored", unreadable=savepoint.problem)
    manifest = savepoint.manifest
    if manifest is None:
        return report
    return msgspec.structs.replace(
        report, checkpoint=manifest.checkpoint, taken_ms=manifest.taken_ms, size_bytes=manifest.size_bytes
    )
