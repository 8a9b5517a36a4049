"""Runs the driver's checkpoint coordinator: a thread that communicates with tasks, and one that uses the store.

The driver's own thread gives orders and polls events. It never waits for either.
"""

from __future__ import annotations

import logging
import queue
import threading
from collections.abc import Callable

import msgspec
import zmq

from cep_common.clock import Clock
from cep_common.errors import DecodeError
from cep_common.ids import Endpoint, PlanKey
from cep_common.monitoring.paced_log import PacedLog
from cep_common.process.priority import ControlPriority, raise_priority
from cep_common.protocol.checkpoints import JoinTopology, ReportPart
from cep_common.protocol.codec import MAXIMUM_DATA_BYTES, Envelope, decode, encode
from cep_common.protocol.drivers import SavepointReport
from cep_common.protocol.registry import CheckpointSpan, Message, Rejected
from cep_common.security.roles import SocketKind
from cep_common.sockets.probe import Probes
from cep_common.sockets.transport import bind_in_range, listening_socket, receive
from cep_common.sockets.wakeup import Wakeup
from query_plan.xml import read_checkpoint_interval
from topology.checkpoint.coordination.archive import Archive, RunStart
from topology.checkpoint.coordination.coordinator import Coordinator, Timing
from topology.checkpoint.coordination.instructions import (
    Drained,
    Instruction,
    OpenRun,
    ProbeTask,
    Push,
    ReserveNumbers,
    RestartTopology,
    SavepointEnded,
    WriteManifest,
)
from topology.checkpoint.coordination.runs import RunId
from topology.checkpoint.coordination.savepoints import Savepoints
from topology.checkpoint.coordination.storing import Storing
from topology.checkpoint.coordination.views import CheckpointsView, TopologyViews
from topology.checkpoint.errors import OTHER_VERSION, CheckpointError, CheckpointUnreadableError
from topology.checkpoint.storage.state_formats import format_problem, noted_formats

logger = logging.getLogger(__name__)
paced_logger = PacedLog(logger)

POLL_MS = 20
"""Resolution of times while something is due soon: the minimum interval between checks."""
LONGEST_WAIT_MS = 500
"""Maximum wait of the thread while nothing is due; messages and orders wake it."""

ZMTP_HEARTBEAT_MS = 60_000
"""Tasks send heartbeats themselves, and testing a thousand connections every other second would cost too much."""

MESSAGES_AT_ONCE = 256


class RunOpened(msgspec.Struct, frozen=True):
    """The run may start.

    It starts from the manifest with `reference` (checkpoint `number`), or without state when that is empty.
    `goes_back`: see `RunStart`.
    """

    run: RunId
    reference: str = ""
    number: int = 0
    goes_back: bool = False


class RunRefused(msgspec.Struct, frozen=True):
    """The run cannot start, since its starting point is unknown.

    `unfit`: retrying is useless. With `other_version` this version cannot read the state to begin from.
    """

    run: RunId
    reason: str
    unfit: bool
    other_version: bool = False


Event = RunOpened | RunRefused | RestartTopology | Drained


