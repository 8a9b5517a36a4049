"""A task's communication with its driver about checkpoints, and the storing of its states.

Its thread (one of the task's own, or one for all tasks of a stage host) sends heartbeats while the task's loop is busy
and while states are being written by a separate thread.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor, wait

import zmq

from cep_common.clock import Clock
from cep_common.errors import DecodeError
from cep_common.ids import Endpoint
from cep_common.monitoring.paced_log import PacedLog
from cep_common.process.priority import ControlPriority, raise_priority
from cep_common.protocol.checkpoints import (
    AbandonCheckpoint,
    BeginCheckpoint,
    CompleteCheckpoint,
    JoinTopology,
    ReportPart,
    TopologyJoined,
)
from cep_common.protocol.codec import MAXIMUM_CONTROL_BYTES, decode, encode
from cep_common.protocol.registry import Message, Rejected
from cep_common.security.roles import SocketKind
from cep_common.sockets.transport import HEARTBEAT_MS, connecting_socket, receive_now
from topology.checkpoint.errors import CheckpointError
from topology.checkpoint.storage.writer import PartWriter
from topology.errors import TopologyError
from topology.stages.state.partial_checkpoint import TakenPart
from topology.stages.state.stored_states import flat
from topology.stages.tasks.aligned_times import aligned
from topology.stages.tasks.task import Task

logger = logging.getLogger(__name__)
paced_logger = PacedLog(logger)

JOIN_EACH_MS = 50
"""How often a task joins until it knows the endpoints of all others."""
LOOK_MS = 20
"""How often the thread checks whether a part is ready, or written."""
HOSTED_ZMTP_HEARTBEAT_MS = 60_000
"""How often a hosted task tests its connection to the driver: its host has a separate one, which it tests often."""
CLOSING_S = 30.0
"""How long a task that ends may continue heartbeats while it writes its states."""


def _no_listener(_lease_ms: int) -> None:
    """Ignore the heartbeat, where no monitor watches the task."""


def _nothing() -> None:
    """Do nothing; submitted to detect that all earlier calls are done."""


class CheckpointReporter:
    """Communicates with the coordinator whenever `speak` is called.

    A refusal of the driver stops the task: another run has taken its place. `writer` is None where no checkpoints are
    taken; then the driver only learns that the task is alive. `beat` is called with each heartbeat once the driver
    has said for how many milliseconds the task may be silent, with that number.
    """

    def __init__(
        self,
        task: Task,
        coordinator: Endpoint,
        context: zmq.Context[zmq.Socket[bytes]],
        clock: Clock,
        writer: PartWriter | None,
        beat: Callable[[int], None] = _no_listener,
        writing: ThreadPoolExecutor | None = None,
    ) -> None:
        """Create the reporter; a stage host passes `writing`, the thread in which all its tasks store states."""
        self._hosted = writing is not None
        self._task = task
        self._clock = clock
        self._writer = writer
        self._beat = beat
        self._heartbeat_ms, self._lease_ms = JOIN_EACH_MS, 0
        self._next_beat_ms = 0
        # One thread only: parts must be stored, completed and abandoned in the order in which this was ordered.
        self._writing = writing or ThreadPoolExecutor(max_workers=1, thread_name_prefix="checkpoint writer")
        self._reports: list[Future[ReportPart]] = []
        self._begun = 0
        self._known = 0, False
        self._reported: ReportPart | None = None
        heartbeat_ms = HOSTED_ZMTP_HEARTBEAT_MS if self._hosted else HEARTBEAT_MS
        self._socket = connecting_socket(
            context, SocketKind.COORDINATOR, MAXIMUM_CONTROL_BYTES, heartbeat_ms=heartbeat_ms
        )
        self._socket.connect(coordinator.url())

    @property
    def socket(self) -> zmq.Socket[bytes]:
        """Return the socket for orders of the driver, which belongs to the thread that calls `speak`."""
        return self._socket

    def next_ms(self, now_ms: int) -> int:
        """Return when to `speak` again if there are no messages and no changes until then."""
        stores = bool(self._reports) or not self._task.checkpointing.taken.empty()
        return min(self._next_beat_ms, now_ms + LOOK_MS) if stores else self._next_beat_ms

    def has_news(self) -> bool:
        """Return whether a report to the driver is due at once. Any thread may call this."""
        checkpointing = self._task.checkpointing
        changed = bool(self._lease_ms) and (checkpointing.settled, checkpointing.idle) != self._known
        return changed or not checkpointing.taken.empty()

    def speak(self, *, readable: bool) -> None:
        """Send a due heartbeat, follow orders of the driver if the socket is `readable`, and report stored parts."""
        now_ms = self._clock.monotonic_ms()
        checkpointing = self._task.checkpointing
        news = self._lease_ms and (checkpointing.settled, checkpointing.idle) != self._known
        if news or now_ms >= self._next_beat_ms:
            # From now rather than from the last beat: after a long pause one beat is enough.
            self._next_beat_ms = aligned(now_ms + self._heartbeat_ms, now_ms)
            self._join()
            if self._lease_ms:
                self._beat(self._lease_ms)
        if readable:
            self._receive()
        self._store_what_is_ready()

    def finish_writing(self) -> Future[None]:
        """Return a future that is done when all present parts have been written."""
        return self._writing.submit(_nothing)

    def _join(self) -> None:
        task, topology = self._task, self._task.topology
        origin = topology.key, topology.epoch, topology.attempt, task.index
        self._known = settled, idle = task.checkpointing.settled, task.checkpointing.idle
        self._send(JoinTopology(*origin, task.endpoint, settled, hosted=self._hosted, idle=idle))

    def _receive(self) -> None:
        while (frames := receive_now(self._socket)) is not None:
            try:
                self._obey(decode(frames).message)
            except DecodeError as error:
                paced_logger.problem("order", "unreadable order of the driver: %s", error)

    def _obey(self, message: Message) -> None:
        checkpointing = self._task.checkpointing
        match message:
            case TopologyJoined(exchanges=()):
                pass  # other tasks have not joined yet
            case TopologyJoined(heartbeat_ms=heartbeat_ms, lease_ms=lease_ms, exchanges=exchanges):
                if not self._lease_ms:
                    self._beat(lease_ms)  # the task is monitored before it starts
                self._heartbeat_ms, self._lease_ms = heartbeat_ms, lease_ms
                self._task.meet(exchanges)
                return  # the answer to a heartbeat: nothing for the task, which would have a turn for each otherwise
            case BeginCheckpoint(checkpoint=checkpoint, final=final):
                self._begin(checkpoint, final=final)
            case CompleteCheckpoint(checkpoint=checkpoint, oldest=oldest):
                checkpointing.complete(checkpoint, oldest)
                # after pending writes, whose results must exist before they are kept or dropped
                if self._writer is not None:
                    self._writing.submit(self._writer.complete, checkpoint)
            case AbandonCheckpoint(checkpoint=checkpoint):
                checkpointing.abandon(checkpoint)
                if self._writer is not None:
                    self._writing.submit(self._writer.abandon, checkpoint)
            case Rejected(code=code, reason=reason):
                self._task.stop(TopologyError(code, reason))
            case _:
                logger.warning("unexpected order of the driver: type=%s", message.TYPE)
        self._task.wake()

    def _begin(self, checkpoint: int, *, final: bool) -> None:
        """Begin a checkpoint, or report again what is done.

        The driver repeats its order until it hears the report; nothing is done twice.
        """
        # Orders may be repeated, since messages between driver and tasks can get lost.
        if checkpoint > self._begun:
            self._begun = checkpoint
            self._task.checkpointing.begin(checkpoint, final=final)
        elif self._reported is not None and self._reported.checkpoint == checkpoint:
            self._send(self._reported)

    def _store_what_is_ready(self) -> None:
        taken = self._task.checkpointing.taken
        while not taken.empty():
            self._reports.append(self._writing.submit(self._stored, taken.get()))
        # Only finished ones, so that heartbeats continue while a slow store is written to.
        for report in [report for report in self._reports if report.done()]:
            self._reports.remove(report)
            self._reported = report.result()
            self._send(self._reported)

    def _stored(self, part: TakenPart) -> ReportPart:
        """Store the part and return its report, which says why if that failed."""
        topology = self._task.topology
        origin = (topology.key, topology.epoch, topology.attempt, self._task.index, part.checkpoint)
        error = part.error or ("" if self._writer is not None else "this topology takes no checkpoints")
        if error or self._writer is None:
            return ReportPart(*origin, error=error)
        try:
            stored = self._writer.write(part.checkpoint, flat(part.states))
        except CheckpointError as failure:
            text = "part of a checkpoint not stored: checkpoint=%d reason=%s"
            paced_logger.problem("store", text, part.checkpoint, failure)
            return ReportPart(*origin, error=str(failure))
        except Exception as defect:  # outermost frame of the writing thread: the driver reports the error
            logger.exception("part of a checkpoint not stored: checkpoint=%d", part.checkpoint)
            return ReportPart(*origin, error=f"{type(defect).__name__}: {defect}")
        return ReportPart(
            *origin, stored.states, stored.packs, part.alignment_ms, stored.stored_bytes, settles=part.settles
        )

    def _send(self, message: Message) -> None:
        try:
            self._socket.send_multipart(encode(message), flags=zmq.NOBLOCK)
        except zmq.Again:
            paced_logger.problem("driver", "the driver accepts no messages: type=%s", message.TYPE)


class CheckpointAgent(CheckpointReporter, threading.Thread):
    """A thread that communicates for one task until `close`. At the end `beat` is called with 0."""

    def __init__(
        self,
        task: Task,
        coordinator: Endpoint,
        context: zmq.Context[zmq.Socket[bytes]],
        clock: Clock,
        writer: PartWriter | None,
        beat: Callable[[int], None] = _no_listener,
        priority: ControlPriority = "normal",
    ) -> None:
        threading.Thread.__init__(self, name=f"checkpoints of task {task.index}", daemon=True)
        CheckpointReporter.__init__(self, task, coordinator, context, clock, writer, beat)
        self._priority = priority
        self._closing = threading.Event()

    def close(self) -> None:
        """End the thread and wait for it; a part that is being written is finished first."""
        if self.is_alive():
            # Heartbeats continue while the last part is written, so that the driver does not declare the task lost
            # before it knows why it ends. They stop if the store never answers.
            wait([self.finish_writing()], timeout=CLOSING_S)
        self._closing.set()
        if self.ident is not None:
            self.join()
        self._writing.shutdown(wait=True)
        self._socket.close()

    def run(self) -> None:
        raise_priority(self._priority)  # this thread sends heartbeats
        try:
            while not self._closing.is_set():
                self.speak(readable=bool(self._socket.poll(LOOK_MS)))
        except Exception as defect:  # outermost frame: fail the task at once
            logger.exception("the thread for checkpoints has ended")
            self._task.stop(TopologyError("internal", f"checkpoints: {type(defect).__name__}: {defect}"))
        finally:
            self._beat(0)
