"""The driver process: owns the Spark session, executes the manager's orders, and reports on its topologies."""

from __future__ import annotations

import logging
import os
import queue
import signal
import threading
from collections.abc import Callable
from functools import partial
from pathlib import Path
from types import FrameType

import msgspec
from py4j.protocol import Py4JError

from cep_common.clock import Clock, SystemClock
from cep_common.ids import SUPER_TENANT, PlanKey
from cep_common.inspection.endpoint import Inspection, open_inspection
from cep_common.monitoring.paced_log import PacedLog
from cep_common.nodes.files import DRAINED_FILE
from cep_common.nodes.role_watch import RoleWatch
from cep_common.process.priority import raise_priority, raise_process_priority
from cep_common.process.up_time import process_up_ms
from cep_common.protocol.checkpoints import ClearCheckpoints, DeleteSavepoint, TakeSavepoint
from cep_common.protocol.drivers import (
    ExecutorReport,
    KillTopology,
    RegisterDriver,
    RenamePlan,
    SubmitTopology,
    TopologyReport,
)
from cep_common.protocol.registry import Message
from cep_common.security.context import open_context
from cep_common.security.roles import Role
from cep_common.sockets.transport import ControlClient
from cep_common.sockets.wakeup import Wakeup
from topology.checkpoint.coordination.instructions import Drained, RestartTopology
from topology.checkpoint.coordination.runs import RunId
from topology.checkpoint.coordination.service import RunOpened, RunRefused
from topology.driver.fencing import OrderFence
from topology.driver.lifecycle import Instruction, SlotUse, TopologyAction, TopologyRuns
from topology.spark.driver_side.checkpointing import checkpoint_settings, start_checkpoints
from topology.spark.driver_side.config import DriverConfig
from topology.spark.driver_side.executors import ExecutorWatch
from topology.spark.driver_side.failures import TopologyFailures
from topology.spark.driver_side.hosts import HostedJob, Hosts
from topology.spark.driver_side.metrics import DriverMetrics, MetricsServer
from topology.spark.driver_side.registration import DriverStatus, ManagerRegistration
from topology.spark.driver_side.reports import RegistrationReport, TopologyReports
from topology.spark.driver_side.session import CANCELLED, SparkJob, TopologyJob, start_session
from topology.spark.driver_side.warming import Warming, run_a_task_on_each
from topology.spark.errors import SessionLostError
from topology.spark.reasons import DOUBTFUL_ENDS, NO_EVENT_ENDS, Ending
from topology.stages.settings import StageSettings, TaskAssignment

logger = logging.getLogger(__name__)
paced_logger = PacedLog(logger)

TURN_MS = 50
"""How long the loop waits for messages while a topology or host is starting or ending."""
QUIET_TURN_MS = 500
"""How long it waits otherwise: messages, ended jobs and checkpoint events wake it."""

LEAVE_MS = 2_000
"""How long a cancelled job may take to end when the driver shuts down."""

EXECUTORS_WITHIN_MS = 15_000
"""How long to wait for the first executor. Without one the driver is ready, too: plans wait for one and report that."""

MOVED = "it has ended its stage host twice, so it runs in a task of its own now"

ORDERS = (SubmitTopology, KillTopology, RenamePlan, TakeSavepoint, DeleteSavepoint, ClearCheckpoints)
"""The messages that a manager may push; each has the leader's token."""


class JobEnded(msgspec.Struct, frozen=True):
    """The Spark job of a topology has ended."""

    key: PlanKey
    epoch: int
    ending: Ending