class CheckpointService(threading.Thread):
    """Coordinates the checkpoints of all runs from `start` to `close`.

    `archive` is None when nothing is stored; tasks are monitored all the same. The driver's thread calls all methods.
    """

    def __init__(
        self,
        context: zmq.Context[zmq.Socket[bytes]],
        host: str,
        ports: tuple[int, int],
        timing: Timing,
        archive: Archive | None,
        clock: Clock,
        priority: ControlPriority = "normal",
    ) -> None:
        """Tasks can reach `endpoint`. Raises PortInUseError."""
        super().__init__(name="checkpoints", daemon=True)
        self._clock = clock
        self._priority = priority
        self._probes: Probes[tuple[RunId, int]] = Probes()
        self._coordinator = Coordinator(timing, takes=archive is not None)
        self._plans: dict[RunId, str] = {}
        self._views = TopologyViews()
        self._savepoint_reports: tuple[SavepointReport, ...] = ()
        self._news = True
        self._looked_ms: int | None = None
        """The time of the last check for due work."""
        self._planned_ms: int | None = None
        """The latest time at which this turn should have begun."""
        self._orders: queue.SimpleQueue[Callable[[], None]] = queue.SimpleQueue()
        self._events: queue.SimpleQueue[Event] = queue.SimpleQueue()
        self._wakeup = Wakeup()
        self.happened: Callable[[], None] = lambda: None
        """Called, in the service's thread, when there are `events`, or other `savepoints`."""
        self._storing = Storing(archive, clock, self._order, self._look_at_savepoints)
        self._savepoints = Savepoints(self._storing)
        self._closing = threading.Event()
        self._socket = listening_socket(
            context, SocketKind.COORDINATOR, host, MAXIMUM_DATA_BYTES, heartbeat_ms=ZMTP_HEARTBEAT_MS
        )
        try:
            self.endpoint = Endpoint(host, bind_in_range(self._socket, host, ports))
        except BaseException:
            self._socket.close()
            raise

    # ---- the driver's thread ----------------------------------------------------------------------------------------

    def open_run(
        self, run: RunId, query_plan: str, tasks: int, restore: str, beside: bool, restore_epoch: int = 0
    ) -> None:
        """Open an attempt that is about to start; `RunOpened` or `RunRefused` follows.

        It begins where `restore`, requested under `restore_epoch`, says (see `Archive.open_run`). An attempt that
        works `beside` an older epoch gets its state from that, and takes checkpoints when it has ended.
        """
        self._order(lambda: self._open_run(run, query_plan, tasks, restore, beside, restore_epoch))

    def job_runs(self, run: RunId) -> None:
        """Record that all tasks of the run's job have started."""
        self._order(lambda: self._coordinator.job_runs(run, self._clock.monotonic_ms()))

    def end_run(self, run: RunId, reason: str) -> None:
        """End the run, whose job is over."""
        self._order(lambda: self._end_run(run, reason))

    def drain(self, run: RunId) -> None:
        """Take a last checkpoint, if possible; `Drained` follows in any case."""
        self._order(lambda: self._do(self._coordinator.drain(run, self._clock.monotonic_ms())))

    def take_savepoint(self, key: PlanKey, epoch: int, name: str) -> None:
        """Keep a checkpoint under `name`; `savepoints` reports the progress."""
        self._order(lambda: self._take_savepoint(key, epoch, name))

    def delete_savepoint(self, key: PlanKey, name: str) -> None:
        """Delete the savepoint."""
        self._order(lambda: self._savepoints.delete(key, name))

    def clear(self, key: PlanKey) -> None:
        """Delete the plan's checkpoints so far."""
        self._order(lambda: self._tend("not cleared", key, lambda archive: archive.clear(key)))

    def forget(self, key: PlanKey, epoch: int, deployed_ms: int = 0) -> None:
        """Delete the checkpoints of a plan that was undeployed, and whose last epoch was `epoch`.

        `deployed_ms`: see `Archive.forget`.
        """
        self._order(lambda: self._tend("not removed", key, lambda archive: archive.forget(key, epoch, deployed_ms)))

    def forget_views(self, key: PlanKey, epoch: int) -> None:
        """Stop reporting that topology."""
        self._order(lambda: self._forget_views(key, epoch))

    def events(self) -> list[Event]:
        """Return the events since the last call."""
        found = []
        while not self._events.empty():
            found.append(self._events.get())
        return found

    def view(self, key: PlanKey, epoch: int) -> CheckpointsView:
        """Return the view of a topology's checkpoints, also between two of its attempts."""
        return self._views.view(key, epoch)

    @property
    def view_version(self) -> int:
        """A number that grows with each change of a view."""
        return self._views.version

    def savepoints(self) -> tuple[SavepointReport, ...]:
        """Return the reports about savepoints."""
        return self._savepoint_reports

    def store_problem(self) -> str:
        """Return why nothing can be stored or read now; empty: no problem is known."""
        return self._storing.problem

    def close(self) -> None:
        """Finish pending writes and end the threads."""
        self._closing.set()
        self._wakeup.ring()
        if self.is_alive():
            self.join()
        self._storing.close()
        self._socket.close()
        self._wakeup.close()

    def _order(self, order: Callable[[], None]) -> None:
        """Run `order` on the service's thread soon. Any thread may call this."""
        self._orders.put(order)
        self._wakeup.ring()

    # ---- this thread ------------------------------------------------------------------------------------------------

    def run(self) -> None:
        raise_priority(self._priority)  # this thread checks heartbeats
        self._storing.check()
        self._look_at_savepoints()
        poller = zmq.Poller()
        for source in (self._socket, self._wakeup.handle):
            poller.register(source, zmq.POLLIN)
        while not self._closing.is_set():
            try:
                poller.poll(self._wait_ms())
                self._wakeup.silence()
                self._turn()
            except Exception:
                # outermost frame of the thread: an error must not end the monitoring of other topologies
                paced_logger.exception("an iteration of the coordinator's loop failed")
        self._probes.close()

    def _wait_ms(self) -> int:
        """Return how long to wait for messages and orders."""
        due_ms = 0 if self._probes.pending else self._coordinator.due_ms - self._clock.monotonic_ms()
        wait_ms = min(max(POLL_MS, due_ms), LONGEST_WAIT_MS)
        # from the last check, not from now: no messages were received in the time after it
        self._planned_ms = self._looked_ms + wait_ms if self._looked_ms is not None else None
        return wait_ms

    def _happen(self, event: Event) -> None:
        self._events.put(event)
        self.happened()

    def _turn(self) -> None:
        for _ in range(MESSAGES_AT_ONCE):
            if not self._socket.poll(0):
                break
            self._handle(receive(self._socket))
        while not self._orders.empty():
            self._news = True
            self._orders.get()()
        now_ms = self._clock.monotonic_ms()
        self._looked_ms = now_ms
        self._do(self._coordinator.on_time(now_ms, self._planned_ms))
        for run, task in self._probes.refused(now_ms):
            self._do(self._coordinator.task_ended(run, task))
        self._storing.on_time(now_ms)
        if self._news or self._coordinator.changed:
            self._news = False
            self._tell()

    def _handle(self, frames: list[bytes]) -> None:
        peer, *request = frames
        try:
            envelope: Envelope = decode(request)
        except DecodeError as error:
            self._send(peer, Rejected(error.code, str(error)))
            return
        match envelope.message:
            case JoinTopology() as message:
                answer = self._coordinator.join(peer, message, self._clock.monotonic_ms())
                self._send(peer, answer, envelope.correlation)
            case ReportPart() as message:
                self._do(self._coordinator.report(message, self._clock.monotonic_ms()))
            case message:
                refusal = Rejected("unexpected-message", f"a driver accepts no {message.TYPE} from tasks")
                self._send(peer, refusal, envelope.correlation)

    def _send(self, peer: bytes, message: Message, correlation: bytes = b"") -> None:
        self._socket.send_multipart([peer, *encode(message, correlation)])

    def _do(self, instructions: list[Instruction]) -> None:
        self._news = self._news or any(not isinstance(one, ProbeTask) for one in instructions)
        for one in instructions:
            match one:
                case Push(peer=peer, message=message):
                    self._send(peer, message)
                case WriteManifest():
                    self._write(one)
                case OpenRun(run=run):
                    self._take_over(run)
                case ReserveNumbers(run=run):
                    self._reserve(run)
                case SavepointEnded(key=key, name=name, error=error):
                    self._savepoints.ended(key, name, error)
                case ProbeTask(run=run, task=task, endpoint=endpoint):
                    self._probes.begin((run, task), endpoint, self._clock.monotonic_ms())
                case RestartTopology(run=run, reason=reason):
                    logger.warning("topology is lost: topology=%s reason=%s", run.key.topology(), reason)
                    self._happen(one)
                case Drained():
                    self._happen(one)

    # ---- runs -------------------------------------------------------------------------------------------------------

    def _open_run(
        self, run: RunId, query_plan: str, tasks: int, restore: str, beside: bool, restore_epoch: int
    ) -> None:
        self._plans[run] = query_plan

        def opened(answer: RunStart | CheckpointError) -> None:
            if isinstance(answer, CheckpointError):
                self._plans.pop(run, None)
                unfit = isinstance(answer, CheckpointUnreadableError)
                other = isinstance(answer, CheckpointUnreadableError) and answer.reason_code == OTHER_VERSION
                if other:
                    self._views.note_unreadable(run.key, run.epoch, answer.message)
                self._happen(RunRefused(run, answer.message, unfit, other))
                return
            self._begin(run, tasks, answer)

        if beside or not self._storing.works:
            self._begin(run, tasks, None)
        else:
            self._storing.do(
                run.key, lambda archive: archive.open_run(run, restore, restore_epoch), opened, urgent=True
            )

    def _begin(self, run: RunId, tasks: int, opened: RunStart | None) -> None:
        query_plan = self._plans.get(run, "")
        interval_ms = read_checkpoint_interval(query_plan)
        opening = opened.opening if opened is not None else None
        self._do(self._coordinator.begin_run(run, tasks, opening, interval_ms, query_plan))
        reference, number = (opened.reference, opened.number) if opened is not None else ("", 0)
        self._views.begin(run.key, run.epoch, number)
        if opened is not None and opened.kept:
            logger.warning(
                "the newest checkpoint belongs to another plan of this name: topology=%s kept_as_savepoint=%s",
                run.key.topology(),
                opened.kept,
            )
            self._savepoints.look()
        begins = f"topology={run.key.topology()} epoch={run.epoch} attempt={run.attempt}"
        logger.info("topology begins: %s checkpoint=%s", begins, number or "none")
        self._happen(RunOpened(run, reference, number, opened is not None and opened.goes_back))

    def _take_over(self, run: RunId) -> None:
        """Give the plan to a run that has begun beside an older one."""

        def opened(answer: RunStart | CheckpointError) -> None:
            if isinstance(answer, CheckpointError):
                text = "no checkpoints can be taken: topology=%s reason=%s"
                paced_logger.problem(f"opening {run.key}", text, run.key.topology(), answer, level=logging.ERROR)
            else:
                self._coordinator.open_run(run, answer.opening)

        self._storing.do(run.key, lambda archive: archive.open_run(run, "", has_state=True), opened, urgent=True)

    def _end_run(self, run: RunId, reason: str) -> None:
        self._do(self._coordinator.end_run(run, reason))
        self._plans.pop(run, None)
        self._storing.do(run.key, lambda archive: archive.end_run(run), lambda _: None)

    def _reserve(self, run: RunId) -> None:
        def reserved(answer: int | CheckpointError) -> None:
            if isinstance(answer, CheckpointError):
                text = "no checkpoint numbers reserved: topology=%s reason=%s"
                paced_logger.problem(f"numbers {run.key}", text, run.key.topology(), answer)
            else:
                self._coordinator.numbers_reserved(run, answer)

        self._storing.do(run.key, lambda archive: archive.reserve(run), reserved)

    def _write(self, order: WriteManifest) -> None:
        run = order.run
        plan, spans = self._plans.get(run, ""), self._spans_of(run)
        taken_ms = self._clock.now_ms()

        def written(answer: object) -> None:
            error = answer.message if isinstance(answer, CheckpointError) else ""
            oldest = answer if isinstance(answer, int) else 0
            if not error:
                self._note_formats(order)
            if error:
                what = f"topology={run.key.topology()} checkpoint={order.checkpoint}"
                logger.warning("checkpoint failed: %s reason=%s", what, error)
            self._do(self._coordinator.written(run, order.checkpoint, error, self._clock.monotonic_ms(), oldest))

        def write(archive: Archive) -> int:
            archive.write(order, plan, spans, taken_ms)
            return archive.oldest(run.key)

        self._storing.do(run.key, write, written)

    def _note_formats(self, order: WriteManifest) -> None:
        """Record formats of tasks on hosts with another version, which this version may be unable to read."""
        run = order.run
        problem = format_problem(noted_formats(state for part in order.parts for state in part.states))
        unreadable = f"checkpoint {order.checkpoint} cannot be used: {problem}" if problem else ""
        self._views.note_unreadable(run.key, run.epoch, unreadable)

    def _spans_of(self, run: RunId) -> tuple[CheckpointSpan, ...]:
        found = self._coordinator.runs.get((run.key, run.epoch))
        return found.opening.spans if found is not None and found.opening is not None else ()

    # ---- savepoints, and what is removed ----------------------------------------------------------------------------

    def _look_at_savepoints(self) -> None:
        self._savepoints.look()

    def _take_savepoint(self, key: PlanKey, epoch: int, name: str) -> None:
        self._savepoints.begun(key, name)
        self._do(self._coordinator.take_savepoint(key, epoch, name))

    def _tend(self, failed: str, key: PlanKey, work: Callable[[Archive], object]) -> None:
        def done(answer: object) -> None:
            if isinstance(answer, CheckpointError):
                logger.warning("checkpoints %s: topology=%s reason=%s", failed, key.topology(), answer)

        self._storing.do(key, work, done)

    # ---- between the threads ----------------------------------------------------------------------------------------

    def _tell(self) -> None:
        """Update what other threads read."""
        ahead_ms = self._clock.now_ms() - self._clock.monotonic_ms()
        changed = list(self._coordinator.changed)
        self._coordinator.changed.clear()
        for key, epoch in changed:
            run = self._coordinator.runs.get((key, epoch))
            if run is None:
                continue
            self._views.update(key, epoch, run, ahead_ms)
        savepoints = self._savepoints.reports()
        if savepoints != self._savepoint_reports:
            self._savepoint_reports = savepoints
            self.happened()

    def _forget_views(self, key: PlanKey, epoch: int) -> None:
        self._coordinator.forget(key, epoch)
        self._views.forget(key, epoch)
