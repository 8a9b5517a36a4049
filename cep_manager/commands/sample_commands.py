"""Commands on samples of events in running topologies."""

from __future__ import annotations

from cep_common.ids import PlanKey
from cep_manager.commands.plan_changes import PlanChanges
from cep_manager.errors import BadRequestError
from cep_manager.history.samples import SampleReport, sample_report
from cep_manager.plans.record import PlanRecord

LONGEST_S = 3_600
"""The maximum duration of sampling in seconds."""


class SampleCommands:
    """Commands on samples."""

    def __init__(self, changes: PlanChanges) -> None:
        self._changes = changes

    def sample(self, key: PlanKey, component: str, percent: float, for_s: int) -> SampleReport:
        """See `ManagerView.sample`."""
        record = self._changes.record(key)
        components = sampled_components(record, component, percent, for_s)
        self._changes.service.sample(key, components, percent, for_s * 1_000)
        return self.samples(key, component)

    def samples(self, key: PlanKey, component: str = "") -> SampleReport:
        """See `ManagerView.samples`."""
        self._changes.record(key)
        snapshot = self._changes.snapshot()
        return sample_report(snapshot.samples, key, component, snapshot.now_ms)


def sampled_components(record: PlanRecord, component: str, percent: float, for_s: int) -> tuple[str, ...]:
    """Return the stages to sample: `component`, or all if it is empty. Raises BadRequestError."""
    known = tuple(one.name for one in record.compiled.components) if record.compiled is not None else ()
    if component and component not in known:
        there = ", ".join(known) or "none, its text cannot be compiled"
        raise BadRequestError(f"{record.key.plan} has no stage named {component[:80]}; there are: {there}")
    if not 0 <= percent <= 100:
        raise BadRequestError(f"percent must be between 0 (end) and 100, not {percent:g}")
    if not 1 <= for_s <= LONGEST_S:
        raise BadRequestError(f"for_s must be between 1 and {LONGEST_S} seconds, not {for_s}")
    return (component,) if component else known
