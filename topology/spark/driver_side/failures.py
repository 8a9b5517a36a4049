"""The failures that ended topologies, by plan."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from cep_common.ids import PlanKey
from cep_common.protocol.drivers import TopologyReport
from cep_common.protocol.error_records import ErrorLog
from topology.spark.reasons import Ending

MOST_OF_A_PLAN = 4
"""Kinds of failures reported per plan; managers remember more."""
MOST_IN_ALL = 64
"""The maximum number of kinds of failures in one report."""


class TopologyFailures:
    """The failures of each plan's topologies. Belongs to the driver's thread."""

    def __init__(self) -> None:
        self._logs: dict[PlanKey, ErrorLog] = {}

    def note(self, key: PlanKey, ending: Ending, now_ms: int) -> None:
        """Record how a topology of the plan ended at the time of day `now_ms`."""
        self._logs.setdefault(key, ErrorLog(MOST_OF_A_PLAN)).note(
            ending.code,
            ending.text(),
            now_ms,
            instance=ending.instance,
            traceback=ending.traceback,
            host=ending.host,
            process_id=ending.process_id,
        )

    def forget(self, key: PlanKey) -> None:
        """Remove a plan that is no longer deployed."""
        self._logs.pop(key, None)

    def added_to(self, reports: Iterable[TopologyReport]) -> tuple[TopologyReport, ...]:
        """Return the reports with the failures of their plans; if there are too many, only the newest of all plans."""
        found = tuple(reports)
        if not self._logs:
            return found
        times = sorted((record.last_ms for log in self._logs.values() for record in log.records()), reverse=True)
        oldest_ms = times[:MOST_IN_ALL][-1]
        return tuple(self._with_failures(report, oldest_ms) for report in found)

    def _with_failures(self, report: TopologyReport, oldest_ms: int) -> TopologyReport:
        log = self._logs.get(report.key)
        if log is None:
            return report
        return msgspec.structs.replace(
            report, failures=tuple(record for record in log.records() if record.last_ms >= oldest_ms)
        )
