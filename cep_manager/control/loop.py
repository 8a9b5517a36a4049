"""The manager's control loop: one thread that owns the control socket and takes all decisions.

So heartbeats never wait for the web or the database. Readers get the current snapshot; commands from other threads are
queued and answered through futures. A separate thread accesses the database and reports through the same queue.
"""

from __future__ import annotations

import contextlib
import logging
import socket
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager

import msgspec
import zmq

from cep_common.clock import Clock
from cep_common.errors import DecodeError, PortInUseError, UnauthorisedError
from cep_common.ids import PlanKey
from cep_common.inspection.endpoint import Inspection, open_inspection
from cep_common.monitoring.paced_log import PacedLog
from cep_common.process.priority import raise_priority
from cep_common.protocol.drivers import DriverRegistered
from cep_common.protocol.registry import Message, Rejected, RemovedPlan, WorkerRegistered
from cep_common.protocol.tasks import TaskRegistered, TasksRefreshed
from cep_common.security.context import GuardedContext, open_context
from cep_common.security.roles import Role
from cep_common.sockets.transport import ControlServer
from cep_manager.config import ManagerConfig
from cep_manager.control.command_queue import Command, CommandQueue
from cep_manager.control.control_plane import ControlPlane
from cep_manager.control.instructions import (
    DriverOrder,
    Instruction,
    NoteBegun,
    PushToDriver,
    RaiseEpoch,
    RemoveDrained,
    SettleChange,
    StoreInstruction,
    leading,
)
from cep_manager.control.snapshot import ClusterSnapshot
from cep_manager.election.leadership import ElectionStatus, Leadership, Led, Resigned
from cep_manager.errors import ManagerUnavailableError, NotLeaderError, PlanStoreError
from cep_manager.log_line import LogLine
from cep_manager.nodes.agent import NodeAgent
from cep_manager.persistence.database import Database
from cep_manager.persistence.node_store import NodeStore
from cep_manager.plans.record import PlanToRun
from cep_manager.plans.store import PlanStore, WriteRight
from cep_manager.plans.stored_plan import SettingsPatch

logger = logging.getLogger(__name__)
paced_logger = PacedLog(logger)

MESSAGES_AT_ONCE = 1_000
"""The number of messages after which the loop checks its commands and the time, even if more are waiting."""

LONGEST_BEHIND_MS = 60_000
"""Upper bound on the extension of leases while heartbeats of silent peers may be among the unread messages."""

REST = 4
"""After changes the loop checks all plans, then pauses this many times as long as the check took. With many plans a
check costs milliseconds, while messages arrive one by one."""

SETTLE_S, SETTLE_STEP_S = 10.0, 0.1
"""How long startup waits until the leader is known, and how often it checks that the loop is running."""

NOTED_S = 10.0
"""Time limit for the writes to the plan store that must precede a command."""

STORED_AT_ONCE = 25
"""Maximum number of instructions to the plan store per transaction: the lease is confirmed between transactions."""

NEVER = -(10**9)
"""A monotonic time before all others."""

REVISION_BITS = 32
"""Bits of a revision that count a leader's changes of the plan list, before its revisions would reach those of the next
leader."""


