"""History of the checkpoints of all plans, longer than the driver's reports. Pure: it is fed with these reports."""

from __future__ import annotations

from collections.abc import Collection

import msgspec

from cep_common.ids import PlanKey
from cep_common.protocol.drivers import CheckpointReport, TopologyReport

MOST_CHECKPOINTS = 256
"""Checkpoints that are remembered of each plan, the newest."""

UNTOLD = "its outcome was not reported: the driver was lost, or its topology ended"


class KnownCheckpoint(msgspec.Struct, frozen=True):
    """A checkpoint of the plan's topology of `epoch`."""

    epoch: int
    report: CheckpointReport


_Identity = tuple[int, int]
"""Epoch and number. Numbers alone do not do: they begin again at 1 in another checkpoint store."""


class CheckpointHistory:
    """The newest checkpoints of each plan. Not thread-safe, but the results of `known` may be shared."""

    def __init__(self) -> None:
        self._plans: dict[PlanKey, dict[_Identity, KnownCheckpoint]] = {}
        self._seen: dict[tuple[PlanKey, int], tuple[CheckpointReport, ...]] = {}
        self._known: dict[PlanKey, tuple[KnownCheckpoint, ...]] = {}

    def heard(self, topology: TopologyReport) -> None:
        """Record the checkpoints in the driver's report on a topology."""
        run = (topology.key, topology.epoch)
        if not topology.checkpoints or self._seen.get(run) == topology.checkpoints:
            return
        self._seen[run] = topology.checkpoints
        self._known.pop(topology.key, None)
        plan = self._plans.setdefault(topology.key, {})
        reports = {(topology.epoch, report.checkpoint): report for report in topology.checkpoints}
        plan |= {identity: KnownCheckpoint(topology.epoch, report) for identity, report in reports.items()}
        newest = _age(max(plan.values(), key=_age))
        for identity, one in plan.items():
            if one.report.state == "taking" and identity not in reports and _age(one) < newest:
                ended = msgspec.structs.replace(one.report, state="abandoned", error=UNTOLD)
                plan[identity] = KnownCheckpoint(one.epoch, ended)
        for identity in sorted(plan, key=lambda one: _age(plan[one]))[:-MOST_CHECKPOINTS]:
            del plan[identity]

    def keep_epochs(self, key: PlanKey, epochs: Collection[int]) -> None:
        """Remove the plan's topologies of all epochs except `epochs`; its checkpoint history stays."""
        for run in [one for one in self._seen if one[0] == key and one[1] not in epochs]:
            del self._seen[run]

    def keep(self, plans: Collection[PlanKey]) -> None:
        """Remove all plans except these."""
        self._plans = {key: known for key, known in self._plans.items() if key in plans}
        self._seen = {run: seen for run, seen in self._seen.items() if run[0] in plans}
        self._known = {key: known for key, known in self._known.items() if key in plans}

    def known(self) -> dict[PlanKey, tuple[KnownCheckpoint, ...]]:
        """Return all that are remembered, by plan, oldest first."""
        for key, plan in self._plans.items():
            if key not in self._known:
                self._known[key] = tuple(sorted(plan.values(), key=_age))
        return dict(self._known)


def _age(one: KnownCheckpoint) -> tuple[int, int]:
    return one.report.began_ms, one.report.checkpoint
