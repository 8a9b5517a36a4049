"""The outflow services and the stored results of a plan at a worker."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import msgspec

from cep_common.errors import ConfigError, PortInUseError
from cep_common.protocol.registry import DeployedPlan, PlanCheckpoints
from cep_worker.outflows.consumers import Consumers
from cep_worker.outflows.outflow import Outflow
from cep_worker.outflows.transactional_log.deliveries import Who
from cep_worker.outflows.transactional_log.prepared_results import PreparedResults
from cep_worker.plans.stream_counts import StreamCounts
from cep_worker.runtime.worker_metrics import PreparedResultsMetrics
from cep_worker.serving.context import PlanContext

logger = logging.getLogger(__name__)

FINISHING_MS = 1_000
"""How long publishers of a topology that is being ended may still connect."""
REOPEN_MS = 500
"""How soon opening an outflow is retried: searching for a free port among a thousand takes long."""
LONGEST_FINISHING_MS = 30_000
"""How long these publishers may send results and consumers may take to deliver them."""


@dataclass(slots=True)
class _Former:
    """The outflow of an earlier epoch, whose publishers may still have results."""

    outflow: Outflow
    since_ms: int


class PlanOutflows:
    """The outflow service of a plan's current epoch, and those of earlier epochs that still receive results.

    Belongs to the data thread.
    """

    def __init__(
        self, plan_context: PlanContext, plan: DeployedPlan, consumers: Consumers, stir: Callable[[], None]
    ) -> None:
        """Open the service; `stir` is called at any activity."""
        self.stir = stir
        self._around = plan_context
        self._plan = plan
        self._consumers = consumers
        self._prepared: PreparedResults | None = None
        self.counts = StreamCounts()
        self._checkpoints_known: tuple[PlanCheckpoints, ...] = ()
        self._former: list[_Former] = []
        self._ending_since_ms: int | None = None
        self._error = ""
        self._reopen_ms = 0
        self.present: Outflow | None = None
        """The outflow of the present epoch, if it could be opened."""
        self._open()

    def update(self, plan: DeployedPlan, now_ms: int) -> None:
        """Serve another deployment, even if the former one was being ended."""
        self.stir()
        if plan.deployed_ms != self._plan.deployed_ms:
            for outflow in self._all():
                outflow.followed_by(plan)
        self._plan = plan
        self._ending_since_ms = None
        if self._prepared is not None:
            self._prepared.update(plan)
        if self.present is not None:
            self._former.append(_Former(self.present, now_ms))
            self.present = None
        self._open()
        self._close_epochs()

    def rename(self, plan: DeployedPlan) -> None:
        """Use the plan's new name; publishers and stored results are unchanged."""
        self.stir()
        self._plan = msgspec.structs.replace(self._plan, key=plan.key)
        if self._prepared is not None:
            self._prepared.rename(plan.key)
        for outflow in self._all():
            outflow.rename(plan.key)

    def kept(self) -> PreparedResults | None:
        """Return the stored results; None if none were ever stored."""
        return self._prepared

    def keep(self) -> PreparedResults:
        """Return the store of results, which is created if needed.

        Raises:
            ConfigError: the folder cannot be used.
        """
        if self._prepared is None:
            self._prepared = self._around.prepared.open(self._plan, self._consumers, self.counts)
            self._prepared.learn(self._checkpoints_known)
            self._close_epochs()
        return self._prepared

    def trace(self, on: bool) -> None:
        """Start or stop writing results to the log."""
        for trace in self.present.traces.values() if self.present is not None else ():
            trace.on = on

    def apply_checkpoints(self, checkpoints: tuple[PlanCheckpoints, ...]) -> None:
        """Release or discard prepared results by the checkpoints of the plan, and of others of its name."""
        if checkpoints != self._checkpoints_known:
            self.stir()
        self._checkpoints_known = checkpoints
        if self._prepared is not None:
            self._prepared.learn(checkpoints)

    def retry(self, now_ms: int) -> None:
        """Retry delivery to consumers that have room again."""
        if self._prepared is not None:
            self._prepared.retry()
        for outflow in self._all():
            if outflow.parked():
                outflow.retry(now_ms)

    def tick(self, now_ms: int) -> None:
        """Perform due tasks."""
        self._tick_former(now_ms)
        if self._prepared is not None:
            self._prepared.tick(now_ms)
        if self.present is not None:
            self.present.tick(now_ms)
        elif self._ending_since_ms is None and now_ms >= self._reopen_ms:
            self._reopen_ms = now_ms + REOPEN_MS
            self._open()

    def _stir(self) -> None:
        self.stir()  # these outflows may have been taken over by another plan

    def is_quiet(self) -> bool:
        """Return whether it is idle."""
        idle = not self._former and self._ending_since_ms is None and not self.problem()
        return idle and self._prepared is None and self.present is not None and self.present.is_quiet()

    def needs_epoch(self) -> int:
        """Return the least epoch under which results are accepted if the plan's own was used before, else 0."""
        return self._prepared.needs_epoch if self._prepared is not None else 0

    def problem(self) -> str:
        """Return why results cannot be accepted now; empty if they can."""
        present = self.present.problem if self.present is not None else ""
        return self._error or present or (self._prepared.problem if self._prepared is not None else "")

    def metrics(self) -> PreparedResultsMetrics | None:
        """Return the metrics of its prepared results, if it has any."""
        return self._prepared.metrics() if self._prepared is not None else None

    def is_full(self) -> bool:
        """Return whether processing should pause because too many results wait on disk."""
        return self._prepared is not None and self._prepared.is_full()

    def waiting_rows(self) -> Mapping[Who, int]:
        """Return the number of results on disk that wait for each consumer."""
        return self._prepared.waiting_rows() if self._prepared is not None else {}

    def leave(self) -> None:
        """Refuse further results of publishers."""
        for outflow in self._all():
            outflow.leave()

    def delivered(self) -> bool:
        """Return whether all accepted results have been delivered and acknowledged."""
        return all(outflow.delivered() for outflow in self._all())

    def end(self, now_ms: int) -> None:
        """Accept the last results of an undeployed plan, until `ended`."""
        self.stir()
        self._ending_since_ms = now_ms

    def ended(self, now_ms: int) -> bool:
        """Return whether the topology has ended and everything is delivered, or the time-out has expired.

        When the topology has ended, all results of its last run are committed, since nothing will undo them.
        """
        since_ms = now_ms if self._ending_since_ms is None else self._ending_since_ms
        if now_ms - since_ms >= LONGEST_FINISHING_MS:
            return True
        if any(outflow.publishers() or outflow.parked() or not outflow.delivered() for outflow in self._all()):
            return False
        if self._prepared is None:
            return True
        self._prepared.end()
        return self._prepared.is_empty()

    def close_services(self) -> None:
        """Close the services, so that publishers connect to another worker."""
        for outflow in self._all():
            outflow.close()
        self._former.clear()
        self.present = None

    def close(self) -> None:
        """Close everything; stored results stay on disk."""
        self.close_services()
        if self._prepared is not None:
            self._prepared.close()

    def discard(self) -> None:
        """Close everything, and drop stored results."""
        if any(outflow.parked() for outflow in self._all()):
            logger.warning("results of a plan that was undeployed lost: plan=%s", self._plan.key.topology())
        self.close_services()
        if self._prepared is not None:
            self._prepared.discard()

    def _all(self) -> list[Outflow]:
        """Return the outflows of earlier epochs, then the present one."""
        former = [former.outflow for former in self._former]
        return former if self.present is None else [*former, self.present]

    def _tick_former(self, now_ms: int) -> None:
        """Close outflows of earlier epochs that are drained or have timed out."""
        for former in list(self._former):
            outflow = former.outflow
            outflow.tick(now_ms)
            waited_ms = now_ms - former.since_ms
            unfinished = outflow.publishers() or outflow.parked() or not outflow.delivered()
            if waited_ms < FINISHING_MS or (unfinished and waited_ms < LONGEST_FINISHING_MS):
                continue
            if outflow.parked():
                logger.warning("results of an earlier epoch lost: plan=%s", self._plan.key.topology())
            outflow.close()
            self._former.remove(former)
            self._close_epochs()

    def _close_epochs(self) -> None:
        """Tell the prepared results which epochs have no publishers any more."""
        if self._prepared is not None:
            oldest = min((former.outflow.epoch for former in self._former), default=self._plan.epoch)
            self._prepared.close_before(oldest)

    def _open(self) -> None:
        around = self._around
        before, self._error = self._error, ""
        try:
            self._open_prepared()
            if self.needs_epoch():
                self._await_epoch(before)
                return
            self.present = Outflow(
                around.event_loop, around.links, self._plan, around.config.outflow, self._consumers, self,
                around.changed, self._stir,
            )  # fmt: skip
        except (PortInUseError, ConfigError) as error:
            if error.message != before:
                logger.error("outflow cannot listen: plan=%s reason=%s", self._plan.key.topology(), error)  # noqa: TRY400 - expected, the text says it all
            self._error = error.message
        else:
            self.trace(self._plan.trace)
        around.changed()

    def _await_epoch(self, problem_before: str) -> None:
        """Request a later epoch from the manager and accept no results until then.

        Stored results are delivered or undone by the checkpoints of their own topology.
        """
        given, prepared = self._plan.epoch, self.needs_epoch()
        self._error = (
            f"epoch {given} was used before, {prepared} or later is free: requesting a new one from the manager"
        )
        if self._error != problem_before:
            logger.warning("results are not accepted yet: plan=%s reason=%s", self._plan.key.topology(), self._error)
            self._around.changed()

    def _open_prepared(self) -> None:
        """Recover the prepared results.

        Raises:
            ConfigError: the folder cannot be used.
        """
        if self._around.prepared.wanted(self._plan):
            self.keep()
