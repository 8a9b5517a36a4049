"""What a worker runs for one deployed plan: its inflows and its outflow service."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass

import zmq

from cep_common.errors import ConfigError, PortInUseError
from cep_common.ids import Endpoint
from cep_common.messages import CheckpointSpan, DeployedPlan, StreamBinding, WorkerPlanReport
from cep_worker.config import WorkerConfig
from cep_worker.consumers import Consumers
from cep_worker.figures import HeldFigures
from cep_worker.held.held_results import HeldResults
from cep_worker.held.store import HeldStore
from cep_worker.inflow import Inflow
from cep_worker.outflow import Outflow
from cep_worker.reactor import Reactor
from cep_worker.spool.folder import Spool
from cep_worker.spool.upkeep import Upkeep

logger = logging.getLogger(__name__)


FINISHING_MS = 1_000
"""For so long publishers of an earlier epoch may still have results on their way: its topology is being ended."""
LONGEST_FINISHING_MS = 30_000
"""For so long consumers may take to make room for results of an earlier epoch."""


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What a plan's flow works with. `changed` is called when a connection came to stand or broke, `room` when a full
    inflow has room again."""

    worker: str
    config: WorkerConfig
    reactor: Reactor
    context: zmq.Context[zmq.Socket[bytes]]
    spool: Spool
    upkeep: Upkeep
    changed: Callable[[], None]
    room: Callable[[], None]
    held: HeldStore


@dataclass(frozen=True, slots=True)
class Unconnected:
    """An imported stream without a link, and the receiver instance that it was linked to before in this epoch."""

    stream: str
    former: str


@dataclass(frozen=True, slots=True)
class PlanSnapshot:
    """How a plan's flow stands: the report, where publishers connect to, the imported streams without a link, and the
    results that wait on disk."""

    report: WorkerPlanReport
    outflow: Endpoint | None
    unconnected: tuple[Unconnected, ...]
    held: HeldFigures | None