class Driver:
    """The driver: executes orders in one loop.

    Orders arrive from the manager, and ends of jobs from their threads; one thread makes all decisions.
    """

    def __init__(self, config: DriverConfig, clock: Clock, insight: Inspection | None = None) -> None:
        """Create a driver. Managers may read `insight`."""
        self._config = config
        self._clock = clock
        self._stopping = threading.Event()
        self._endings: queue.SimpleQueue[JobEnded] = queue.SimpleQueue()
        self._wakeup = Wakeup()
        self._jobs: dict[tuple[PlanKey, int], SparkJob] = {}
        self._opening: dict[RunId, SubmitTopology] = {}
        self._forgotten: dict[PlanKey, tuple[int, int]] = {}
        self._failures = TopologyFailures()
        self._topology_reports = TopologyReports()
        self._started_ms = clock.now_ms()
        self._context = open_context(
            config.security, Role.DRIVER, {"host": config.host, "stages.host": config.stages.host or config.host}
        )
        self._reading = DriverMetrics(slots=0, slots_free=0, executors=0, registered=False)
        self._metrics = self._serve_metrics()
        self._checkpoints = start_checkpoints(config, self._context, clock)
        self._checkpoints.happened = self._wakeup.ring
        self._inspection = open_inspection(self._context, Role.DRIVER, config.host, config.log, insight)
        self._session = start_session(config.spark, config.host)
        self._spark = self._session.sparkContext
        self._web_url = self._spark.uiWebUrl or ""
        self._watch = ExecutorWatch(self._spark, clock)
        self._watch.start()
        self._hosts = Hosts(config, self._context, self._spark, self._watch.hosts, clock, self._started_ms)
        self._warming = Warming(partial(run_a_task_on_each, self._spark))
        self._await_executors()
        restart = config.restart
        self._runs = TopologyRuns(
            self._slots(), restart.first_backoff_ms, restart.longest_backoff_ms, restart.start_timeout_ms
        )
        self._use: SlotUse | None = None
        """The slots that the topologies need; None if this may have changed."""
        self._slots_seen: object = None
        """The executors and stage hosts of the last turn."""
        self._stirred = True
        self._view_version = -1
        self._last_reports: tuple[TopologyReport, ...] = ()
        self._moved = True
        self._fence = OrderFence()
        self._registration = ManagerRegistration(
            self._fence, clock, config.manager_endpoints(), config.request_timeout_ms
        )
        self.drained: Callable[[], None] = lambda: None
        """Called when the last topology of a stopping driver has ended, before its session ends."""

    def stop(self) -> None:
        """Make `run` return soon."""
        self._stopping.set()

    def stand_by(self) -> None:
        """Keep a stage host running while the node is passive, in which plans start at once when it becomes active.

        Call it often before `run`, in the same thread.
        """
        # A plan's tenant is known when it is submitted. Other tenants' plans wait until their stage host has started.
        self._hosts.keep(frozenset({SUPER_TENANT}))
        self._see_executors()
        self._tend_hosts()

    def run(self) -> None:
        """Work until stopped, then end all topologies and the session.

        Raises:
            SessionLostError: When Spark has ended. DriverReplacedError: When a later process of the same name has
            started.
        """
        context = self._context
        raise_priority(self._config.priority)  # this thread sends heartbeats
        client = ControlClient(context, self._config.manager_endpoints(), self._config.request_timeout_ms)
        self._hosts.keep(frozenset())
        logger.info("driver is ready: master=%s slots=%d", self._config.spark.master, self._runs.slots_total)
        try:
            while not self._stopping.is_set():
                self._turn(client)
            self._drain(client)
        except (Py4JError, OSError) as error:
            raise SessionLostError(f"Spark's process does not respond: {error}") from error
        finally:
            client.close()
            self._checkpoints.close()
            if self._metrics is not None:
                self._metrics.close()
            if self._inspection is not None:
                self._inspection.close()
            context.destroy(linger=0)
            self._watch.close()
            self._hosts.close()
            self._end_session()
            self._wakeup.close()

    def _end_session(self) -> None:
        try:
            for job in self._jobs.values():
                job.cancel()
            self._session.stop()
        except (Py4JError, OSError) as error:
            logger.warning("Spark could not be stopped cleanly: %s", error)

    def _drain(self, client: ControlClient) -> None:
        """Let every topology take a last checkpoint, if it can in time, and end."""
        self._do(self._runs.drain_all())
        self._use = None
        until_ms = self._clock.monotonic_ms() + self._config.checkpoint.drain_ms + LEAVE_MS
        while self._runs.runs and self._clock.monotonic_ms() < until_ms:
            self._turn(client)
        # Jobs that have not ended by now end with the session; until then the process must be fenced with its node.
        if not self._runs.runs:
            self.drained()

    def _turn(self, client: ControlClient) -> None:
        self._stirred = False
        for message in client.pushed(self._wait_ms(), self._wakeup.handle, self._hosts.socket):
            self._stirred = True
            if not self._stopping.is_set():
                self._obey(message)
        self._wakeup.silence()  # before its causes are checked
        if self._watch.lost is not None:
            raise self._watch.lost
        now_ms = self._clock.monotonic_ms()
        while not self._endings.empty():
            ending = self._endings.get()
            self._stirred = True
            self._jobs.pop((ending.key, ending.epoch), None)
            logger.info("topology ended: topology=%s reason=%s", ending.key.topology(), ending.ending.reason)
            self._ended(ending, now_ms)
        self._follow_checkpoints(now_ms)
        self._see_executors()
        slots = self._runs.executors, self._hosts.tenants()
        # nothing can change without an order, so a thousand topologies need not be checked
        quiet = self._use is not None and not (self._stirred or self._use.moves or slots != self._slots_seen)
        self._slots_seen = slots
        if not quiet:
            self._use = None
            self._follow_starts(now_ms)
        self._tend_hosts()
        if not quiet or self._stirred:
            self._do(self._runs.on_time(now_ms))
            self._use = self._runs.slot_use()
        reports = self._reports()
        savepoints = self._checkpoints.savepoints()
        self._reading = DriverMetrics(
            slots=self._runs.slots_total,
            slots_free=self._slots_free(),
            executors=sum(one.usable for one in self._watch.executors),
            registered=self._registration.is_registered(),
            topologies=reports,
            turned_ms=now_ms,
        )
        if self._stopping.is_set() and not self._registration.answered:
            return  # there is no listener, and nothing must wait for one
        status = DriverStatus(reports, savepoints, self._hosts.shape())
        if self._registration.is_due(status, now_ms):
            self._registration.send(client, status, self._registration_message, now_ms)

    def _follow_starts(self, now_ms: int) -> None:
        """Record which topologies are running now."""
        for (key, epoch), run in list(self._runs.runs.items()):
            if run.state not in ("starting", "stopping"):
                continue
            job = self._jobs.get((key, epoch))
            if job is not None and job.is_running():
                self._do(self._runs.job_running(key, epoch, now_ms))
                self._checkpoints.job_runs(RunId(key, epoch, run.restarts))

    def _needs(self) -> SlotUse:
        """Return the slots that the topologies need, cached while nothing has changed."""
        return self._use if self._use is not None else self._runs.slot_use()

    def _slots_free(self) -> int:
        return max(0, self._runs.slots_free_of(self._needs()))

    def _wait_ms(self) -> int:
        """Return how long to wait for messages."""
        now_ms = self._clock.monotonic_ms()
        rest_ms = self._registration.changes_due_ms - now_ms
        longest_ms = rest_ms if 0 < rest_ms < TURN_MS else TURN_MS
        if self._moved or self._registration.changes_wait or self._hosts.moves():
            return longest_ms
        return min(QUIET_TURN_MS, max(TURN_MS, self._registration.due_ms - now_ms))

    def _reports(self) -> tuple[TopologyReport, ...]:
        """Return the report of each topology, cached while nothing has changed."""
        version = self._checkpoints.view_version  # before the reports: they may be newer than it says, not older
        moves = self._needs().moves
        # One turn longer than they move, because the last report said that they do.
        moved, self._moved = self._moved, moves
        if self._stirred or moves or moved or version != self._view_version:
            self._view_version = version
            reports = self._topology_reports.of(self._runs, self._checkpoints)
            self._last_reports = self._failures.added_to(reports)
        return self._last_reports

    def _tend_hosts(self) -> None:
        """Adjust the number of stage hosts, and move plans out that have ended theirs too often."""
        runs, use = self._runs, self._needs()
        free = runs.slots_total - use.held - sum(self._hosts.tenants().values())
        self._hosts.turn(self._stage_settings, runs.slots_total, free, wanted=use.wanted)
        runs.hosts, runs.hosts_open = self._hosts.tenants(), self._hosts.with_room()
        for key in self._hosts.stand_alone():
            moved = runs.leave_hosts(key, MOVED)
            if moved:
                logger.warning("a plan leaves its stage host: topology=%s reason=%s", key.topology(), MOVED)
            self._do(moved)

    def _stage_settings(self) -> StageSettings:
        return msgspec.structs.replace(self._config.stage_settings(), managers=self._registration.managers)

    def _ended(self, ending: JobEnded, now_ms: int) -> None:
        """Record that the topology's job has ended or was not started."""
        run, reason = self._runs.runs.get((ending.key, ending.epoch)), ending.ending.reason
        if run is not None:
            self._checkpoints.end_run(RunId(ending.key, ending.epoch, run.restarts), run.recalled or reason)
            if run.state in ("starting", "running"):  # not requested
                failure = Ending(run.recalled, "recalled") if run.recalled else ending.ending
                self._failures.note(ending.key, failure, self._clock.now_ms())
                self._watch.look_again()
        code, unfit = ending.ending.code, ending.ending.unfit
        cleared, doubtful = code in NO_EVENT_ENDS, code in DOUBTFUL_ENDS
        self._do(self._runs.job_ended(ending.key, ending.epoch, reason, unfit, now_ms, cleared, doubtful))
        if (ending.key, ending.epoch) not in self._runs.runs:
            self._checkpoints.forget_views(ending.key, ending.epoch)
            self._forget(ending.key)

    def _follow_checkpoints(self, now_ms: int) -> None:
        for event in self._checkpoints.events():
            self._stirred = True
            key, epoch, attempt = event.run.key, event.run.epoch, event.run.attempt
            match event:
                case RunOpened():
                    self._start(event, now_ms)
                case RunRefused(reason=reason, unfit=unfit, other_version=other):
                    paced_logger.problem(
                        key.topology(), "topology not started: topology=%s reason=%s", key.topology(), reason
                    )
                    self._opening.pop(event.run, None)
                    code = "state-unreadable" if other else "no-checkpoint"
                    self._ended(JobEnded(key, epoch, Ending(reason, code, unfit=unfit)), now_ms)
                case RestartTopology(reason=reason):
                    self._do(self._runs.recall(key, epoch, attempt, reason))
                case Drained(error=error):
                    logger.info("drained: topology=%s error=%s", key.topology(), error or "none")
                    self._do(self._runs.drained(key, epoch, attempt))

    def _obey(self, message: Message) -> None:
        if isinstance(message, ORDERS) and self._fence.foreign:
            paced_logger.problem("order", "order of another system's manager refused: type=%s", message.TYPE)
            return
        if isinstance(message, ORDERS) and not self._fence.admits(message.token):
            over = f"token={message.token} current={self._fence.token}"
            paced_logger.problem("former leader", "order of a former leader refused: type=%s %s", message.TYPE, over)
            return
        match message:
            case SubmitTopology(key=key, epoch=epoch):
                logger.info("submitted: topology=%s epoch=%d", key.topology(), epoch)
                refusal = self._config.spark.refuse_labels(message.labels)
                if refusal:
                    self._failures.note(key, Ending(refusal, "refused"), self._clock.now_ms())
                self._do(self._runs.submit(message, refusal))
            case KillTopology(key=key, epoch=epoch):
                logger.info("to be killed: topology=%s epoch=%s", key.topology(), epoch or "any")
                if message.forget:
                    self._forgotten[key] = message.forget, message.deployed_ms
                    self._hosts.forget(key)
                    self._failures.forget(key)  # at once: the next plan of the name may run before this one ends
                self._do(self._runs.kill(key, epoch, message.drain))
                self._forget(key)
            case RenamePlan(key=key):
                logger.info("renamed: topology=%s", key.topology())
                self._runs.rename(key)
            case TakeSavepoint(key=key, epoch=epoch, name=name):
                self._checkpoints.take_savepoint(key, epoch, name)
            case DeleteSavepoint(key=key, name=name):
                self._checkpoints.delete_savepoint(key, name)
            case ClearCheckpoints(key=key):
                self._checkpoints.clear(key)
            case _:
                logger.warning("unexpected order: type=%s", message.TYPE)

    def _do(self, instructions: list[Instruction]) -> None:
        if instructions:
            self._stirred, self._use = True, None
        for instruction in instructions:
            submission = instruction.submission
            job_id = (submission.key, submission.epoch)
            run = RunId(*job_id, instruction.attempt, submission.deployed_ms)
            if instruction.action is TopologyAction.START_JOB:
                self._open(run, submission)
            elif instruction.action is TopologyAction.DRAIN_JOB:
                self._checkpoints.drain(run)
            elif instruction.action is TopologyAction.CANCEL_JOB and job_id in self._jobs:
                self._jobs[job_id].cancel()

    def _open(self, run: RunId, submission: SubmitTopology) -> None:
        """Request the topology's starting point from the store; its job starts when that is known."""
        self._opening[run] = submission
        older = any(
            key == run.key and epoch < run.epoch and former.state != "stopping"
            for (key, epoch), former in self._runs.runs.items()
        )
        beside = submission.beside and older
        plan, restore = submission.query_plan, submission.restore
        self._checkpoints.open_run(run, plan, submission.workers, restore, beside, submission.restore_epoch)

    def _start(self, opened: RunOpened, now_ms: int) -> None:
        """Start the job, unless the topology was killed meanwhile."""
        run = opened.run
        submission = self._opening.pop(run, None)
        known = self._runs.runs.get((run.key, run.epoch))
        if submission is None or known is None or known.state != "starting" or known.recalled:
            self._ended(JobEnded(run.key, run.epoch, CANCELLED), now_ms)
            return
        job = self._jobs[run.key, run.epoch] = self._job(submission, run.attempt, opened)
        job.start()
        if known.shared:
            self._runs.job_queued(run.key, run.epoch)
        else:
            self._runs.job_given(run.key, run.epoch, now_ms)

    def _forget(self, key: PlanKey) -> None:
        """Delete the checkpoints of an undeployed plan when its last topology has ended.

        The next plan of its name starts after they are deleted.
        """
        if key not in self._forgotten:
            return
        last, deployed_ms = self._forgotten[key]
        if not any(known == key and epoch <= last for known, epoch in self._runs.runs):
            del self._forgotten[key]
            self._checkpoints.forget(key, last, deployed_ms)

    def _job(self, submission: SubmitTopology, attempt: int, opened: RunOpened) -> SparkJob:
        key, epoch = submission.key, submission.epoch
        assignment = TaskAssignment(
            key=key,
            epoch=epoch,
            query_plan=submission.query_plan,
            tasks=submission.workers,
            settings=self._stage_settings(),
            cores=submission.cores,
            memory_bytes=submission.memory_bytes,
            stands_by=submission.beside,
            attempt=attempt,
            coordinator=self._checkpoints.endpoint,
            checkpoint_location=self._config.checkpoint.place(),
            restore=opened.reference,
            goes_back=opened.goes_back,
            cleared=self._runs.runs[key, epoch].cleared,
            doubtful=self._runs.runs[key, epoch].doubtful,
            log=self._config.log,
            priority=self._config.priority,
        )

        def ended(ending: Ending) -> None:
            self._endings.put(JobEnded(key, epoch, ending))
            self._wakeup.ring()

        if self._runs.runs[key, epoch].shared:
            return HostedJob(self._hosts, assignment, ended)
        return TopologyJob(self._spark, key, assignment, self._watch.hosts, ended)

    def _serve_metrics(self) -> MetricsServer | None:
        config = self._config
        if not config.metrics.port:
            return None
        return MetricsServer(config.metrics, config.security, lambda: self._reading, self._clock)

    def _see_executors(self) -> None:
        seen_ms = self._watch.seen_ms  # before the executors: they may be newer than it says, not older
        self._runs.executors, self._runs.seen_ms = self._slots(), None if self._config.spark.slots else seen_ms
        self._warming.see(self._watch.executors, self._clock.monotonic_ms())

    def _slots(self) -> tuple[int, ...]:
        """Return the slots of each executor; those of the configuration count as one executor."""
        return (self._config.spark.slots,) if self._config.spark.slots else self._watch.slots()

    def _await_executors(self) -> None:
        """Wait for the first executors, with a time-out."""
        since_ms = self._clock.monotonic_ms()
        while not self._watch.slots() and self._watch.lost is None and not self._stopping.wait(TURN_MS / 1000):
            if self._clock.monotonic_ms() - since_ms >= EXECUTORS_WITHIN_MS:
                logger.warning("no executor has joined yet: master=%s", self._config.spark.master)
                return
        self._warming.see(self._watch.executors, self._clock.monotonic_ms())

    def _registration_message(self, part: RegistrationReport) -> RegisterDriver:
        """Return the registration with this part of the topologies and savepoints."""
        return RegisterDriver(
            driver=self._config.name,
            host=self._config.host,
            process_id=os.getpid(),
            master=self._config.spark.master,
            slots_total=self._runs.slots_total,
            slots_free=self._slots_free(),
            topologies=part.topologies,
            web_url=self._web_url,
            started_ms=self._started_ms,
            savepoints=part.savepoints,
            executors=tuple(
                ExecutorReport(one.executor, one.host, one.slots, one.since_ms)
                for one in self._watch.executors
                if one.usable
            ),
            insight=self._inspection.address if self._inspection is not None else None,
            checkpointing=checkpoint_settings(self._config, self._checkpoints),
            up_ms=process_up_ms(),
            store_urls=self._config.stages.store_urls,
            stage_hosts=self._hosts.reports(),
            number=part.number,
            whole=part.whole,
            base=part.base,
            gone=part.gone,
            differ=part.differ,
        )


