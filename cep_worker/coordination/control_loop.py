"""The control thread: reports the worker's status to managers, and receives its instructions.

It never waits for the data thread, nor the data thread for it: while no manager is up, events continue to flow.
"""

from __future__ import annotations

import logging
import os
import threading
from typing import Protocol

import zmq

from cep_common.clock import Clock
from cep_common.errors import CepError, PeerError, RequestRejectedError
from cep_common.ids import Endpoint, InspectionAddress, PlanKey
from cep_common.monitoring.paced_log import PacedLog
from cep_common.process.priority import raise_priority
from cep_common.process.up_time import process_up_ms
from cep_common.protocol.registry import (
    DeployedPlan,
    EndpointAssigned,
    EndpointRegistered,
    ListPlans,
    PlanCheckpoints,
    PlansListed,
    RegisterEndpoint,
    RegisterWorker,
    RemovedPlan,
    RequestEndpoint,
    TenantLimit,
    WorkerPlanReport,
    WorkerRegistered,
)
from cep_common.sockets.transport import ControlClient
from cep_worker.config import WorkerConfig
from cep_worker.coordination.heartbeat import HeartbeatTimer, RetryTimer
from cep_worker.runtime.worker_metrics import WorkerParts
from cep_worker.serving.plan_flow import PlanSnapshot
from cep_worker.storage.ownership import Ownership
from topology.stages.tasks.usage import TaskTime, memory_bytes

logger = logging.getLogger(__name__)
paced_logger = PacedLog(logger)

NAME_TAKEN = "worker-exists"
"""The refusal if another process has registered under this worker's name."""
LEVELS = {
    NAME_TAKEN: logging.ERROR,
    "no-endpoint": logging.DEBUG,
    "stale-epoch": logging.INFO,
    "unknown-plan": logging.INFO,
}
"""Log levels of refusals other than warning. The last three occur while a topology starts, takes over or ends."""

LONGEST_WAIT_MS = 1_000
NO_REVISION = -1


class ControlledDataPlane(Protocol):
    """The interface of the data plane for the control thread. No method blocks."""

    def apply(
        self,
        plans: tuple[DeployedPlan, ...],
        kept: tuple[PlanKey, ...] = (),
        removed: tuple[RemovedPlan, ...] = (),
    ) -> None:
        """Serve exactly these plans.

        Files of plans in `kept` stay, files of those in `removed` are deleted, and those of any other plan are
        orphaned.
        """

    def limit(self, limits: tuple[TenantLimit, ...]) -> None:
        """Replace the rate limits of tenants."""

    def checkpoints(self, known: tuple[PlanCheckpoints, ...]) -> None:
        """Apply the checkpoints of these plans: they decide which results are final."""

    def registered(self, *, registered: bool) -> None:
        """Set whether a manager of the worker's system accepts its heartbeats."""

    def connect(self, key: PlanKey, epoch: int, stream: str, assigned: EndpointAssigned) -> None:
        """Connect an inflow to a receiver."""

    def snapshots(self) -> tuple[PlanSnapshot, ...]:
        """Return the status of the plans."""

    def parts(self) -> WorkerParts:
        """Return the status of everything that does not belong to one plan."""


