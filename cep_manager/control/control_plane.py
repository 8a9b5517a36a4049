"""The manager's decisions: answers to messages, and instructions. Pure.

The control loop (`loop`) passes it messages, commands and the monotonic time, and executes its instructions.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

import msgspec

from cep_common.ids import PlanKey
from cep_common.lease import AdaptiveLease
from cep_common.protocol.drivers import DriverRegistered, PlanHost, RegisterDriver, RenamePlan, TopologyReport
from cep_common.protocol.registry import (
    DeployedPlan,
    ListPlans,
    Message,
    PlansListed,
    RegisterEndpoint,
    RegisterWorker,
    Rejected,
    RemovedPlan,
    RequestEndpoint,
    WorkerPlanReport,
    WorkerRegistered,
)
from cep_common.protocol.tasks import RefreshTasks, RegisterTask, TaskRegistered
from cep_manager.config import QuotasConfig
from cep_manager.control.committed_results import standing_results
from cep_manager.control.deployment import state_transfer
from cep_manager.control.deployment.deployments import PlanDeployments, describe_task
from cep_manager.control.instructions import DriverOrder, Instruction, PushToDriver
from cep_manager.control.members import ClusterMembers
from cep_manager.control.registry import EndpointRegistry
from cep_manager.control.result_order import ResultOrder
from cep_manager.control.run_fence import RunFence
from cep_manager.control.snapshot import ClusterSnapshot
from cep_manager.control.task_refreshes import TaskRefreshes
from cep_manager.control.worker_admission import WorkerAdmission
from cep_manager.errors import NoDriverError
from cep_manager.history.checkpoint_history import CheckpointHistory
from cep_manager.history.counter_histories import CounterHistories
from cep_manager.history.deliveries import DeliveryCounts
from cep_manager.history.error_history import ErrorHistory
from cep_manager.history.samples import Samples
from cep_manager.history.topic_lags import TopicLags
from cep_manager.log_line import LogLine
from cep_manager.plans.compiled_plan import CompiledPlan
from cep_manager.plans.present_names import present_names, renames
from cep_manager.plans.quotas import share_of_events
from cep_manager.plans.record import PlanRecord, PlanToRun
from cep_manager.plans.state import PlanState
from cep_manager.plans.store import MOST_REMOVED
from cep_manager.plans.stored_plan import SettingsPatch

HEARTBEATS = (RegisterEndpoint, RequestEndpoint, RegisterWorker, RegisterTask, RefreshTasks, RegisterDriver, ListPlans)
"""Messages that may repeat what is known; their content decides whether anything has changed."""

Report = TypeVar("Report", WorkerPlanReport, TopologyReport)

CHANGING_HEARTBEAT_MS = 100
"""Interval at which tasks of a plan that is being changed send heartbeats: orders are sent with the answers, and events
wait for them."""


class ControlPlane:
    """Registry, members and deployments, and the rules between them. Not thread-safe."""

    def __init__(
        self,
        heartbeat_ms: int,
        lease_ms: int,
        default_workers: int,
        revision: int,
        quotas: QuotasConfig,
        ahead_ms: int = 0,
        system: str = "",
        removed: tuple[RemovedPlan, ...] = (),
        default_host: PlanHost = "own",
    ) -> None:
        """`revision` is where the plan list's count begins; it is above all that an earlier process gave out.

        The time of day is `ahead_ms` ahead of the monotonic time. `system` is the database's identity, and `removed`
        are the plans that were undeployed on purpose.
        """
        self._system = system
        self._removed = removed
        self._admission = WorkerAdmission(system)
        self._ahead_ms = ahead_ms
        self._heartbeat_ms = heartbeat_ms
        self._lease_ms = lease_ms
        self._lease = AdaptiveLease(lease_ms, heartbeat_ms)
        self._revision = revision
        self._registry = EndpointRegistry(heartbeat_ms, lease_ms)
        self._members = ClusterMembers(lease_ms, self._lease)
        self._histories = CounterHistories()
        self._deliveries = DeliveryCounts()
        self._topic_lags = TopicLags()
        self._errors = ErrorHistory()
        self._checkpoints = CheckpointHistory()
        self._samples = Samples()
        self._deployments = PlanDeployments(lease_ms, default_workers, quotas, default_host)
        self._fence = RunFence(self._deployments, self._members, self._registry, heartbeat_ms, lease_ms)
        self._result_order = ResultOrder(self._deployments, self._members, self._registry)
        self._refreshes = TaskRefreshes(self._deployments, self._members, self._registry, self._samples, self._lease)
        self._quotas = quotas
        self._driver_lost = False
        self._reported: object = None
        """The part of the driver's last report that `tick` uses."""
        self.news = True
        """Whether a report or an order has arrived since the last `tick` that should be processed soon. Heartbeats
        without news are not processed one by one."""
        self.looked = True
        """Whether the last `tick` processed all plans."""
        self._look_due_ms = 0
        """Until then plans can only change by messages and commands."""
        self._looked_revision = revision

    # ---- messages --------------------------------------------------------------------------------------------------

    def handle(self, peer: bytes, message: Message, now_ms: int) -> tuple[Message, list[Instruction]]:
        """Return the response to `message`, and further actions."""
        self.news = self.news or not isinstance(message, HEARTBEATS)
        whole = self._members.with_known(message)
        if whole is None:  # the base was reported to another manager, so the driver or worker must report everything
            return self._tell_all(message), []
        message = whole
        # Before the names are translated: the driver gets the new names of plans that it still reports by old ones.
        stale = renames(message, self._deployments.plans) if isinstance(message, RegisterDriver) else ()
        message = present_names(message, self._deployments.plans)
        farewell = self._fence.farewell(message, now_ms)
        if farewell is not None:
            return farewell, []
        match message:
            case RegisterEndpoint():
                by_stage = message.role == "receiver"
                refusal = self._fence.refuse_run(message) if by_stage else self._fence.refuse_epoch(message)
                return refusal or self._registry.register(message, now_ms), []
            case RequestEndpoint():
                by_stage = message.role == "worker"
                refusal = self._fence.refuse_run(message) if by_stage else self._fence.refuse_epoch(message)
                refusal = refusal or self._fence.await_receivers(message, now_ms)
                return (refusal, []) if refusal else self._assign(message, now_ms)
            case RegisterWorker():
                return self._worker(peer, message, now_ms)
            case RegisterTask():
                return self._task(peer, message, now_ms)
            case RefreshTasks():
                return self._refreshes.refresh(message, self._heartbeat_ms, self._lease_ms, now_ms), []
            case RegisterDriver():
                return self._driver_with_names(peer, message, stale, now_ms)
            case ListPlans():
                return self._list_plans(), []
        return Rejected(
            code="unexpected-message", reason=f"a manager does not accept messages of type {message.TYPE}"
        ), []

    def _assign(self, message: RequestEndpoint, now_ms: int) -> tuple[Message, list[Instruction]]:
        request = self._result_order.follow(message, now_ms)
        if isinstance(request, Rejected):
            return request, []
        answer, notes = self._registry.assign(request, now_ms)
        self._result_order.assigned(request, answer)
        return answer, notes

    def _tell_all(self, message: Message) -> Message:
        if isinstance(message, RegisterWorker):
            return WorkerRegistered(self._heartbeat_ms, self._revision, system=self._system)
        return DriverRegistered(self._heartbeat_ms, self._lease_ms, system=self._system)

    def _worker(self, peer: bytes, message: RegisterWorker, now_ms: int) -> tuple[Message, list[Instruction]]:
        # answered without plans: systems that share a network must not take over each other's workers
        if self._admission.is_foreign(message, now_ms):
            adopts = self._admission.is_adopted(message.worker)
            return WorkerRegistered(self._heartbeat_ms, 0, system=self._system, adopts=adopts), []
        holder = self._members.live_by_name(now_ms).get(message.worker)
        refusal = self._admission.refuse(message, holder, now_ms, self._lease_ms)
        if refusal is not None:
            return refusal, []
        # Before it is recorded, while its former identity is still known as away.
        self._admission.returned(message, self._members.away_workers, now_ms)
        notes: list[Instruction] = []
        former = self._members.workers.get(message.worker)
        reported = _news(message.plans, former.latest.plans if former is not None else ())
        plans = tuple(report for report in reported if self._deployments.speaks_of_plan(report))
        self._errors.worker_heard(msgspec.structs.replace(message, plans=plans))
        self._deliveries.heard(message.worker, message.process_id, plans, now_ms)
        self._topic_lags.heard(message.worker, message.connectors, now_ms)
        new = self._members.worker_heard(message, peer, now_ms)
        self.news = self.news or new or message.leaving or any(one.needs_epoch for one in plans)
        self.news = self.news or any(record.draining is not None for record in self._deployments.plans.values())
        if new:
            # it was considered alive, so its process crashed or was killed
            if former is not None and not former.latest.leaving:
                last = former.latest
                text = f"worker {last.worker} was restarted before it was reported lost"
                self._process_lost("worker-restarted", text, last.host, last.process_id, now_ms)
            where = f"worker={message.worker} host={message.host} process={message.process_id}"
            notes.append(LogLine("info", f"worker registered {where}"))
        limits = share_of_events(self._quotas, self._deployments.plans, self._members.live_workers(now_ms))
        checkpoints = standing_results(self._deployments.plans, self._members.live_driver(now_ms))
        again = tuple(
            place
            for place, one in enumerate(message.plans)
            if not self._registry.renew_worker(one.key, one.epoch, message.worker, one.publishers, now_ms)
        )
        registered = WorkerRegistered(
            self._heartbeat_ms,
            self._revision,
            limits,
            checkpoints,
            system=self._system,
            again=again,
            knows=message.number,
        )
        return registered, notes

    def _task(self, peer: bytes, message: RegisterTask, now_ms: int) -> tuple[Message, list[Instruction]]:
        refusal = self._fence.refuse_run(message)
        if refusal is not None:
            return refusal, []
        notes: list[Instruction] = []
        self._histories.heard(message, now_ms - message.counted_ago_ms)
        self._errors.task_heard(message)
        self._samples.heard(message.key, message.samples)
        message = msgspec.structs.replace(message, samples=())  # members keep the reports of some seconds
        new = self._members.task_heard(message, peer, now_ms)
        if new:
            task = describe_task(self._members.tasks[message.key][message.epoch, message.task])
            notes.append(LogLine("info", f"task registered plan={message.key.topology()} task={task!r}"))
        # the message passed the fence, so the plan exists
        record = self._deployments.plans[message.key]
        self._refreshes.registered(message, record)
        samples = self._samples.orders(message.key, now_ms)
        order, sources = state_transfer.order(record, message.epoch, self._members.tasks[message.key])
        if record.rests:  # no further events arrive; pausing shows when all have been processed
            order = "pause"
        changes = record.trial is not None or record.rests
        self.news = self.news or new or changes or record.state not in (PlanState.ACTIVE, PlanState.INACTIVE)
        # During a change each step waits for reports of all tasks, so they report more often.
        heartbeat_ms = min(CHANGING_HEARTBEAT_MS, self._heartbeat_ms) if changes else self._heartbeat_ms
        level = record.statistics_level()
        answer = TaskRegistered(heartbeat_ms, self._lease_ms, order, sources, samples=samples, statistics=level)
        return msgspec.structs.replace(answer, released=record.released), notes

    def _driver_with_names(
        self, peer: bytes, message: RegisterDriver, stale: Sequence[RenamePlan], now_ms: int
    ) -> tuple[Message, list[Instruction]]:
        answer, notes = self._driver(peer, message, now_ms)
        if not isinstance(answer, DriverRegistered) or not stale:
            return answer, notes
        # The registry has the new names: only a full report shows whether the driver has them, too.
        answer = msgspec.structs.replace(answer, knows=0)
        return answer, [*notes, *(PushToDriver(peer, order) for order in stale)]

    def _driver(self, peer: bytes, message: RegisterDriver, now_ms: int) -> tuple[Message, list[Instruction]]:
        if not self._members.accepts_driver(message, now_ms):
            live = self._members.live_driver(now_ms)
            other = live.latest if live else message
            reason = (
                f"driver {other.driver} on {other.host} (process {other.process_id}) is alive; one driver at a time"
            )
            return Rejected(code="driver-exists", reason=reason), []
        # Refused permanently, so that it ends: two drivers of one name would replace each other forever.
        if self._members.was_replaced(message, now_ms):
            return self._driver_replaced(message, now_ms)
        former = self._members.driver
        changed = _news(message.topologies, former.latest.topologies if former is not None else ())
        topologies = tuple(report for report in changed if self._deployments.speaks_of_plan(report))
        self._errors.driver_heard(msgspec.structs.replace(message, topologies=topologies))
        for report in topologies:
            self._fence.attempt_heard(report.key, report.epoch, report.restarts)
            self._checkpoints.heard(report)
        notes: list[Instruction] = []
        before = self._members.live_driver(now_ms)
        if self._members.driver_heard(message, peer, now_ms):
            if before is not None:
                last = before.latest
                text = f"the driver {last.driver} was restarted before it was reported lost"
                self._process_lost("driver-restarted", text, last.host, last.process_id, now_ms)
            where = f"driver={message.driver} host={message.host} process={message.process_id} master={message.master}"
            notes.append(LogLine("info", f"driver registered {where}"))
        driver = self._members.live_driver(now_ms)
        reported = [(one.key, one.epoch, one.state, one.restarts, one.reason) for one in message.topologies]
        news = reported, message.savepoints, message.executors, message.slots_total, message.slots_free
        # Drivers repeat the same report with every heartbeat; only changes require a check of all plans.
        if news != self._reported or before is None or before.peer != peer:
            self._reported, self.news = news, True
        if driver is not None:
            notes += self._deployments.orphans(driver)
        knows = message.number
        return DriverRegistered(self._heartbeat_ms, self._lease_ms, system=self._system, knows=knows), notes

    def _driver_replaced(self, message: RegisterDriver, now_ms: int) -> tuple[Message, list[Instruction]]:
        live = self._members.live_driver(now_ms)
        other = live.latest if live else message
        reason = (
            f"driver {message.driver} on {message.host} (process {message.process_id}) ends: another process of this "
            f"name, on {other.host} (process {other.process_id}), was started later; give each driver its own name"
        )
        notes: list[Instruction] = [LogLine("warning", f"driver refused reason={reason!r}")]
        return Rejected(code="driver-replaced", reason=reason), notes

    def _list_plans(self) -> PlansListed:
        records = (self._deployments.plans[key] for key in sorted(self._deployments.plans))
        plans = tuple(_deployed(record, record.compiled) for record in records if record.compiled is not None)
        # Workers must keep the data of plans that only this version of the manager cannot compile.
        kept = tuple(key for key, record in sorted(self._deployments.plans.items()) if record.compiled is None)
        return PlansListed(self._revision, plans, kept, self._removed, self._system)

    # ---- commands --------------------------------------------------------------------------------------------------

    def put_plan(self, plan: PlanToRun, now_ms: int) -> list[Instruction]:
        """Run the stored plan in place of any other plan of its key."""
        self._revision += 1
        instructions = self._deployments.put(plan, self._members.live_driver(now_ms), now_ms)
        if isinstance(plan.compiled, str):
            self._errors.note(plan.key, "failure", "plan-invalid", plan.compiled, "", 0, now_ms + self._ahead_ms)
        self._keep_epochs(plan.key)
        return instructions

    def rename_plan(self, plan: PlanToRun) -> list[Instruction]:
        """Give the plan the name and the text of the stored one; its topology keeps running."""
        self._revision += 1
        instructions = self._deployments.rename(plan)
        self._errors.rename(plan.key)
        return instructions

    def remove_plan(self, key: PlanKey, now_ms: int, *, drain: bool = False) -> list[Instruction]:
        """Remove the plan with its topology, endpoints and tasks; repeating this changes nothing.

        Allows workers to delete their data of the plan.
        """
        self._revision += 1
        record = self._deployments.plans.get(key)
        if record is not None:
            self._removed = (*self._removed, RemovedPlan(key, record.stored.created_ms, record.goes))[-MOST_REMOVED:]
        instructions = self._deployments.remove(key, self._members.live_driver(now_ms), now_ms, drain=drain)
        self._keep_epochs(key)
        return instructions

    def drain_plan(self, key: PlanKey, workers: tuple[str, ...] | None, now_ms: int) -> list[Instruction]:
        """Stop the plan's intake and remove the plan when nothing of it is left.

        With None it continues after all.
        """
        self._revision += 1
        instructions = self._deployments.drain(key, workers, self._members.live_driver(now_ms))
        self._keep_epochs(key)
        return instructions

    def not_removed(self, key: PlanKey, reason: str) -> list[Instruction]:
        """Note that the plan store could not carry out a `RemoveDrained`."""
        return self._deployments.not_removed(key, reason)

    def adopt_worker(self, worker: str) -> list[Instruction]:
        """Make a worker that serves another system join this one with its next heartbeat."""
        self._admission.adopt(worker)
        return [LogLine("warning", f"worker of another system is adopted worker={worker}")]

    def change_settings(self, key: PlanKey, patch: SettingsPatch) -> list[Instruction]:
        """Change settings of the plan; workers learn theirs from the next list of plans, tasks with a heartbeat."""
        if msgspec.UNSET is not patch.intake or msgspec.UNSET is not patch.trace:
            self._revision += 1  # workers see these in their list of plans
        return self._deployments.change_settings(key, patch)

    def release(self, key: PlanKey, streams: tuple[str, ...]) -> list[Instruction]:
        """Let event time advance without the first events of these streams.

        The plan's tasks learn it with their next heartbeat.
        """
        self._deployments.release(key, streams)
        return [LogLine("info", f"first events are not waited for plan={key.topology()} streams={','.join(streams)}")]

    def sample(
        self, key: PlanKey, components: tuple[str, ...], percent: float, for_ms: int, now_ms: int
    ) -> list[Instruction]:
        """Sample events that pass the stages for `for_ms`; a `percent` of 0 stops sampling."""
        if percent:
            self._samples.begin(key, components, percent, now_ms + for_ms)
        else:
            self._samples.end(key, components)
        return []

    def restart_plan(
        self, key: PlanKey, epoch: int, now_ms: int, restore: str = "", restore_epoch: int = 0
    ) -> list[Instruction]:
        """Submit the plan again under `epoch`, which the plan store has already counted.

        It starts from what `restore` says, as ordered under `restore_epoch`.
        """
        self._revision += 1
        driver = self._members.live_driver(now_ms)
        instructions = self._deployments.restart(key, epoch, driver, now_ms, restore, restore_epoch)
        self._keep_epochs(key)
        return instructions

    def order(self, order: DriverOrder, now_ms: int) -> list[Instruction]:
        """Send the order to the driver. Raises NoDriverError."""
        driver = self._members.live_driver(now_ms)
        if driver is None:
            raise NoDriverError(self._driver_missing(now_ms))
        return [PushToDriver(driver.peer, order)]

    def epoch_raised(self, key: PlanKey, epoch: int, now_ms: int) -> list[Instruction]:
        """Continue with the epoch that the plan store counted for a `RaiseEpoch`."""
        self._revision += 1
        instructions = self._deployments.epoch_raised(key, epoch, now_ms)
        self._keep_epochs(key)
        return instructions

    def epoch_not_raised(self, key: PlanKey, reason: str, now_ms: int) -> list[Instruction]:
        """Note that the plan store could not carry out a `RaiseEpoch`."""
        return self._deployments.epoch_not_raised(key, reason, now_ms)

    # ---- time ------------------------------------------------------------------------------------------------------

    def tick(self, now_ms: int, behind_ms: int = 0) -> list[Instruction]:
        """Return the instructions that follow from time and messages. Call it after messages, and often.

        Messages have been waiting unread for `behind_ms`. A peer whose heartbeat may be among them is not silent, so
        leases are extended by that time. All plans are only checked after changes, or when time may have changed
        something.
        """
        # First: any message that arrives while this tick's instructions are carried out requires another tick.
        news, self.news = self.news, False
        self._adapt_lease(now_ms, behind_ms)
        silent = self._members.expire_workers(now_ms)
        driver = self._members.live_driver(now_ms)
        lost = driver is None and self._members.driver is not None
        changed = news or silent or lost is not self._driver_lost or self._revision != self._looked_revision
        self.looked = bool(changed) or now_ms >= self._look_due_ms
        if not self.looked:
            return []
        instructions = self._registry.expire(now_ms)
        self._refreshes.forget_silent(now_ms, self._lease_ms)
        for worker in silent:
            silence = f"silent_ms={now_ms - worker.heard_ms}"
            latest = worker.latest
            if latest.leaving:
                instructions.append(LogLine("info", f"worker left worker={latest.worker} {silence}"))
                continue
            instructions.append(LogLine("warning", f"worker lost worker={latest.worker} {silence}"))
            text = f"worker {latest.worker} fell silent"
            self._process_lost("worker-lost", text, latest.host, latest.process_id, now_ms)
        if lost and not self._driver_lost:
            instructions.append(LogLine("error", f"driver lost reason={self._driver_missing(now_ms)!r}"))
            latest_driver = self._members.driver.latest if self._members.driver is not None else None
            if latest_driver is not None:
                text = f"the driver {latest_driver.driver} fell silent"
                self._process_lost("driver-lost", text, latest_driver.host, latest_driver.process_id, now_ms)
        self._driver_lost = lost
        # Epochs may change in `reconcile`; everything that is kept by epoch follows at once below.
        before = {key: record.epochs() for key, record in self._deployments.plans.items()}
        instructions += self._deployments.step_drains(self._members, now_ms)
        missing, served = self._driver_missing(now_ms), self._members.served_plans(now_ms)
        instructions += self._deployments.reconcile(driver, self._members.tasks, served, missing, now_ms)
        for key, record in self._deployments.plans.items():
            if record.epochs() != before[key]:
                self._revision += 1
                self._keep_epochs(key)
        self._looked_revision = self._revision
        self._look_due_ms = self._deployments.steady_until_ms
        return instructions

    def _adapt_lease(self, now_ms: int, behind_ms: int) -> None:
        """Give peers more time while heartbeats come late, or are read late."""
        self._lease_ms = self._lease.ms(now_ms) + behind_ms
        self._deployments.behind_ms = behind_ms
        for part in (self._members, self._registry, self._deployments):
            part.lease_ms = self._lease_ms

    def snapshot(self, now_ms: int) -> ClusterSnapshot:
        """Return an immutable snapshot."""
        return ClusterSnapshot(
            now_ms=now_ms,
            lease_ms=self._lease_ms,
            revision=self._revision,
            plans=dict(self._deployments.plans),
            driver=self._members.driver,
            driver_missing=self._driver_missing(now_ms),
            workers=tuple(self._members.workers[name] for name in sorted(self._members.workers)),
            lost_workers=tuple(self._members.lost_workers[name] for name in sorted(self._members.lost_workers)),
            tasks={
                key: found
                for key, record in self._deployments.plans.items()
                if (found := self._members.tasks_of(key, record.epoch))
            },
            endpoints=self._registry.records(),
            histories=self._histories.snapshot(),
            deliveries=self._deliveries.snapshot(),
            growing_lags=self._topic_lags.growing(),
            errors=self._errors.groups(),
            checkpoints=self._checkpoints.known(),
            samples=self._samples.snapshot(),
            away_workers=tuple(self._members.away_workers[name] for name in sorted(self._members.away_workers)),
            strangers=self._admission.strangers(now_ms, self._lease_ms),
        )

    def _process_lost(self, code: str, text: str, host: str, process_id: int, now_ms: int) -> None:
        self._errors.note(None, "failure", code, text, host, process_id, now_ms + self._ahead_ms)

    def _driver_missing(self, now_ms: int) -> str:
        """Return why no driver can be asked; empty when one is alive."""
        if self._members.live_driver(now_ms) is not None:
            return ""
        last = self._members.driver
        if last is None:
            return "no driver has registered"
        driver = last.latest
        return f"the driver {driver.driver} on {driver.host} (process {driver.process_id}) is silent"

    def _keep_epochs(self, key: PlanKey) -> None:
        """Remove tasks, endpoints and histories of the plan's former epochs."""
        record = self._deployments.plans.get(key)
        epochs = record.epochs() if record is not None else ()
        instances = record.instances() if record is not None else frozenset()
        self._registry.keep_epochs(key, epochs)
        self._fence.keep(key, epochs)
        self._members.keep_tasks(key, epochs)
        self._histories.keep(key, epochs, instances)
        self._checkpoints.keep_epochs(key, epochs)
        # The plan was removed; during a change its history is kept.
        if record is None:
            self._errors.keep(self._deployments.plans)
            self._deliveries.keep(self._deployments.plans)
            self._checkpoints.keep(self._deployments.plans)
            self._result_order.keep(self._deployments.plans)
        self._samples.keep(key, {name.rpartition("#")[0] for name in instances})


def _news(reports: tuple[Report, ...], known: tuple[Report, ...]) -> tuple[Report, ...]:
    """Return the changed reports of a peer; unchanged ones are the same objects as before."""
    if reports is known:
        return ()
    before = set(map(id, known))
    return tuple(one for one in reports if id(one) not in before)


def _deployed(record: PlanRecord, compiled: CompiledPlan) -> DeployedPlan:
    return DeployedPlan(
        key=record.key,
        epoch=record.epoch,
        imported=compiled.imported,
        exported=compiled.exported,
        playback=compiled.playback,
        sources=compiled.sources,
        sinks=compiled.sinks,
        intake=record.accepts_events(),
        trace=record.traced(),
        delivery=compiled.delivery,
        deployed_ms=record.stored.created_ms,
        former_names=record.stored.former_names,
    )
