"""Runs the driver's stage hosts: their Spark jobs, and the socket at which they register and get orders.

`StageHosts` (`topology/driver/stage_hosting.py`) makes the decisions. Everything here belongs to the driver's thread.
"""

from __future__ import annotations

import logging
import queue
from collections import Counter
from collections.abc import Callable
from functools import partial

import msgspec
import zmq
from pyspark import SparkContext

from cep_common.clock import Clock
from cep_common.errors import DecodeError
from cep_common.ids import Endpoint, PlanKey
from cep_common.monitoring.paced_log import PacedLog
from cep_common.protocol.codec import MAXIMUM_DATA_BYTES, decode, encode
from cep_common.protocol.drivers import StageHostReport
from cep_common.protocol.registry import Message, Rejected
from cep_common.protocol.stage_hosts import EndTask, HostedTask, HostHeard, ReportHost, RunTask
from cep_common.security.roles import SocketKind
from cep_common.sockets.transport import bind_in_range, listening_socket, receive, send_now
from topology.driver.stage_hosting import HEARTBEAT_MS, HostAction, HostInstruction, HostState, SeatId, StageHosts
from topology.spark.driver_side.config import DriverConfig
from topology.spark.driver_side.session import CANCELLED, HostJob
from topology.spark.reasons import Ending
from topology.stages.settings import HostAssignment, StageSettings, TaskAssignment

logger = logging.getLogger(__name__)
paced_logger = PacedLog(logger)

MESSAGES_AT_ONCE = 256
HOST_ENDED = "host-ended"
"""The code of tasks that ended because the driver ended their stage host."""


class HostedJob:
    """A topology's one task in a stage host; `ended` is called when it has ended."""

    def __init__(self, hosts: Hosts, assignment: TaskAssignment, ended: Callable[[Ending], None]) -> None:
        self.assignment = assignment
        self.seat = SeatId(assignment.key, assignment.epoch, assignment.attempt)
        self.runs = False
        self.ended = ended
        self._hosts = hosts

    def start(self) -> None:
        self._hosts.run(self)

    def cancel(self) -> None:
        self._hosts.end(self)

    def is_running(self) -> bool:
        return self.runs


