"""Build the driver's report on each topology, and cache it until something changes."""

from __future__ import annotations

from dataclasses import dataclass

import msgspec

from cep_common.protocol.drivers import RunName, RunState, SavepointReport, TopologyReport
from topology.checkpoint.coordination.service import CheckpointService
from topology.checkpoint.coordination.views import CheckpointsView
from topology.driver.lifecycle import RunId, TopologyRuns


class TopologyReports:
    """The reports of all topologies. Belongs to the driver's thread."""

    def __init__(self) -> None:
        self._known: dict[RunId, tuple[tuple[RunState, str, int, int, CheckpointsView], TopologyReport]] = {}

    def of(self, runs: TopologyRuns, checkpoints: CheckpointService) -> tuple[TopologyReport, ...]:
        """Return the report of each topology, the same object as before if it has not changed."""
        before, self._known = self._known, {}
        for run_id, run in runs.runs.items():
            view = checkpoints.view(*run_id)
            content = (run.state, run.reason, run.restarts, run.submission.deployed_ms, view)
            known = before.get(run_id)
            # The key is compared as well: it is equal to that under which a renamed plan was reported.
            same = known is not None and known[0] == content and known[1].key.plan == run_id[0].plan
            self._known[run_id] = known if known is not None and same else (content, _report(run_id, content))
        return tuple(report for _, report in self._known.values())


def _report(run_id: RunId, content: tuple[RunState, str, int, int, CheckpointsView]) -> TopologyReport:
    state, reason, restarts, deployed_ms, view = content
    report = TopologyReport(*run_id, state, reason, restarts, deployed_ms=deployed_ms)
    return msgspec.structs.replace(
        report,
        spans=view.spans,
        checkpoints=view.checkpoints,
        begun_from=view.begun_from,
        failed_checkpoints=view.failed,
        unreadable=view.unreadable,
        current=view.current,
    )


@dataclass(frozen=True, slots=True)
class RegistrationReport:
    """The topologies and savepoints of a registration; see `RegisterDriver`."""

    number: int
    topologies: tuple[TopologyReport, ...] = ()
    savepoints: tuple[SavepointReport, ...] = ()
    whole: bool = False
    base: int = 0
    gone: tuple[RunName, ...] = ()
    differ: bool = False


class IncrementalReports:
    """Builds reports that contain only changes since the last one. Pure; belongs to the driver's thread."""

    def __init__(self) -> None:
        self._number = 0
        self._topologies: tuple[TopologyReport, ...] = ()
        self._savepoints: tuple[SavepointReport, ...] = ()
        """The savepoints reported last, under that number."""
        self._known_number = 0
        self._known: dict[RunId, TopologyReport] = {}
        self._known_savepoints: tuple[SavepointReport, ...] = ()
        """The savepoints that the manager has, and their number; 0 if none."""

    def part(
        self, topologies: tuple[TopologyReport, ...], savepoints: tuple[SavepointReport, ...]
    ) -> RegistrationReport:
        """Return what to report now, when these are all topologies and savepoints."""
        if not self._number or savepoints != self._savepoints or not _all_same(topologies, self._topologies):
            self._topologies, self._savepoints, self._number = topologies, savepoints, self._number + 1
        if not self._known_number:
            return RegistrationReport(self._number, topologies, savepoints, whole=True)
        if self._known_number == self._number:
            return RegistrationReport(self._number)
        present = {(one.key, one.epoch): one for one in topologies}
        changed = tuple(one for name, one in present.items() if not _same(one, self._known.get(name)))
        gone = tuple(RunName(*name) for name in self._known if name not in present)
        differ = savepoints != self._known_savepoints
        told = savepoints if differ else ()
        return RegistrationReport(self._number, changed, told, base=self._known_number, gone=gone, differ=differ)

    def answered(self, knows: int) -> bool:
        """Record that the manager has the report `knows` (0: none). Return whether that is the last one."""
        known = knows == self._number
        if not known:
            self.unanswered()
        elif self._known_number != knows:
            self._known_number = knows
            self._known = {(one.key, one.epoch): one for one in self._topologies}
            self._known_savepoints = self._savepoints
        return known

    def unanswered(self) -> None:
        """Record that the manager's state is unknown, so that the next report is complete."""
        self._known_number, self._known, self._known_savepoints = 0, {}, ()


def _all_same(reports: tuple[TopologyReport, ...], known: tuple[TopologyReport, ...]) -> bool:
    return reports is known or (len(reports) == len(known) and all(map(_same, reports, known)))


def _same(report: TopologyReport, known: TopologyReport | None) -> bool:
    """Return whether both say the same; the key of a renamed plan equals its former one."""
    return report is known or (known is not None and report == known and report.key.plan == known.key.plan)