class ControlLoop:
    """Heartbeats, plans and assignments.

    `run` is the control thread; `wake` and `stop` may be called from any.
    """

    def __init__(
        self,
        config: WorkerConfig,
        worker: str,
        context: zmq.Context[zmq.Socket[bytes]],
        clock: Clock,
        flows: ControlledDataPlane,
        ownership: Ownership | None = None,
    ) -> None:
        """Serve the plans of the system in `ownership`; without it, those of any manager."""
        self._config = config
        self._ownership = ownership
        self._worker = worker
        self._clock = clock
        self._flows = flows
        self.insight: InspectionAddress | None = None
        """The address at which managers can read the worker's log; set before `run`."""
        self._client = ControlClient(context, config.manager_endpoints(), config.registry.timeout_ms)
        self._woken = threading.Event()
        self._stopping = False
        self._revision = NO_REVISION
        self._worker_pace = HeartbeatTimer(config.registry.heartbeat_ms)
        self._endpoint_pace = HeartbeatTimer(config.registry.heartbeat_ms)
        self._receiver_tries = RetryTimer(config.registry.reconnect_ms)
        self._problem = ""
        self._time = TaskTime()
        self._reports: tuple[WorkerPlanReport, ...] = ()
        self._number = 0
        """Version of `_reports`: increases when any of them changes."""
        self._known: dict[PlanKey, WorkerPlanReport] = {}
        self._known_number = 0
        """The plan reports that the manager has, and their version (0: none)."""
        self._reported: dict[PlanKey, object] = {}
        """The endpoint of each plan that the manager has; heartbeats of the worker renew it."""

    def run(self) -> None:
        """Communicate with the managers until `stop` is called, then tell them that the worker shuts down."""
        raise_priority(self._config.registry.priority)  # this thread sends heartbeats
        try:
            while not self._stopping:
                self._woken.clear()
                self._attend(self._clock.monotonic_ms())
                self._woken.wait(self._wait_ms() / 1000)
            if self._flows.parts().leaving and not self._problem:
                self._take_leave()
        finally:
            self._client.close()

    def wake(self) -> None:
        """Report changed connections to the managers now, and ask for the missing ones."""
        self._worker_pace.at_once()
        self._endpoint_pace.at_once()
        self._woken.set()

    def stop(self) -> None:
        """Make `run` return."""
        self._stopping = True
        self._woken.set()

    def _wait_ms(self) -> int:
        now_ms = self._clock.monotonic_ms()
        waits = [LONGEST_WAIT_MS, self._worker_pace.wait_ms(now_ms)]
        snapshots = self._flows.snapshots()
        if snapshots:
            waits.append(self._endpoint_pace.wait_ms(now_ms))
        if any(snapshot.unconnected for snapshot in snapshots):
            waits.append(self._config.registry.reconnect_ms)
        return max(1, min(waits))

    def _attend(self, now_ms: int) -> None:
        """Perform due tasks. If no manager is available, retry next time."""
        try:
            if self._worker_pace.due(now_ms):
                self._worker_pace.done(now_ms)
                self._register_worker()
            if self._ownership is None or not self._ownership.refused:
                if self._endpoint_pace.due(now_ms):
                    self._endpoint_pace.done(now_ms)
                    self._register_outflows()
                self._request_receivers(now_ms)
        except PeerError as error:
            self._note(error)
        else:
            self._problem = ""
            paced_logger.over("manager", "a manager responds again: manager=%s", self._client.manager().url())

    def _take_leave(self) -> None:
        """Report the orderly shutdown to the managers."""
        try:
            self._register_worker()
        except PeerError as error:
            self._note(error)

    def _beat_if_due(self) -> None:
        """Send a heartbeat if it is due, between requests: those of a thousand plans take longer than a lease."""
        now_ms = self._clock.monotonic_ms()
        if self._worker_pace.due(now_ms):
            self._worker_pace.done(now_ms)
            self._register_worker()

    def _register_worker(self) -> None:
        if not self._send_registration():  # the manager does not have the base, as after a change of leader
            self._send_registration()

    def _send_registration(self) -> bool:
        """Register with the plan reports that the manager does not have; return False if it needs a complete report."""
        config = self._config
        parts, snapshots = self._flows.parts(), self._flows.snapshots()
        reports = tuple(snapshot.report for snapshot in snapshots)
        # an unchanged plan keeps its report
        if [*map(id, reports)] != [*map(id, self._reports)]:
            self._reports, self._number = reports, self._number + 1
        base = self._known_number if list(self._known) == [one.key for one in reports] else 0
        changed = tuple(one for one in reports if self._known[one.key] is not one) if base else reports
        self._known_number = 0
        answer = self._ask(
            RegisterWorker(
                worker=self._worker,
                host=config.host,
                process_id=os.getpid(),
                revision=max(self._revision, 0),
                plans=changed,
                http_address=f"{config.http_scheme()}://{config.http.host}:{config.http.port}",
                ingress=Endpoint(config.ingress.host, config.ingress.port),
                egress=Endpoint(config.egress.host, config.egress.port),
                insight=self.insight,
                up_ms=process_up_ms(),
                memory_bytes=memory_bytes(),
                cpu_ms=self._time.used_ms(),
                fsync=config.wal.fsync,
                leaving=parts.leaving,
                connectors=parts.connectors,
                listeners=parts.listeners,
                orphans=parts.orphans,
                **self._whose(),
                reach=config.reach(),
                number=self._number,
                base=base,
            )
        )
        if isinstance(answer, WorkerRegistered):
            self._worker_pace.interval_ms = answer.heartbeat_ms
            follows = self._follows(answer.system, adopts=answer.adopts)
            self._flows.registered(registered=follows)
            if not follows:
                return True
            if base and not answer.knows:
                return False
            self._known, self._known_number = {one.key: one for one in reports}, answer.knows
            for place in answer.again:
                if place < len(snapshots):
                    self._reported.pop(snapshots[place].report.key, None)
            self._flows.limit(answer.limits)
            self._flows.checkpoints(answer.checkpoints)
            if answer.revision != self._revision:
                self._list_plans()
        return True

    def _list_plans(self) -> None:
        answer = self._ask(ListPlans())
        if isinstance(answer, PlansListed) and self._follows(answer.system):
            self._revision = answer.revision
            self._flows.apply(answer.plans, answer.kept, answer.removed)

    def _whose(self) -> dict[str, str]:
        """Return the identity and the owner that managers need to know."""
        own = self._ownership
        if own is None:
            return {}
        return {
            "system": own.system,
            "refused_system": own.refused,
            "identity": own.worker.identity,
            "copy_of": own.worker.copy_of,
            "instance": own.instance,
        }

    def _follows(self, system: str, *, adopts: bool = False) -> bool:
        """Return whether to follow the managers of that system.

        This is so if its plans are served, or if it `adopts` this worker.

        Managers of another system do not know the plans whose events are stored here, and would report all of them as
        missing.
        """
        if self._ownership is None:
            return True
        try:
            if adopts:
                self._ownership.adopt(system)
            followed = self._ownership.serves(system)
        except OSError as error:
            paced_logger.problem(
                "system", "cannot save the identity of the managers' system: reason=%s", error, level=logging.ERROR
            )
            return False
        if followed:
            paced_logger.over("system", "following the managers' system: system=%s", system)
            return True
        paced_logger.problem(
            "system", "the manager is of another system, its plans are refused and accepted events are kept: "
            "manager=%s its_system=%s served_system=%s; start the manager on its former database, or let this "
"worker serve the other system "
            "with `cep wal adopt`",
            self._client.manager().url(), system, self._ownership.system, level=logging.ERROR,
        )  # fmt: skip
        self._client.leave()
        return False

    def _step_back(self) -> None:
        """Stop serving plans because another process has this worker's name; accepted events stay on disk."""
        keys = tuple(snapshot.report.key for snapshot in self._flows.snapshots())
        if keys:
            self._flows.apply((), keys)
        self._revision = NO_REVISION

    def _register_outflows(self) -> None:
        """Register the endpoints whose state differs from what the manager knows."""
        snapshots = self._flows.snapshots()
        present = {snapshot.report.key for snapshot in snapshots if snapshot.outflow is not None}
        # In place: the answer to a heartbeat between two requests may say which registrations the manager needs again.
        for gone in self._reported.keys() - present:
            del self._reported[gone]
        for snapshot in snapshots:
            report = snapshot.report
            reported = (report.epoch, snapshot.outflow, report.publishers)
            if snapshot.outflow is None:
                continue
            if self._reported.get(report.key) == reported:
                continue
            self._reported.pop(report.key, None)
            self._beat_if_due()
            answer = self._ask(
                RegisterEndpoint(
                    role="worker",
                    key=report.key,
                    epoch=report.epoch,
                    instance=self._worker,
                    endpoint=snapshot.outflow,
                    connections=report.publishers,
                )
            )
            if isinstance(answer, EndpointRegistered):
                self._endpoint_pace.interval_ms = answer.heartbeat_ms
                self._reported[report.key] = reported

    def _request_receivers(self, now_ms: int) -> None:
        missing = {
            (snapshot.report.key, snapshot.report.epoch, unconnected.stream): unconnected.former
            for snapshot in self._flows.snapshots()
            for unconnected in snapshot.unconnected
        }
        due = self._receiver_tries.due(sorted(missing), now_ms)
        for key, epoch, stream in sorted(missing.keys() & set(due)):
            former = missing[key, epoch, stream]
            self._beat_if_due()
            request = RequestEndpoint("receiver", key, epoch, self._worker, self._config.host, stream, former=former)
            answer = self._ask(request)
            if isinstance(answer, EndpointAssigned):
                self._flows.connect(key, epoch, stream, answer)

    def _ask(self, message: RegisterWorker | ListPlans | RegisterEndpoint | RequestEndpoint) -> object:
        """Return the answer to `message`, or None when it was refused.

        A refusal is no error: a starting topology has no endpoints yet, and the next list of plans replaces an old
        epoch.

        Raises:
            PeerError: the manager does not answer.
        """
        try:
            return self._client.request(message)
        except RequestRejectedError as error:
            level = LEVELS.get(error.reason_code, logging.WARNING)
            text = "request refused: request=%s code=%s reason=%s"
            paced_logger.problem(message.TYPE, text, message.TYPE, error.reason_code, error, level=level)
            if error.reason_code == NAME_TAKEN:
                self._step_back()
            return None

    def _note(self, error: CepError) -> None:
        self._flows.registered(registered=False)
        self._problem = error.message
        paced_logger.problem("manager", "no manager: reason=%s", error)
