"""An immutable snapshot of the control loop's knowledge, for readers in other threads."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from cep_common.ids import PlanKey
from cep_common.protocol.drivers import RegisterDriver, TopologyReport
from cep_common.protocol.registry import RegisterWorker, WorkerPlanReport
from cep_common.protocol.tasks import RegisterTask
from cep_manager.control.members import ClusterMember
from cep_manager.control.registry import EndpointRecord
from cep_manager.control.worker_admission import Stranger
from cep_manager.errors import unknown_plan
from cep_manager.history.checkpoint_history import KnownCheckpoint
from cep_manager.history.counter_history import CounterHistory
from cep_manager.history.errors import ErrorGroup
from cep_manager.history.samples import PlanSamples
from cep_manager.history.topic_lags import GrowingLag, PlanName
from cep_manager.plans.record import PlanRecord

PlanReports = list[tuple[ClusterMember[RegisterWorker], WorkerPlanReport]]


class ClusterSnapshot(msgspec.Struct, frozen=True):
    """`now_ms` is the monotonic time at which it was taken; all times of members are on the same clock.

    `driver` may be silent: ask `ClusterMember.live`. `lost_workers` fell silent lately. `tasks` are those of
    each plan's current epoch, by number. `histories` are what their instances have counted, by name, tasks of earlier
    epochs included.
    """

    now_ms: int
    lease_ms: int
    revision: int
    plans: dict[PlanKey, PlanRecord]
    driver: ClusterMember[RegisterDriver] | None
    driver_missing: str
    workers: tuple[ClusterMember[RegisterWorker], ...]
    lost_workers: tuple[ClusterMember[RegisterWorker], ...]
    tasks: dict[PlanKey, tuple[ClusterMember[RegisterTask], ...]]
    endpoints: tuple[EndpointRecord, ...]
    histories: dict[PlanKey, Mapping[str, CounterHistory]] = {}
    deliveries: dict[PlanKey, CounterHistory] = {}
    """The number of results delivered to sinks and listeners of each plan, by stream."""
    growing_lags: dict[PlanName, tuple[GrowingLag, ...]] = {}
    """The topics that plans read more slowly than others write them."""
    errors: dict[PlanKey | None, tuple[ErrorGroup, ...]] = {}
    """Errors by plan, newest first; key None has the errors of processes that concern no plan."""
    checkpoints: dict[PlanKey, tuple[KnownCheckpoint, ...]] = {}
    """The checkpoints of each plan that are remembered, oldest first."""
    samples: dict[PlanKey, PlanSamples] = {}
    away_workers: tuple[ClusterMember[RegisterWorker], ...] = ()
    """Workers that have ended, recently or not, and may still have events of a plan."""
    strangers: tuple[Stranger, ...] = ()
    """Workers that are refused, or that came back without what they had."""

    _sorted: list[tuple[tuple[ClusterMember[RegisterWorker], ...], dict[PlanKey, PlanReports]]] = []
    """The reports of `workers` by plan, computed at the first access."""
    _topologies: list[dict[PlanKey, list[TopologyReport]]] = []
    """The driver's report by plan, computed at the first access."""

    def record(self, key: PlanKey) -> PlanRecord:
        """Return the record of a deployed plan.

        Raises:
            UnknownPlanError: No plan with the key is deployed.
        """
        record = self.plans.get(key)
        if record is None:
            raise unknown_plan(key)
        return record

    def reports_of(self, key: PlanKey) -> PlanReports:
        """Return what all workers, live or not, report about the plan.

        The first call sorts the reports of all plans, so that a list of a thousand plans does not scan them a thousand
        times.
        """
        workers, reports = self._sorted[0] if self._sorted else ((), {})
        if workers is not self.workers:
            reports = {}
            for worker in self.workers:
                for report in worker.latest.plans:
                    reports.setdefault(report.key, []).append((worker, report))
            self._sorted[:] = [(self.workers, reports)]
        return reports.get(key, [])

    def topologies_of(self, key: PlanKey) -> list[TopologyReport]:
        """Return what the driver, live or not, reports about the topologies of the plan; sorted by the first call."""
        if not self._topologies:
            by_plan: dict[PlanKey, list[TopologyReport]] = {}
            for one in self.driver.latest.topologies if self.driver is not None else ():
                by_plan.setdefault(one.key, []).append(one)
            self._topologies.append(by_plan)
        return self._topologies[0].get(key, [])

    def key_named(self, tenant: int, name: str) -> PlanKey | None:
        """Return the key of the deployed plan of that name."""
        record = self.plans.get(PlanKey(tenant, name))
        if record is not None and record.key.plan == name:
            return record.key
        return next((key for key in self.plans if (key.tenant, key.plan) == (tenant, name)), None)

    def present_name(self, tenant: int, former: str) -> str:
        """Return the name that the plan has now which was called `former` before; empty when there is none."""
        found = (
            one.key for one in self.plans.values() if one.key.tenant == tenant and former in one.stored.former_names
        )
        return next((key.plan for key in found), "")

    def live_workers(self) -> tuple[ClusterMember[RegisterWorker], ...]:
        """Return the workers that are heard."""
        return tuple(one for one in self.workers if one.live(self.now_ms, self.lease_ms))