class Hosts:
    """All stage hosts of the driver. `turn` is called often."""

    def __init__(
        self,
        config: DriverConfig,
        context: zmq.Context[zmq.Socket[bytes]],
        spark: SparkContext,
        executors: Callable[[], dict[str, str]],
        clock: Clock,
        started_ms: int,
    ) -> None:
        """Open the port at which hosts register. Raise PortInUseError when it is in use.

        `executors` returns where executors are or were, by their ids.
        """
        self._config = config
        self._spark = spark
        self._executors = executors
        self._clock = clock
        self._state = StageHosts(f"{config.name}-{started_ms}", config.restart.start_timeout_ms)
        self._jobs: dict[str, HostJob] = {}
        self._hosted: dict[SeatId, HostedJob] = {}
        self._peers: dict[str, bytes] = {}
        self._places: dict[str, tuple[str, int]] = {}
        """The machine and the process of each host that has registered."""
        self._died: dict[str, Ending] = {}
        """How the host ended whose tasks are being reported."""
        self._endings: queue.SimpleQueue[tuple[str, Ending]] = queue.SimpleQueue()
        self.socket = listening_socket(context, SocketKind.HOSTS, config.host, MAXIMUM_DATA_BYTES)
        ports = (config.checkpoint.first_port, config.checkpoint.last_port)
        try:
            self._endpoint = Endpoint(config.host, bind_in_range(self.socket, config.host, ports))
        except BaseException:
            self.socket.close()
            raise

    def run(self, job: HostedJob) -> None:
        """Run the job's task in a host, if necessary a new one."""
        self._hosted[job.seat] = job
        self._do(self._state.place(job.seat, self._clock.monotonic_ms()))

    def end(self, job: HostedJob) -> None:
        """End the job's task."""
        self._do(self._state.end(job.seat, self._clock.monotonic_ms()))

    def keep(self, tenants: frozenset[int]) -> None:
        """Keep a host of each of these tenants, and of no other, while nothing runs in it."""
        self._state.keep(tenants, self._clock.monotonic_ms())

    def turn(self, settings: Callable[[], StageSettings], slots_total: int, slots_free: int, *, wanted: bool) -> None:
        """Apply reports of hosts, and perform due tasks.

        Hosts that start get what `settings` returns. There are `slots_free` of `slots_total`; `wanted` slots are needed
        by others.
        """
        now_ms = self._clock.monotonic_ms()
        for _ in range(MESSAGES_AT_ONCE):
            if not self.socket.poll(0):
                break
            self._take_in(receive(self.socket), now_ms)
        while not self._endings.empty():
            host, ending = self._endings.get()
            logger.info("stage host ended: host=%s reason=%s", host, ending.reason)
            self._jobs.pop(host, None)
            self._peers.pop(host, None)
            address, process_id = self._places.get(host, (ending.host, 0))
            self._died[host] = msgspec.structs.replace(ending, host=address, process_id=process_id)
            self._do(self._state.host_ended(host, ending.reason), settings)
            del self._died[host]
            self._places.pop(host, None)
        for name in self._state.overdue(now_ms):
            job = self._jobs.get(name)
            if job is not None and job.is_running():
                self._state.launched(name)
        self._do(self._state.on_time(now_ms, slots_total, slots_free, wanted=wanted), settings)

    def tenants(self) -> dict[int, int]:
        """Return the number of hosts of each tenant."""
        return dict(Counter(host.tenant for host in self._state.hosts.values()))

    def moves(self) -> bool:
        """Return whether a task waits for a host, or a host is starting or ending: call `turn` often then."""
        hosts = self._state.hosts.values()
        return bool(self._state.waiting) or any(host.state is not HostState.UP for host in hosts)

    def with_room(self) -> frozenset[int]:
        """Return the tenants with a host that accepts plans."""
        return self._state.with_room()

    def stand_alone(self) -> list[PlanKey]:
        """Return the plans that get no place in a host because they ended hosts too often."""
        now_ms = self._clock.monotonic_ms()
        return [key for key in self._state.blamed() if self._state.stands_alone(key, now_ms)]

    def forget(self, key: PlanKey) -> None:
        """Remove a plan that is no longer deployed."""
        self._state.forget(key)

    def reports(self) -> tuple[StageHostReport, ...]:
        """Return the report of each host."""
        now_ms = self._clock.monotonic_ms()
        return tuple(
            StageHostReport(
                host.name, host.tenant, host.state.value, len({seat.key for seat in host.seats}), host.address,
                host.process_id, host.memory_bytes, host.cpu_ms, now_ms - host.since_ms,
            )
            for host in self._state.hosts.values()
        )  # fmt: skip

    def shape(self) -> tuple[tuple[str, str, int], ...]:
        """Return the part of `reports` whose changes are reported at once."""
        return tuple((host.name, host.state.value, len(host.seats)) for host in self._state.hosts.values())

    def close(self) -> None:
        """Cancel the jobs of all hosts."""
        self.socket.close()
        for job in self._jobs.values():
            job.cancel()

    # ---- what hosts say ---------------------------------------------------------------------------------------------

    def _take_in(self, frames: list[bytes], now_ms: int) -> None:
        peer, *request = frames
        try:
            message = decode(request).message
        except DecodeError as error:
            self._send(peer, Rejected(error.code, str(error)))
            return
        if not isinstance(message, ReportHost):
            self._send(peer, Rejected("unexpected-message", f"a driver accepts no {message.TYPE} from stage hosts"))
            return
        host = self._state.hosts.get(message.host)
        if host is None:
            self._send(peer, Rejected("unknown-host", f"this driver has no stage host {message.host}"))
            return
        if message.host not in self._peers:
            logger.info("stage host is up: host=%s process=%d", message.host, message.process_id)
        self._peers[message.host] = peer
        host.address, host.process_id = message.address, message.process_id
        self._places[message.host] = message.address, message.process_id
        host.memory_bytes, host.cpu_ms = message.memory_bytes, message.cpu_ms
        for blame in message.blames:
            what = f"topology={blame.key.topology()} host={blame.host} reason={blame.reason}"
            logger.warning("a plan has ended its stage host: %s", what)
        if message.listed == message.number:
            host.listed = message.number
            self._do(self._state.register(message.host, message.tasks, message.blames, now_ms))
        else:  # the response names the known list; the host sends its current one if that differs
            self._do(self._state.beat(message.host, message.blames, now_ms))
        lease_ms = self._config.checkpoint.task_lease_ms
        self._send(peer, HostHeard(HEARTBEAT_MS, lease_ms, host.listed))

    def _send(self, peer: bytes, message: Message) -> None:
        if not self.socket.closed:  # while the driver leaves, Spark ends the hosts
            send_now(self.socket, [peer, *encode(message)])

    # ---- what is decided --------------------------------------------------------------------------------------------

    def _do(self, instructions: list[HostInstruction], settings: Callable[[], StageSettings] | None = None) -> None:
        for one in instructions:
            match one.action:
                case HostAction.START_HOST:
                    self._start(one.host, (settings or self._config.stage_settings)())
                case HostAction.END_HOST:
                    reason = self._state.hosts[one.host].reason or "nothing runs in it"
                    logger.info("stage host is ended: host=%s reason=%s", one.host, reason)
                    self._jobs[one.host].cancel()
                case HostAction.RUN_TASK | HostAction.END_TASK:
                    self._order(one)
                case HostAction.TASK_RUNS:
                    job = self._hosted.get(one.seat) if one.seat is not None else None
                    if job is not None:
                        job.runs = True
                case HostAction.TASK_ENDED:
                    job = self._hosted.pop(one.seat, None) if one.seat is not None else None
                    if job is not None:
                        job.runs = False
                        job.ended(self._ending(one))

    def _start(self, host: str, settings: StageSettings) -> None:
        tenant = self._state.hosts[host].tenant
        config = self._config
        assignment = HostAssignment(host, tenant, self._endpoint, settings, config.log, config.priority)
        logger.info("stage host starts: host=%s tenant=%d", host, tenant)
        ended = partial(self._note_ending, host)
        job = self._jobs[host] = HostJob(self._spark, assignment, self._executors, ended)
        job.start()

    def _note_ending(self, host: str, ending: Ending) -> None:
        """Record how a host ended; called by the job's thread."""
        self._endings.put((host, ending))

    def _order(self, one: HostInstruction) -> None:
        peer, seat = self._peers.get(one.host), one.seat
        if peer is None or seat is None:
            return
        name = (seat.key, seat.epoch, seat.attempt)
        if one.action is HostAction.END_TASK:
            self._send(peer, EndTask(*name))
        elif seat in self._hosted:
            self._send(peer, RunTask(*name, msgspec.json.encode(self._hosted[seat].assignment)))

    def _ending(self, one: HostInstruction) -> Ending:
        hosted: HostedTask | None = one.ended
        address, process_id = self._places.get(one.host, ("", 0))
        if hosted is None:
            died = self._died.get(one.host, CANCELLED)
            if one.reason == died.reason:
                return died
            return Ending(one.reason, HOST_ENDED, host=address, process_id=process_id)  # the driver ended it
        if not hosted.code:
            return CANCELLED
        return Ending(
            hosted.reason,
            hosted.code,
            hosted.traceback,
            hosted.instance,
            address,
            process_id,
            hosted.unfit,
        )
