"""Serves one deployed plan: its inflows and outflows."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial

from cep_common.ids import Endpoint
from cep_common.protocol.error_records import ErrorRecord
from cep_common.protocol.registry import DeployedPlan, StreamBinding, WorkerPlanReport
from cep_worker.inflows.inflow import Inflow
from cep_worker.outflows.consumers import Consumers
from cep_worker.runtime.worker_metrics import PreparedResultsMetrics, WalMetrics
from cep_worker.serving.context import PlanContext
from cep_worker.serving.plan_outflows import PlanOutflows

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Unconnected:
    """An imported stream without a working link, and the last receiver instance of this epoch."""

    stream: str
    former: str


@dataclass(frozen=True, slots=True)
class PlanSnapshot:
    """The status of a plan at one moment.

    It has the report, the address for publishers, the imported streams without a working link, the write-ahead logs,
    and the results on disk.
    """

    report: WorkerPlanReport
    outflow: Endpoint | None
    unconnected: tuple[Unconnected, ...]
    write_ahead_logs: tuple[WalMetrics, ...]
    prepared: PreparedResultsMetrics | None


def _nothing(_: PlanFlow) -> None:
    """Do nothing: the default observer of a flow."""


class PlanFlow:
    """Inflows and outflows of a plan, which are replaced as needed when it is deployed again.

    Belongs to the reactor's thread.
    """

    def __init__(
        self,
        plan_context: PlanContext,
        plan: DeployedPlan,
        consumers: Consumers,
        now_ms: int,
        outflows: PlanOutflows | None = None,
        stirring: Callable[[PlanFlow], None] = _nothing,
    ) -> None:
        """Serve `plan`; results of an earlier plan of the name continue in its `outflows`.

        `stirring` is called at the first activity after an idle time.
        """
        self._stirring = stirring
        self.stirred = True
        """Whether there was activity since the last `tick`, or is still, so that ticks must not be delayed."""
        self.changed = True
        """Whether there was activity since the last `snapshot`."""
        self._plan_context = plan_context
        self.plan = plan
        self.inflows: dict[str, Inflow] = {}
        self._open_inflows(now_ms)
        if outflows is not None:
            outflows.stir = self.stir
            outflows.update(plan, now_ms)
        self.outflows = outflows or PlanOutflows(plan_context, plan, consumers, self.stir)
        self._switch_traces()

    def stir(self) -> None:
        """Record activity: an idle plan is ticked often again, and its status is collected."""
        if not self.stirred:
            self._stirring(self)
        self.stirred = self.changed = True

    def update(self, plan: DeployedPlan, now_ms: int) -> None:
        """Serve another deployment of the same plan, with the events of unchanged streams and new links."""
        self.stir()
        before, self.plan = self.plan, plan
        if before.key.plan != plan.key.plan:
            logger.info("plan renamed: plan=%s former=%s", plan.key.topology(), before.key.topology())
            for inflow in self.inflows.values():
                inflow.rename(plan.key)
            self.outflows.rename(plan)
        self._switch_traces()
        if plan.epoch == before.epoch and plan.imported == before.imported and plan.exported == before.exported:
            return
        self._open_inflows(now_ms)
        self.outflows.update(plan, now_ms)
        self._switch_traces()

    def tick(self, now_ms: int) -> None:
        """Let time pass."""
        full = self.outflows.is_full()
        for inflow in self.inflows.values():
            inflow.pause(full)
            inflow.tick(now_ms)
        self.outflows.tick(now_ms)
        self.stirred = not (self.outflows.is_quiet() and all(one.is_quiet() for one in self.inflows.values()))
        self.changed = self.changed or self.stirred

    def errors_found(self) -> Iterator[tuple[str, str, str]]:
        """Return the errors of its connections as (part, code, text)."""
        for stream, inflow in self.inflows.items():
            yield f"inflow of {stream}", "inflow", inflow.last_error
        yield "outflow", "outflow", self.outflows.problem()

    def snapshot(self, connector_error: str, errors: tuple[ErrorRecord, ...]) -> PlanSnapshot:
        """Return the current status.

        `connector_error` is an error of a source or sink of the plan; `errors` are all errors so far.
        """
        refused = next((inflow.last_error for inflow in self.inflows.values() if inflow.last_error), "")
        outflow = self.outflows.present
        write_ahead_logs = tuple(wal for inflow in self.inflows.values() if (wal := inflow.wal()) is not None)
        prepared = self.outflows.metrics()
        report = WorkerPlanReport(
            key=self.plan.key,
            epoch=self.plan.epoch,
            inflow=tuple(inflow.report() for inflow in self.inflows.values()),
            outflow=outflow.report() if outflow is not None else (),
            publishers=outflow.publishers() if outflow is not None else (),
            last_error=self.outflows.problem() or connector_error or refused,
            links=outflow.links() if outflow is not None else (),
            write_ahead_logs=tuple(wal.report() for wal in write_ahead_logs),
            prepared=prepared.report() if prepared is not None else None,
            errors=errors,
            needs_epoch=self.outflows.needs_epoch(),
            accepts_events=self.plan.intake,
        )
        unconnected = tuple(
            Unconnected(stream, inflow.former) for stream, inflow in self.inflows.items() if inflow.asks
        )
        endpoint = outflow.endpoint if outflow is not None else None
        return PlanSnapshot(report, endpoint, unconnected, write_ahead_logs, prepared)

    def drained(self) -> bool:
        """Return whether all events of inflows with a link were sent and acknowledged."""
        return all(inflow.needs_endpoint or inflow.drained() for inflow in self.inflows.values())

    def close_inflows(self) -> None:
        """Close links and logs. Waiting events that are in no log are lost, which is logged."""
        for inflow in self.inflows.values():
            self._close_inflow(inflow)
        self.inflows.clear()
        self.stir()

    def _open_inflows(self, now_ms: int) -> None:
        """Open an inflow for each imported stream, and keep inflows with the same schema.

        Events that wait for a stream with new attributes go to the new inflow; those of a removed stream are stored as
        failed.
        """
        before, kept = self.inflows, {}
        for binding in self.plan.imported:
            inflow = before.get(binding.stream)
            if inflow is not None and self._is_served_by(inflow, binding):
                kept[binding.stream] = before.pop(binding.stream)
                if inflow.epoch != self.plan.epoch:
                    inflow.take_epoch(self.plan, now_ms)
        bound = {binding.stream for binding in self.plan.imported}
        waiting = {stream: inflow.take_out() for stream, inflow in before.items() if stream in bound}
        for stream, inflow in before.items():  # their logs must be closed before they are opened again
            if stream not in bound:
                inflow.give_up(f"{stream} is no longer imported by {self.plan.key.plan}")
            inflow.close()
        self.inflows = {
            binding.stream: kept.get(binding.stream) or self._open_inflow(binding, now_ms)
            for binding in self.plan.imported
        }
        for stream, batches in waiting.items():
            for events in batches:
                self.inflows[stream].adopt(events, now_ms)

    def _is_served_by(self, inflow: Inflow, binding: StreamBinding) -> bool:
        plan = self.plan
        # events in a log are processed as accepted, even if the plan keeps no logs now
        logged = inflow.logged == keeps_logs(plan) or (inflow.logged and not inflow.drained())
        return inflow.binding == binding and inflow.playback == plan.playback and logged

    def _open_inflow(self, binding: StreamBinding, now_ms: int) -> Inflow:
        around = self._plan_context
        key, wal = self.plan.key, around.wal
        deployed_ms = self.plan.deployed_ms
        logged = keeps_logs(self.plan) or wal.has_waiting(key, binding.stream, deployed_ms)
        log = wal.open_log(key, binding, around.disk_sync, deployed_ms) if logged else None
        return Inflow(
            around.event_loop, around.context, self.plan, binding, around.worker, around.config, log,
            around.changed, around.room, partial(around.failed, key, binding.stream), now_ms, around.wall_ms,
            around.links.receivers, self.stir,
        )  # fmt: skip

    def _switch_traces(self) -> None:
        for inflow in self.inflows.values():
            inflow.trace.on = self.plan.trace
        self.outflows.trace(self.plan.trace)

    def _close_inflow(self, inflow: Inflow) -> None:
        waiting = inflow.report().waiting_events
        if waiting and not inflow.logged:
            logger.warning("events lost with their plan: plan=%s stream=%s events=%d",
                           self.plan.key.topology(), inflow.binding.stream, waiting)  # fmt: skip
        inflow.close()


def keeps_logs(plan: DeployedPlan) -> bool:
    """Return whether accepted events of the plan survive the worker's process."""
    return plan.delivery != "at-most-once"
