"""What the driver reports of each topology, made again only where something has changed."""

from __future__ import annotations

import msgspec

from cep_common.protocol.drivers import RunState, TopologyReport
from topology.checkpoint.coordination.service import CheckpointService, CheckpointsView
from topology.driver.lifecycle import RunId, TopologyRuns


class TopologyReports:
    """The reports of all topologies. Belongs to the driver's thread."""

    def __init__(self) -> None:
        self._known: dict[RunId, tuple[tuple[RunState, str, int, int, CheckpointsView], TopologyReport]] = {}

    def of(self, runs: TopologyRuns, checkpoints: CheckpointService) -> tuple[TopologyReport, ...]:
        """Return the report of each topology: the same object as before where it says the same."""
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
