"""The manager's control loop: one thread that owns the control socket and all decisions, so that no heartbeat ever
waits for the web or the database.

Readers take the snapshot of the moment; commands from other threads are queued and answered through futures. What the
database must do is done by a thread of its own, which reports back through the same queue.
"""

from __future__ import annotations

import contextlib
import logging
import queue
import socket
import threading
from collections.abc import Callable, Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from concurrent.futures import TimeoutError as FutureTimeoutError

import msgspec
import zmq

from cep_common.clock import Clock
from cep_common.errors import DecodeError, PortInUseError, UnauthorisedError
from cep_common.ids import PlanKey
from cep_common.messages import Rejected
from cep_common.security.context import open_context
from cep_common.security.roles import Role
from cep_common.transport import ControlServer
from cep_manager.config import ManagerConfig
from cep_manager.control_plane import ControlPlane
from cep_manager.errors import ManagerUnavailableError, StoreError
from cep_manager.instructions import Instruction, LogLine, PushToDriver, RaiseEpoch, SettleChange
from cep_manager.plan_record import PlanToRun
from cep_manager.plan_store import PlanStore, StoredVersion
from cep_manager.snapshot import Snapshot

logger = logging.getLogger(__name__)

_LEVELS = {"info": logging.INFO, "warning": logging.WARNING, "error": logging.ERROR}
MESSAGES_AT_ONCE = 1_000
"""After so many messages the loop looks at its commands and the time, however many more are waiting."""

COMMAND_TIMEOUT_S = 10.0


class _Command(msgspec.Struct, frozen=True):
    """Work for the loop's thread, and where its instructions' caller waits."""

    run: Callable[[int], Iterable[Instruction]]
    done: Future[None]