class ManagerControlLoop:
    """The control loop. `start` and `stop` are called by one thread; everything else by any."""

    def __init__(
        self,
        config: ManagerConfig,
        database: Database,
        clock: Clock,
        read_plans: Callable[[PlanStore], tuple[PlanToRun, ...]],
        insight: Inspection | None = None,
    ) -> None:
        """Bind the control port; nothing is answered before `start`.

        When this manager becomes the leader, it runs the plans that `read_plans` returns. Other managers can read its
        log and configuration at `insight`. Raises PortInUseError that names the configuration's key.
        """
        self._config = config
        self._store = store = PlanStore(database)
        self._clock = clock
        self._context = open_context(config.security, Role.MANAGER, {"host": config.host})
        try:
            self._server = ControlServer(self._context, config.host, config.control.port)
        except PortInUseError as error:
            self._context.destroy(linger=0)
            raise PortInUseError(f"{error.message}; set control.port (and host) to a free one") from error
        self._system = store.system()
        self._removed: tuple[RemovedPlan, ...] = ()
        """The plans that had been undeployed when the store was read last."""
        self._token, self._plane = 0, self._new_plane(0)
        self._tell()
        self._commands = CommandQueue(self._wake)
        self._wake_reader, self._wake_writer = socket.socketpair()
        self._wake_reader.settimeout(0.0)
        self._wake_writer.settimeout(0.0)
        control = config.control_endpoint()
        self._inspection = open_inspection(self._context, Role.MANAGER, config.host, config.log, insight, control.host)
        address = self._inspection.address if self._inspection is not None else None
        self._read_plans = read_plans
        nodes = NodeStore(database, config.node, config.http_address()) if config.node.folder else None
        self._leadership = Leadership(config, database, clock, self._read_store, self._wake, address, nodes)
        self.node: NodeAgent | None = None
        """The node of a manager that is part of a two-node system."""
        if nodes is not None:
            self.node = NodeAgent(config.node, nodes, self._leadership, clock)
            self._leadership.probed_at = self.node.guard_of
            self._leadership.contested = self.node.is_contested
            self._leadership.before_confirming = self.node.write_deadline
        self._to_store: deque[StoreInstruction] = deque()
        """Instructions that the store's thread has yet to write, in order."""
        self._raising: set[RaiseEpoch] = set()
        """The epochs that are to be raised, until the plane has the answer; belongs to the loop's thread."""
        self._store_thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="plan-store")
        self._stopping = threading.Event()
        self._ticked_ms = self._tick_cost_ms = 0
        self._caught_up_ms = clock.monotonic_ms()
        """When the queue of messages was last empty."""
        self._thread = threading.Thread(target=self._run, name="control-loop", daemon=True)

    @property
    def context(self) -> GuardedContext:
        """The ZeroMQ context, for sockets of other threads; it ends with `stop`."""
        return self._context

    def start(self) -> None:
        """Start answering: as the leader, or by naming the leader when there is another."""
        if self.node is not None:
            self.node.start()
        self._thread.start()
        waits = range(int(SETTLE_S / SETTLE_STEP_S))
        any(self._leadership.wait_settled(SETTLE_STEP_S) or not self.alive() for _ in waits)

    def stop(self) -> None:
        """Stop the loop, close every socket and fail all queued commands."""
        self._stopping.set()
        # Before the thread is joined: callers that wait for the loop get their error now instead of a timeout.
        self._commands.close()
        self._wake()
        if self._thread.ident is not None:
            self._thread.join()
        else:
            self._server.close()
        if self.node is not None:
            self.node.close()  # before the lease is released, so that no process of this node is active then
        self._store_thread.shutdown(wait=True)
        self._leadership.close()
        self._wake_reader.close()
        self._wake_writer.close()
        if self._inspection is not None:
            self._inspection.close()
        self._context.destroy(linger=0)

    def alive(self) -> bool:
        """Return whether the loop runs."""
        return self._thread.is_alive() and not self._stopping.is_set()

    @property
    def store(self) -> PlanStore:
        """Return the plan store, which can be written as long as this manager leads."""
        return self._store

    def leads(self) -> bool:
        """Return whether this manager leads, and the snapshot shows what it leads."""
        return self.led() is not None

    def led(self) -> ClusterSnapshot | None:
        """Return the snapshot, of a manager that leads.

        None if this one does not lead, or knows only a part of its plans yet.
        """
        # Read the tuple once: token and snapshot belong together even while the loop publishes new ones.
        token, snapshot = self._snapshot
        return snapshot if self._leadership.leads() and token == self._leadership.token() else None

    def election_status(self) -> ElectionStatus:
        """Return the current leader and all known managers."""
        return self._leadership.election_status

    def snapshot(self) -> ClusterSnapshot:
        """Return the loop's latest snapshot; at most a tick old while the loop lives."""
        return self._snapshot[1]

    def together(self) -> AbstractContextManager[None]:
        """Send all commands of this thread within the block to the loop at its end.

        Sends none if the block raises. Raises ManagerUnavailableError.
        """
        return self._commands.together()

    def put_plan(self, plan: PlanToRun) -> None:
        """Run the stored plan; snapshots show it on return. Raises ManagerUnavailableError."""
        self._commands.do(lambda now_ms: self._plane.put_plan(plan, now_ms))

    def remove_plan(self, key: PlanKey, drain: bool = False) -> None:
        """Stop running the plan; snapshots no longer show it on return.

        With `drain` its topology first processes what it has taken in. Raises ManagerUnavailableError.
        """
        self._commands.do(lambda now_ms: self._plane.remove_plan(key, now_ms, drain=drain))

    def drain_plan(self, key: PlanKey, workers: tuple[str, ...] | None) -> None:
        """Close the plan's intake and remove it when nothing of it is left in its topology and at `workers`.

        With None the plan runs on after all. Raises ManagerUnavailableError.
        """
        self._commands.do(lambda now_ms: self._plane.drain_plan(key, workers, now_ms))

    def rename_plan(self, plan: PlanToRun) -> None:
        """Take over name and text of the stored plan; its topology keeps running. Raises ManagerUnavailableError."""
        self._commands.do(lambda _: self._plane.rename_plan(plan))

    def await_notes(self) -> None:
        """Wait until the plan store has written everything that the control loop has passed to it so far.

        Raises ManagerUnavailableError.
        """
        try:
            self._store_thread.submit(lambda: None).result(NOTED_S)
        except (TimeoutError, RuntimeError) as error:
            raise ManagerUnavailableError("the plan store does not answer in time; try again") from error

    def change_settings(self, key: PlanKey, patch: SettingsPatch) -> None:
        """Change settings of the plan; nothing is restarted. Raises ManagerUnavailableError."""
        self._commands.do(lambda _: self._plane.change_settings(key, patch))

    def release(self, key: PlanKey, streams: tuple[str, ...]) -> None:
        """Stop holding event time back for the first events of these streams. Raises ManagerUnavailableError."""
        self._commands.do(lambda _: self._plane.release(key, streams))

    def sample(self, key: PlanKey, components: tuple[str, ...], percent: float, for_ms: int) -> None:
        """Sample events that pass the stages for `for_ms`; a `percent` of 0 stops sampling.

        Raises ManagerUnavailableError.
        """
        self._commands.do(lambda now_ms: self._plane.sample(key, components, percent, for_ms, now_ms))

    def restart_plan(self, key: PlanKey, epoch: int, restore: str = "", restore_epoch: int = 0) -> None:
        """Submit the plan again under `epoch`, to start from what `restore` says, as ordered under `restore_epoch`.

        Raises ManagerUnavailableError.
        """
        self._commands.do(lambda now_ms: self._plane.restart_plan(key, epoch, now_ms, restore, restore_epoch))

    def order(self, order: DriverOrder) -> None:
        """Send the order to the driver. Raises ManagerUnavailableError, NoDriverError."""
        self._commands.do(lambda now_ms: self._plane.order(order, now_ms))

    def adopt_worker(self, worker: str) -> None:
        """Make a worker that serves another system join this one. Raises ManagerUnavailableError."""
        self._commands.do(lambda _: self._plane.adopt_worker(worker))

    def _wake(self) -> None:
        # A full pipe means that the loop is being woken already; a closed one that it has ended.
        with contextlib.suppress(OSError):
            self._wake_writer.send(b"w")

    # ---- the loop's own thread -------------------------------------------------------------------------------------

    def _run(self) -> None:
        raise_priority(self._config.control.priority)  # it judges heartbeats
        try:
            self._loop()
        except Exception:
            # The thread's border: `alive` is False from now on, and the process's main thread ends it.
            paced_logger.exception("control loop failed")
        finally:
            self._server.close()

    def _loop(self) -> None:
        poller = zmq.Poller()
        poller.register(self._server.socket, zmq.POLLIN)
        poller.register(self._wake_reader.fileno(), zmq.POLLIN)
        tick_ms = max(10, self._config.control.heartbeat_ms // 4)
        while not self._stopping.is_set():
            poller.poll(min(self._wait_ms(tick_ms), self._leadership.wait_ms()))
            self._drain_wakes()
            # The election first: everything after it may be done only by the leader.
            self._follow_election()
            self._take_messages()
            answered = self._take_commands()
            # Messages first, then time: a peer whose message has already arrived must not count as silent.
            if answered or self._is_due(tick_ms):
                if answered:
                    self._snapshot_ms = NEVER
                self._tick()
            for command in answered:
                command.done.set_result(None)

    def _wait_ms(self, tick_ms: int) -> int:
        """Return how long the loop may wait for messages before it must check the plans."""
        spaced_ms = REST * self._tick_cost_ms if self._has_news() else tick_ms
        return max(0, self._ticked_ms + min(tick_ms, spaced_ms) - self._clock.monotonic_ms())

    def _is_due(self, tick_ms: int) -> bool:
        """Return whether to check all plans: after news, but not for most of the time, and in each tick."""
        since_ms = self._clock.monotonic_ms() - self._ticked_ms
        return since_ms >= tick_ms or (self._has_news() and since_ms >= REST * self._tick_cost_ms)

    def _has_news(self) -> bool:
        """Return whether something has happened that requires a check of all plans."""
        # A standby does not check plans: open work of a former leader stays, and must not keep it busy.
        return self._plane.news and self._leadership.leads()

    def _tick(self) -> None:
        self._ticked_ms = self._clock.monotonic_ms()
        if self._leadership.leads():
            # Only a leader judges silence: a standby hears no heartbeats and would take everything for lost.
            behind_ms = max(0, self._ticked_ms - self._caught_up_ms)
            self._carry_out(self._plane.tick(self._ticked_ms, min(behind_ms, LONGEST_BEHIND_MS)))
            if self._plane.looked:
                self._snapshot_ms = NEVER
        # Changes that come with every heartbeat are published as often as heartbeats arrive; a thousand plans need not
        # be listed more often.
        if self._ticked_ms - self._snapshot_ms >= self._config.control.heartbeat_ms:
            self._tell()
        self._tick_cost_ms = self._clock.monotonic_ms() - self._ticked_ms

    def _follow_election(self) -> None:
        changes = self._leadership.turn()
        for change in changes:
            # Answers that came while another manager led were dropped: the new plane must be able to ask again.
            self._raising.clear()
            match change:
                case Led(token, plans):
                    self._token, self._plane = token, self._new_plane(token)
                    # A new leader starts from the stored plans and knows no process yet; drivers, workers and tasks
                    # introduce themselves with their next heartbeats.
                    for plan in plans:
                        self._carry_out(self._plane.put_plan(plan, self._clock.monotonic_ms()))
                    # After the plans were taken over, so that no command can change a plan that the plane does not know
                    # yet.
                    self._store.lead(WriteRight(token, self._leadership.refused))
                case Resigned():
                    # Before anything else: writes under the lost token must fail from now on.
                    self._store.lead(None)
                    self._token, self._plane = 0, self._new_plane(0)
        if changes:  # peers that hear from the new leader find its plans in the snapshot
            self._tell()
        self._leadership.settle()

    def _tell(self) -> None:
        self._snapshot_ms = self._clock.monotonic_ms()
        self._snapshot = self._token, self._plane.snapshot(self._clock.monotonic_ms())

    def _new_plane(self, token: int) -> ControlPlane:
        config = self._config
        return ControlPlane(
            heartbeat_ms=config.control.heartbeat_ms,
            lease_ms=config.control.lease_ms,
            default_workers=config.topology.workers,
            # The plan list's revision starts above all revisions that an earlier leader can have used.
            revision=token << REVISION_BITS,
            quotas=config.quotas,
            ahead_ms=self._clock.now_ms() - self._clock.monotonic_ms(),
            system=self._system,
            removed=self._removed,
            default_host=config.topology.host,
        )

    def _read_store(self) -> tuple[PlanToRun, ...]:
        """Read what a leader begins with, in a thread of the election. Raises CepError."""
        removed = self._store.removed()
        plans = self._read_plans(self._store)
        self._removed = removed
        return plans

    def _drain_wakes(self) -> None:
        with contextlib.suppress(BlockingIOError):
            while self._wake_reader.recv(4096):
                pass

    def _take_messages(self) -> None:
        for _ in range(MESSAGES_AT_ONCE):
            if not self._server.socket.poll(0):
                self._caught_up_ms = self._clock.monotonic_ms()
                return
            try:
                peer, envelope = self._server.receive()
            except (DecodeError, UnauthorisedError) as error:
                paced_logger.problem("message", "message refused reason=%r", error.message)
                continue
            # Asked for each message: the lease may end while messages are processed.
            if not self._leadership.leads():
                self._server.send(peer, self._leadership.refusal(), envelope.correlation)
                continue
            try:
                answer, instructions = self._plane.handle(peer, envelope.message, self._clock.monotonic_ms())
            except Exception:
                # The border of the loop: one message that trips a defect must not silence the registry for all.
                paced_logger.exception("message failed type=%s", envelope.message.TYPE)
                answer, instructions = Rejected(code="internal", reason="the manager failed; see its log"), []
            self._server.send(peer, self._signed(answer), envelope.correlation)
            self._carry_out(instructions)

    def _signed(self, answer: Message) -> Message:
        """Return the answer with what the peer must know of the managers."""
        match answer:
            case WorkerRegistered() | TaskRegistered() | TasksRefreshed():
                return msgspec.structs.replace(answer, managers=self._leadership.managers())
            case DriverRegistered():
                known = {"managers": self._leadership.managers(), "token": self._leadership.token()}
                return msgspec.structs.replace(answer, **known)
        return answer

    def _take_commands(self) -> list[Command]:
        """Run the queued commands; return those to complete once the snapshot shows their effect."""
        taken: list[Command] = []
        for command in self._commands.take():
            if not self._leadership.leads():
                # The lease may have ended after the caller's check; the loop's own check counts.
                command.done.set_exception(NotLeaderError("this manager no longer leads"))
                continue
            try:
                self._carry_out(command.run(self._clock.monotonic_ms()))
            except Exception as error:  # noqa: BLE001 - raised again where the command came from
                command.done.set_exception(error)
            else:
                taken.append(command)
        return taken

    def _carry_out(self, instructions: Iterable[Instruction]) -> None:
        for instruction in instructions:
            match instruction:
                case LogLine():
                    instruction.write(logger)
                case PushToDriver(peer, message):
                    self._push(peer, message)
                case RaiseEpoch() if instruction in self._raising:
                    pass  # a plan that waits for a busy store asks again: two answers would have it start twice
                case RaiseEpoch() | SettleChange() | NoteBegun() | RemoveDrained():
                    if isinstance(instruction, RaiseEpoch):
                        self._raising.add(instruction)
                    self._to_store.append(instruction)
                    self._store_thread.submit(self._store_next)

    def _push(self, peer: bytes, message: DriverOrder) -> None:
        """Send the order to the driver, provided that this manager still leads."""
        if self._leadership.leads():
            self._server.send(peer, msgspec.structs.replace(message, token=self._leadership.token()))
        else:
            logger.warning("order not given, this manager does not lead: order=%s", message.TYPE)

    # ---- the plan store's thread -----------------------------------------------------------------------------------

    def _store_next(self) -> None:
        """Carry out what comes next, and what follows of the same kind, as far as that goes in one transaction.

        After a driver was lost the epochs of all plans are raised: a thousand transactions would take minutes.
        """
        match leading(self._to_store, STORED_AT_ONCE):
            case [RaiseEpoch(), *_] as raised:
                self._raise_epochs([one for one in raised if isinstance(one, RaiseEpoch)])
            case [NoteBegun(), *_] as begun:
                self._note_begun([one for one in begun if isinstance(one, NoteBegun)])
            case others:
                for one in others:
                    if isinstance(one, SettleChange):
                        self._settle(one)
                    elif isinstance(one, RemoveDrained):
                        self._remove_drained(one.key)

    def _raise_epochs(self, raised: list[RaiseEpoch]) -> None:
        reason = ""
        epochs: list[int] = []
        try:
            epochs = self._store.raise_epochs([(one.key, one.above) for one in raised])
        except (PlanStoreError, NotLeaderError) as error:
            reason = error.message
        except Exception:
            # The outermost frame of this thread: no caller would see an exception.
            logger.exception("epochs not raised plans=%s", ",".join(one.key.topology() for one in raised))
            reason = "the manager failed; see its log"
        self._commands.post(lambda now_ms: self._answer_raised(raised, epochs, reason, now_ms))

    def _answer_raised(
        self, raised: list[RaiseEpoch], epochs: list[int], reason: str, now_ms: int
    ) -> Iterator[Instruction]:
        """Give the plane the epochs, or the reason why there are none; in the loop's thread."""
        self._raising.difference_update(raised)
        if reason:
            for one in raised:
                yield from self._plane.epoch_not_raised(one.key, reason, now_ms)
            return
        for one, epoch in zip(raised, epochs, strict=True):
            yield from self._plane.epoch_raised(one.key, epoch, now_ms)

    def _settle(self, change: SettleChange) -> None:
        try:
            self._store.settle(change.key, change.epoch, change.in_force.as_stored())
        except NotLeaderError as error:
            logger.warning("change not settled plan=%s reason=%r", change.key.topology(), error.message)
        except Exception:
            # The boundary of this thread. A manager that starts during the change checks its state again.
            logger.exception("change not settled plan=%s epoch=%d", change.key.topology(), change.epoch)

    def _note_begun(self, begun: list[NoteBegun]) -> None:
        plans = ",".join(f"{one.key.topology()} epoch={one.epoch}" for one in begun)
        try:
            self._store.all_begun([(one.key, one.epoch) for one in begun])
        except NotLeaderError as error:
            logger.warning("start of an epoch not recorded plan=%s reason=%r", plans, error.message)
        except Exception:
            # The border of this thread. A manager that comes to lead sees the plan run, and notes it then.
            logger.exception("start of an epoch not recorded plan=%s", plans)

    def _remove_drained(self, key: PlanKey) -> None:
        try:
            self._store.remove(key, self._clock.now_ms())
        except (PlanStoreError, NotLeaderError) as error:
            reason = error.message
            self._commands.post(lambda _: self._plane.not_removed(key, reason))
        except Exception:
            # The border of this thread: the plan is asked for again.
            logger.exception("drained plan not removed plan=%s", key.topology())
            self._commands.post(lambda _: self._plane.not_removed(key, "the manager failed; see its log"))
        else:
            self._commands.post(lambda now_ms: self._plane.remove_plan(key, now_ms, drain=True))