def run(config: DriverConfig, insight: Inspection | None = None) -> None:
    """Run the driver until SIGTERM or SIGINT. Managers may read `insight`."""
    # py4j logs each connection, and errors that are raised anyway
    logging.getLogger("py4j").setLevel(logging.ERROR)
    raise_process_priority(config.priority)
    driver = Driver(config, SystemClock(), insight)
    leaving = threading.Event()

    def leave(_signal: int, _frame: FrameType | None) -> None:
        leaving.set()
        driver.stop()

    signal.signal(signal.SIGTERM, leave)
    signal.signal(signal.SIGINT, leave)
    watch = RoleWatch(config.node.folder) if config.node.folder else None
    if watch is not None:
        logger.info("driver of a passive node: the Spark session is up, topologies run when the node is active")
        watch.await_active(leaving, driver.stand_by)
        driver.drained = partial(_has_drained, Path(config.node.folder), watch)
    driver.run()
    if watch is not None:
        watch.close()


def _has_drained(folder: Path, watch: RoleWatch) -> None:
    watch.close()  # the node may become passive from now on
    try:
        (folder / DRAINED_FILE).write_text(str(os.getpid()), encoding="ascii")
    except OSError as error:
        logger.warning("the node waits until Spark has ended: folder=%s reason=%s", folder, error)