class ManagerService:
    """The control loop. `start` and `stop` are called by one thread; everything else by any."""

    def __init__(self, config: ManagerConfig, store: PlanStore, clock: Clock, plans: Iterable[PlanToRun]) -> None:
        """The control port is bound and `plans` are to run; nothing is answered before `start`. Raises PortInUseError
        that names the configuration's key."""
        self._config = config
        self._store = store
        self._clock = clock
        self._context = open_context(config.security, Role.MANAGER, {"host": config.host})
        try:
            self._server = ControlServer(self._context, config.host, config.control.port)
        except PortInUseError as error:
            self._context.destroy(linger=0)
            raise PortInUseError(f"{error.message}; set control.port (and host) to a free one") from error
        # The plan list's revision begins above all that an earlier process of this manager can have given out.
        self._plane = ControlPlane(
            heartbeat_ms=config.control.heartbeat_ms,
            lease_ms=config.control.lease_ms,
            default_workers=config.topology.workers,
            revision=clock.now_ms(),
            quotas=config.quotas,
        )
        for plan in plans:
            self._plane.put_plan(plan, clock.monotonic_ms())
        self._snapshot = self._plane.snapshot(clock.monotonic_ms())
        self._commands: queue.SimpleQueue[_Command] = queue.SimpleQueue()
        self._wake_reader, self._wake_writer = socket.socketpair()
        self._wake_reader.settimeout(0.0)
        self._wake_writer.settimeout(0.0)
        self._store_thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="plan-store")
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="control-loop", daemon=True)

    def start(self) -> None:
        """The control plane answers."""
        self._thread.start()

    def stop(self) -> None:
        """The loop has ended and every socket is closed; commands still queued have failed."""
        self._stopping.set()
        self._wake()
        if self._thread.ident is not None:
            self._thread.join()
        else:
            self._server.close()
        self._store_thread.shutdown(wait=True)
        self._fail_commands()
        self._wake_reader.close()
        self._wake_writer.close()
        self._context.destroy(linger=0)

    def alive(self) -> bool:
        """True while the loop runs."""
        return self._thread.is_alive() and not self._stopping.is_set()

    def snapshot(self) -> Snapshot:
        """What the loop knew last; at most a tick old while it lives."""
        return self._snapshot

    def put_plan(self, plan: PlanToRun) -> None:
        """The stored plan should run, and snapshots show it. Raises ManagerUnavailableError."""
        self._command(lambda now_ms: self._plane.put_plan(plan, now_ms))

    def remove_plan(self, key: PlanKey) -> None:
        """The plan should not run, and snapshots do not show it. Raises ManagerUnavailableError."""
        self._command(lambda now_ms: self._plane.remove_plan(key, now_ms))

    def rename_plan(self, key: PlanKey, plan: PlanToRun) -> None:
        """The stored plan should run, the one of `key` should not; nothing happens between the two. Raises
        ManagerUnavailableError."""
        self._command(lambda now_ms: [*self._plane.remove_plan(key, now_ms), *self._plane.put_plan(plan, now_ms)])

    def set_intake(self, key: PlanKey, intake: bool) -> None:
        """Workers take events in for the plan, or do not. Raises ManagerUnavailableError."""
        self._command(lambda _: self._plane.set_intake(key, intake))

    def set_trace(self, key: PlanKey, trace: bool) -> None:
        """Workers write the plan's events to their logs, or do not. Raises ManagerUnavailableError."""
        self._command(lambda _: self._plane.set_trace(key, trace))

    def set_origin(self, key: PlanKey, origin: str) -> None:
        """The plan comes from the file that `origin` names. Raises ManagerUnavailableError."""
        self._command(lambda _: self._plane.set_origin(key, origin))

    def restart_plan(self, key: PlanKey, epoch: int) -> None:
        """The plan is submitted anew under `epoch`. Raises ManagerUnavailableError."""
        self._command(lambda now_ms: self._plane.restart_plan(key, epoch, now_ms))

    def _command(self, run: Callable[[int], Iterable[Instruction]]) -> None:
        done = self._enqueue(run)
        try:
            done.result(timeout=COMMAND_TIMEOUT_S)
        except FutureTimeoutError as error:
            raise ManagerUnavailableError(f"the control loop did not answer in {COMMAND_TIMEOUT_S:.0f} s") from error

    def _enqueue(self, run: Callable[[int], Iterable[Instruction]]) -> Future[None]:
        command = _Command(run, Future())
        self._commands.put(command)
        if self._stopping.is_set():
            self._fail_commands()
        else:
            self._wake()
        return command.done

    def _wake(self) -> None:
        # A full pipe means that the loop is being woken already; a closed one that it has ended.
        with contextlib.suppress(OSError):
            self._wake_writer.send(b"w")

    # ---- the loop's own thread -------------------------------------------------------------------------------------

    def _run(self) -> None:
        try:
            self._loop()
        except Exception:
            # The thread's border: `alive` is False from now on, and whoever runs the process ends it.
            logger.exception("control loop failed")
        finally:
            self._server.close()

    def _loop(self) -> None:
        poller = zmq.Poller()
        poller.register(self._server.socket, zmq.POLLIN)
        poller.register(self._wake_reader.fileno(), zmq.POLLIN)
        tick_ms = max(10, self._config.control.heartbeat_ms // 4)
        while not self._stopping.is_set():
            poller.poll(tick_ms)
            self._drain_wakes()
            self._take_messages()
            answered = self._take_commands()
            # Messages first, then time: whoever spoke before this moment is not taken for silent.
            self._carry_out(self._plane.tick(self._clock.monotonic_ms()))
            self._snapshot = self._plane.snapshot(self._clock.monotonic_ms())
            for command in answered:
                command.done.set_result(None)

    def _drain_wakes(self) -> None:
        with contextlib.suppress(BlockingIOError):
            while self._wake_reader.recv(4096):
                pass

    def _take_messages(self) -> None:
        for _ in range(MESSAGES_AT_ONCE):
            if not self._server.socket.poll(0):
                return
            try:
                peer, envelope = self._server.receive()
            except (DecodeError, UnauthorisedError) as error:
                logger.warning("message refused reason=%r", error.message)
                continue
            try:
                answer, instructions = self._plane.handle(peer, envelope.message, self._clock.monotonic_ms())
            except Exception:
                # The border of the loop: one message that trips a defect must not silence the registry for all.
                logger.exception("message failed type=%s", envelope.message.TYPE)
                answer, instructions = Rejected(code="internal", reason="the manager failed; see its log"), []
            self._server.send(peer, answer, envelope.correlation)
            self._carry_out(instructions)

    def _take_commands(self) -> list[_Command]:
        """Runs what is queued; gives the commands that are to be told so once the snapshot shows it."""
        taken: list[_Command] = []
        while True:
            try:
                command = self._commands.get_nowait()
            except queue.Empty:
                return taken
            try:
                self._carry_out(command.run(self._clock.monotonic_ms()))
            except Exception as error:  # noqa: BLE001 - raised again where the command came from
                command.done.set_exception(error)
            else:
                taken.append(command)

    def _fail_commands(self) -> None:
        with contextlib.suppress(queue.Empty):
            while True:
                self._commands.get_nowait().done.set_exception(ManagerUnavailableError("the manager is stopping"))

    def _carry_out(self, instructions: Iterable[Instruction]) -> None:
        for instruction in instructions:
            match instruction:
                case LogLine(level, text):
                    logger.log(_LEVELS[level], "%s", text)
                case PushToDriver(peer, message):
                    self._server.send(peer, message)
                case RaiseEpoch(key):
                    self._store_thread.submit(self._raise_epoch, key)
                case SettleChange():
                    self._store_thread.submit(self._settle, instruction)

    # ---- the plan store's thread -----------------------------------------------------------------------------------

    def _raise_epoch(self, key: PlanKey) -> None:
        try:
            epoch = self._store.raise_epoch(key)
        except StoreError as error:
            self._report_failure(key, error.message)
        except Exception:
            # The border of this thread: nobody waits for what it returns or raises.
            logger.exception("epoch not raised plan=%s", key.topology())
            self._report_failure(key, "the manager failed; see its log")
        else:
            self._enqueue(lambda now_ms: self._plane.epoch_raised(key, epoch, now_ms))

    def _settle(self, change: SettleChange) -> None:
        version = change.in_force
        stored = StoredVersion(version.text, version.updated_ms, version.epoch, version.workers_asked)
        try:
            self._store.settle(change.key, change.epoch, stored)
        except Exception:
            # The border of this thread. A manager that starts with the change unsettled looks again how it stands.
            logger.exception("change not settled plan=%s epoch=%d", change.key.topology(), change.epoch)

    def _report_failure(self, key: PlanKey, reason: str) -> None:
        self._enqueue(lambda now_ms: self._plane.epoch_not_raised(key, reason, now_ms))