class PlanFlow:
    """Inflows and outflow of a plan, replaced as far as needed when it is deployed anew. Belongs to the reactor's
    thread."""

    def __init__(self, surroundings: Surroundings, plan: DeployedPlan, consumers: Consumers, now_ms: int) -> None:
        self._surroundings = surroundings
        self._consumers = consumers
        self.plan = plan
        self.inflows: dict[str, Inflow] = {}
        self._held: HeldResults | None = None
        self._spans: tuple[CheckpointSpan, ...] = ()
        self._outflow: Outflow | None = None
        self._former: list[tuple[Outflow, int]] = []
        """Outflows of earlier epochs, and since when: what they have taken must still go on."""
        self._outflow_error = ""
        self._open_inflows(now_ms)
        self._open_outflow()

    def update(self, plan: DeployedPlan, now_ms: int) -> None:
        """The flow serves `plan`, another deployment of the same: events that wait for streams which are the same are
        kept, links are made anew."""
        before, self.plan = self.plan, plan
        self._switch_traces()
        if plan.epoch == before.epoch and plan.imported == before.imported and plan.exported == before.exported:
            return
        self._open_inflows(now_ms)
        if self._held is not None:
            self._held.update(plan)
        if self._outflow is not None:
            self._former.append((self._outflow, now_ms))
            self._outflow = None
        self._open_outflow()

    def judge(self, spans: tuple[CheckpointSpan, ...]) -> None:
        """Results that are held stand, and were undone, as `spans` say."""
        self._spans = spans
        if self._held is not None:
            self._held.judge(spans)

    def retry(self, now_ms: int) -> None:
        """Consumers have room again."""
        if self._held is not None:
            self._held.retry()
        for outflow in self._outflows():
            if outflow.parked():
                outflow.retry(now_ms)

    def tick(self, now_ms: int) -> None:
        """Time passes."""
        for inflow in self.inflows.values():
            inflow.tick(now_ms)
        self._tick_former(now_ms)
        if self._held is not None:
            self._held.tick(now_ms)
        if self._outflow is None:
            self._open_outflow()
        else:
            self._outflow.tick(now_ms)

    def snapshot(self, connector_error: str) -> PlanSnapshot:
        """How it stands; `connector_error` is what is wrong with a source or sink of the plan."""
        refused = next((inflow.last_error for inflow in self.inflows.values() if inflow.last_error), "")
        outflow = self._outflow
        report = WorkerPlanReport(
            key=self.plan.key,
            epoch=self.plan.epoch,
            inflow=tuple(inflow.report() for inflow in self.inflows.values()),
            outflow=outflow.report() if outflow is not None else (),
            publishers=outflow.publishers() if outflow is not None else (),
            last_error=self._outflow_error
            or (outflow.problem if outflow is not None else "")
            or connector_error
            or refused,
        )
        unconnected = tuple(
            Unconnected(stream, inflow.former) for stream, inflow in self.inflows.items() if inflow.needs_endpoint
        )
        held = self._held.figures() if self._held is not None else None
        return PlanSnapshot(report, outflow.endpoint if outflow is not None else None, unconnected, held)

    def drained(self) -> bool:
        """Whatever has a link to go over has gone and was acknowledged."""
        return all(inflow.needs_endpoint or inflow.drained() for inflow in self.inflows.values())

    def leave_outflow(self) -> None:
        """Nothing more is taken from publishers."""
        for outflow in self._outflows():
            outflow.leave()

    def delivered(self) -> bool:
        """All results that were taken have been delivered and acknowledged."""
        return all(outflow.delivered() for outflow in self._outflows())

    def close_outflow(self) -> None:
        """Publishers must look for another worker."""
        for outflow, _ in self._former:
            outflow.close()
        self._former.clear()
        if self._outflow is not None:
            self._outflow.close()
            self._outflow = None

    def close(self) -> None:
        """Links and logs are closed; what waits and is in no log is lost, and said to be."""
        for inflow in self.inflows.values():
            self._close_inflow(inflow)
        self.inflows.clear()
        self.close_outflow()
        if self._held is not None:
            self._held.close()

    def remove(self) -> None:
        """As `close`, and results that are held are given up: the plan is not deployed any more."""
        self.close()
        if self._held is not None:
            self._held.discard()

    def _open_inflows(self, now_ms: int) -> None:
        """An inflow for each imported stream; those of the same schema are taken over."""
        before, kept = self.inflows, {}
        for binding in self.plan.imported:
            inflow = before.get(binding.stream)
            if inflow is not None and self._is_served_by(inflow, binding):
                kept[binding.stream] = before.pop(binding.stream)
                if inflow.epoch != self.plan.epoch:
                    inflow.take_epoch(self.plan, now_ms)
        for inflow in before.values():  # their logs must be closed before they are opened again
            self._close_inflow(inflow)
        self.inflows = {
            binding.stream: kept.get(binding.stream) or self._open_inflow(binding, now_ms)
            for binding in self.plan.imported
        }

    def _is_served_by(self, inflow: Inflow, binding: StreamBinding) -> bool:
        plan = self.plan
        return inflow.binding == binding and inflow.playback == plan.playback and inflow.logged == keeps_logs(plan)

    def _open_inflow(self, binding: StreamBinding, now_ms: int) -> Inflow:
        around = self._surroundings
        log = around.spool.open_log(self.plan.key, binding, around.upkeep) if keeps_logs(self.plan) else None
        return Inflow(
            around.reactor, around.context, self.plan, binding, around.worker, around.config, log,
            around.changed, around.room, now_ms,
        )  # fmt: skip

    def _outflows(self) -> list[Outflow]:
        """Those of earlier epochs, then the present one."""
        former = [outflow for outflow, _ in self._former]
        return former if self._outflow is None else [*former, self._outflow]

    def _switch_traces(self) -> None:
        outgoing = self._outflow.traces.values() if self._outflow is not None else ()
        for trace in (*(inflow.trace for inflow in self.inflows.values()), *outgoing):
            trace.on = self.plan.trace

    def _tick_former(self, now_ms: int) -> None:
        """An outflow of an earlier epoch is closed when nothing can be on its way to it any more and all has gone on,
        or when that has taken too long."""
        for outflow, since_ms in list(self._former):
            outflow.tick(now_ms)
            waited_ms = now_ms - since_ms
            unfinished = outflow.parked() or not outflow.delivered()
            if waited_ms < FINISHING_MS or (unfinished and waited_ms < LONGEST_FINISHING_MS):
                continue
            if outflow.parked():
                logger.warning("results of an earlier epoch lost: plan=%s", self.plan.key.topology())
            outflow.close()
            self._former.remove((outflow, since_ms))

    def _open_outflow(self) -> None:
        around = self._surroundings
        try:
            self._open_held()
            self._outflow = Outflow(
                around.reactor, around.context, self.plan, around.config.outflow, around.config.host,
                self._consumers, self._held if self.plan.delivery == "exactly-once" else None, around.changed,
            )  # fmt: skip
        except (PortInUseError, ConfigError) as error:
            if error.message != self._outflow_error:
                logger.error("outflow cannot listen: plan=%s reason=%s", self.plan.key.topology(), error)  # noqa: TRY400 - expected, the text says it all
            self._outflow_error = error.message
        else:
            self._outflow_error = ""
            self._switch_traces()
        around.changed()

    def _open_held(self) -> None:
        """What was held is found again. Raises ConfigError."""
        store = self._surroundings.held
        if self._held is None and store.wanted(self.plan):
            self._held = store.open(self.plan, self._consumers)
            self._held.judge(self._spans)

    def _close_inflow(self, inflow: Inflow) -> None:
        waiting = inflow.report().waiting_events
        if waiting and not inflow.logged:
            logger.warning("events lost with their plan: plan=%s stream=%s events=%d",
                           self.plan.key.topology(), inflow.binding.stream, waiting)  # fmt: skip
        inflow.close()


def keeps_logs(plan: DeployedPlan) -> bool:
    """Accepted events of the plan outlive the worker's process."""
    return plan.delivery != "at-most-once"
