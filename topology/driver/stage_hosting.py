"""The life cycle of a driver's stage hosts, and the placement of tasks in them. Pure.

    start ─▶ STARTING ──registers──▶ UP ──nothing to run, or hangs──▶ LEAVING ──▶ gone
                 │                    │                                  ▲
                 └────── does not register in time, its job is cancelled ┘       its job ends, from anywhere: gone

A host is a Spark task with a slot of its own, and runs the tasks of many plans of one tenant: tenants share no process.
A plan's task gets a seat in a host and keeps it until it has ended. The first plans of a tenant get a host each, as
long as the hosts take less than their part of all slots; then plans share hosts, and each goes to the host with the
fewest plans. A host in which nothing has run for a while ends, at once if a topology waits for its slot.

On the passive one of two nodes nothing is to run, but a tenant may have a standby host, which waits for its plans: when
the node becomes active they need not wait until Spark has started a process.

Orders are repeated until the host's registrations show that they were followed, and what ended there is reported until
the driver has heard it, so neither a lost message nor a lost connection leaves a plan between two states.

A plan that was running when a host died has a strike; after the second within `STRIKES_MS` it gets no seat, and runs in
a task of its own.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import Enum

from cep_common.ids import PlanKey
from cep_common.lease import AdaptiveLease
from cep_common.protocol.stage_hosts import Blame, HostedTask
from topology.driver.start_limit import start_limit_ms

HEARTBEAT_MS = 1_000
LEASE_MS = 6_000
"""The silence after which a host is ended; longer while heartbeats are late (`cep_common.lease`)."""
LOADING_STARTS = 3
"""The factor by which a host whose process Spark has started may exceed the start time-out.

On a busy machine Python and the libraries take a minute to load. Without a process the time-out applies, because Spark
has no slot for it.
"""
END_MS = 40_000
"""How long a task may take to end after its order: longer than its host waits for a turn before it ends itself."""
END_STARTING_MS = 180_000
"""The same for a task that is being built: its kernels are compiled first, while other tasks run."""
REPEAT_MS = 1_000
"""How long until an order is repeated that the host's registrations do not show."""
IDLE_MS = 5_000
"""How long an idle host stays up."""
STANDBY_AGAIN_MS = 10_000
"""How long after a start the next standby host of a tenant may be started: one that fails must not fail in a loop."""
STRIKES_MS = 600_000
STRIKES = 2
HOSTS_PART = 2
"""Further hosts than a tenant's first one are started while hosts use less than this fraction (1/n) of the slots."""


class HostState(Enum):
    """The phase of a host's life."""

    STARTING = "starting"
    UP = "up"
    LEAVING = "leaving"


class HostMove(Enum):
    """An event in the life of a host."""

    REGISTER = "register"
    LATE = "late"
    SILENT = "silent"
    HANGS = "hangs"
    IDLE = "idle"
    ENDED = "ended"


class HostAction(Enum):
    """An action of the driver on a host or a seat."""

    START_HOST = "start host"
    END_HOST = "end host"
    RUN_TASK = "run task"
    END_TASK = "end task"
    TASK_RUNS = "task runs"
    TASK_ENDED = "task ended"


HOST_TRANSITIONS: dict[tuple[HostState, HostMove], HostState | None] = {
    (HostState.STARTING, HostMove.REGISTER): HostState.UP,
    (HostState.STARTING, HostMove.LATE): HostState.LEAVING,
    (HostState.STARTING, HostMove.IDLE): HostState.LEAVING,
    (HostState.STARTING, HostMove.ENDED): None,
    (HostState.UP, HostMove.REGISTER): HostState.UP,
    (HostState.UP, HostMove.SILENT): HostState.LEAVING,
    (HostState.UP, HostMove.HANGS): HostState.LEAVING,
    (HostState.UP, HostMove.IDLE): HostState.LEAVING,
    (HostState.UP, HostMove.ENDED): None,
    (HostState.LEAVING, HostMove.ENDED): None,
}
"""Every legal transition; None means that the host has ended.

Any other event is ignored, because it refers to a former state.
"""


@dataclass(frozen=True, slots=True, order=True)
class SeatId:
    """An attempt of a plan's topology."""

    key: PlanKey
    epoch: int
    attempt: int


@dataclass(frozen=True, slots=True)
class HostInstruction:
    """An order about a stage host or a task in it.

    `action` is for `host`, or for the `seat` in it. For a task that ended on its own `ended` gives the reason; for one
    that ended with its host, `reason` does.
    """

    action: HostAction
    host: str
    seat: SeatId | None = None
    ended: HostedTask | None = None
    reason: str = ""


@dataclass(slots=True)
class Seat:
    """A plan's task in a host.

    It `runs` once the host has begun to start it: from then on the checkpoint coordinator expects it, as it does a
    separate task whose process runs. While it `starts`, it cannot be ended. `ending_ms` is when it was first ordered to
    end, `ordered_ms` when the host last received an order about it.
    """

    id: SeatId
    runs: bool = False
    starts: bool = False
    ending_ms: int | None = None
    ordered_ms: int | None = None


@dataclass(slots=True)
class Host:
    """A stage host of a `tenant`.

    `since_ms` is when it was started, `heard_ms` when it last registered, `idle_ms` since when nothing runs in it. It
    is `launched` once it was seen to have a process. Before it, `late_before` hosts in a row did not start in time. The
    registration `listed` has said which `tasks` it has,
    among them `strays` that have no seat; it `has_orders` until that shows all that was ordered.
    """

    name: str
    tenant: int
    since_ms: int
    state: HostState = HostState.STARTING
    heard_ms: int = 0
    idle_ms: int = 0
    reason: str = ""
    address: str = ""
    process_id: int = 0
    memory_bytes: int = 0
    cpu_ms: int = 0
    launched: bool = False
    late_before: int = 0
    listed: int = 0
    has_orders: bool = False
    tasks: frozenset[SeatId] = frozenset()
    strays: list[SeatId] = field(default_factory=list)
    seats: dict[SeatId, Seat] = field(default_factory=dict)


@dataclass(slots=True)
class StageHosts:
    """All stage hosts of a driver; names begin with `prefix`, so that no host of another driver is taken for one."""

    prefix: str
    start_timeout_ms: int
    hosts: dict[str, Host] = field(default_factory=dict)
    waiting: dict[SeatId, int] = field(default_factory=dict)
    """Tasks that wait for a host, and since when."""
    standby: frozenset[int] = frozenset()
    """The tenants of which a host is kept though it is idle."""
    _standby_ms: dict[int, int] = field(default_factory=dict)
    """When the last standby host of each tenant was started."""
    _started: int = 0
    _late: int = 0
    """How many hosts in a row failed to start in time; hosts that started at the same time count once."""
    _strikes: dict[PlanKey, list[int]] = field(default_factory=dict)
    _blamed: set[str] = field(default_factory=set)
    _lease: AdaptiveLease = field(default_factory=lambda: AdaptiveLease(LEASE_MS, HEARTBEAT_MS))
    _looked_ms: int | None = None

    @property
    def slots(self) -> int:
        """The slots that hosts occupy."""
        return len(self.hosts)

    def with_room(self) -> frozenset[int]:
        """Return the tenants whose plans can be given a seat without another slot."""
        return frozenset(host.tenant for host in self.hosts.values() if host.state is not HostState.LEAVING)

    def place(self, seat: SeatId, now_ms: int) -> list[HostInstruction]:
        """Place `seat` in a host as soon as one has room. `TASK_RUNS` follows, and `TASK_ENDED` in any case."""
        self.waiting[seat] = now_ms
        return []

    def keep(self, tenants: frozenset[int], now_ms: int) -> None:
        """Keep an idle host for each of these tenants, and for no others.

        The idle time of hosts that are no longer kept begins now.
        """
        for host in self.hosts.values():
            if host.tenant in self.standby - tenants and not host.seats:
                host.idle_ms = now_ms
        self.standby = tenants

    def end(self, seat: SeatId, now_ms: int) -> list[HostInstruction]:
        """End the task in `seat`; `TASK_ENDED` follows."""
        if self.waiting.pop(seat, None) is not None:
            return [HostInstruction(HostAction.TASK_ENDED, "", seat, reason="cancelled")]
        for host in self.hosts.values():
            found = host.seats.get(seat)
            if found is not None and found.ending_ms is None:
                found.ending_ms = now_ms
                return self._order(host, found, now_ms)
        return []

    def register(
        self, name: str, tasks: Iterable[HostedTask], blames: Iterable[Blame], now_ms: int
    ) -> list[HostInstruction]:
        """Apply the registration of a host: its running and ended tasks, and the plans that it blames."""
        host, instructions = self._heard(name, blames, now_ms)
        if host is None:
            return instructions
        hosted = {SeatId(one.key, one.epoch, one.attempt): one for one in tasks}
        host.tasks, host.has_orders = frozenset(hosted), True
        # Topologies that still run were recalled before: they must not run together with their successor.
        host.strays = [seat_id for seat_id, one in hosted.items() if seat_id not in host.seats and one.state != "ended"]
        for seat_id, one in hosted.items():
            instructions += self._follow(host, seat_id, one, now_ms)
        return instructions + self._order_again(host, now_ms)

    def beat(self, name: str, blames: Iterable[Blame], now_ms: int) -> list[HostInstruction]:
        """Apply the registration of a host whose tasks are as it has listed them last."""
        host, instructions = self._heard(name, blames, now_ms)
        return instructions if host is None else instructions + self._order_again(host, now_ms)

    def _heard(self, name: str, blames: Iterable[Blame], now_ms: int) -> tuple[Host | None, list[HostInstruction]]:
        """Renew the lease of a host. Return the host, or None if it should not run, and the instructions."""
        host = self.hosts.get(name)
        if host is None:
            return None, []
        if host.state is HostState.STARTING:
            self._late = 0
        if not self.move(host, HostMove.REGISTER):  # its job was cancelled before Spark knew of it
            return None, [HostInstruction(HostAction.END_HOST, name)]
        if host.heard_ms:
            self._lease.heard(now_ms - host.heard_ms, now_ms)
        host.heard_ms = now_ms
        for blame in blames:
            self._strike(blame, now_ms)
        return host, []

    def _order_again(self, host: Host, now_ms: int) -> list[HostInstruction]:
        """Repeat orders that the host's list of tasks does not show; a thousand seats without any cost nothing."""
        if not host.has_orders:
            return []
        instructions = [HostInstruction(HostAction.END_TASK, host.name, seat_id) for seat_id in host.strays]
        open_seats = [seat for seat in host.seats.values() if seat.id not in host.tasks or seat.ending_ms is not None]
        for seat in open_seats:
            if seat.ordered_ms is None or now_ms - seat.ordered_ms >= REPEAT_MS:
                instructions += self._order(host, seat, now_ms)
        host.has_orders = bool(open_seats or host.strays)
        return instructions

    def _follow(self, host: Host, seat_id: SeatId, one: HostedTask, now_ms: int) -> list[HostInstruction]:
        """Apply what the host says of one task."""
        seat = host.seats.get(seat_id)
        if seat is None:
            return []
        seat.starts = one.state == "starting"
        if one.state == "ended":
            self._leave(host, seat_id, now_ms)
            return [HostInstruction(HostAction.TASK_ENDED, host.name, seat_id, one)]
        if one.state != "waiting" and not seat.runs:
            seat.runs = True
            return [HostInstruction(HostAction.TASK_RUNS, host.name, seat_id)]
        return []

    def host_ended(self, name: str, reason: str) -> list[HostInstruction]:
        """End the tasks of a host whose job is over."""
        host = self.hosts.get(name)
        if host is None:
            return []
        self.move(host, HostMove.ENDED)
        del self.hosts[name]
        why = host.reason or reason
        return [HostInstruction(HostAction.TASK_ENDED, name, seat, reason=why) for seat in host.seats]

    def overdue(self, now_ms: int) -> list[str]:
        """Return the hosts that start and should have registered by now."""
        starting = (host for host in self.hosts.values() if host.state is HostState.STARTING)
        return [host.name for host in starting if now_ms - host.since_ms >= self._start_limit_ms(host)]

    def launched(self, name: str) -> None:
        """Note that the host has a process, which has not registered yet."""
        if name in self.hosts:
            self.hosts[name].launched = True

    def on_time(self, now_ms: int, slots_total: int, slots_free: int, *, wanted: bool) -> list[HostInstruction]:
        """Give seats to waiting tasks, start hosts for them, and end hosts that are silent, hang or are idle.

        Hosts start in `slots_free` of `slots_total`. While others need `wanted` slots that are not free, idle hosts
        end at once, and no host is started except a tenant's first.
        """
        instructions: list[HostInstruction] = []
        if self._looked_ms is not None:  # a late driver receives heartbeats late
            self._lease.heard(now_ms - self._looked_ms, now_ms)
        self._looked_ms = now_ms
        for host in list(self.hosts.values()):
            instructions += self._look_at(host, now_ms, wanted=wanted)
        for tenant in self.standby:
            due = now_ms - self._standby_ms.get(tenant, now_ms - STANDBY_AGAIN_MS) >= STANDBY_AGAIN_MS
            if slots_free > 0 and due and not wanted and not self._open(tenant):
                slots_free -= 1
                self._standby_ms[tenant] = now_ms
                instructions.append(HostInstruction(HostAction.START_HOST, self._start(tenant, now_ms).name))
        for seat_id in list(self.waiting):
            tenant = seat_id.key.tenant
            found = self._host_for(tenant, slots_total)
            if found is None and slots_free > 0 and not (wanted and self._open(tenant)):
                slots_free -= 1
                found = self._start(tenant, now_ms)
                instructions.append(HostInstruction(HostAction.START_HOST, found.name))
            found = found or self._emptiest(tenant)
            if found is None:
                continue
            del self.waiting[seat_id]
            seat = found.seats[seat_id] = Seat(seat_id)
            found.has_orders = True
            if found.state is HostState.UP:
                instructions += self._order(found, seat, now_ms)
        return instructions

    def stands_alone(self, key: PlanKey, now_ms: int) -> bool:
        """Return whether the plan gets no seat because it has ended hosts too often."""
        recent = [since_ms for since_ms in self._strikes.get(key, ()) if now_ms - since_ms < STRIKES_MS]
        return len(recent) >= STRIKES

    def blamed(self) -> list[PlanKey]:
        """Return the plans that have a strike."""
        return list(self._strikes)

    def forget(self, key: PlanKey) -> None:
        """Forget an undeployed plan, so that its strikes do not affect the next plan of its name."""
        self._strikes.pop(key, None)

    def _host_for(self, tenant: int, slots_total: int) -> Host | None:
        """Return the host for a plan of the tenant; None requests another host, if there is a slot for it."""
        mine = self._open(tenant)
        if mine and len(self.hosts) * HOSTS_PART >= slots_total:
            return self._emptiest(tenant)
        return next((host for host in mine if not host.seats), None)

    def _emptiest(self, tenant: int) -> Host | None:
        return min(self._open(tenant), key=lambda host: (len(host.seats), host.name), default=None)

    def _open(self, tenant: int) -> list[Host]:
        return [host for host in self.hosts.values() if host.tenant == tenant and host.state is not HostState.LEAVING]

    def _start(self, tenant: int, now_ms: int) -> Host:
        self._started += 1
        name = f"{self.prefix}-{self._started}"
        host = self.hosts[name] = Host(name, tenant, now_ms, idle_ms=now_ms, late_before=self._late)
        return host

    def _start_limit_ms(self, host: Host) -> int:
        return start_limit_ms(self.start_timeout_ms, host.late_before)

    def _order(self, host: Host, seat: Seat, now_ms: int) -> list[HostInstruction]:
        seat.ordered_ms, host.has_orders = now_ms, True
        action = HostAction.RUN_TASK if seat.ending_ms is None else HostAction.END_TASK
        return [HostInstruction(action, host.name, seat.id)]

    def _leave(self, host: Host, seat: SeatId, now_ms: int) -> None:
        del host.seats[seat]
        if not host.seats:
            host.idle_ms = now_ms

    def _look_at(self, host: Host, now_ms: int, *, wanted: bool) -> list[HostInstruction]:
        hangs = any(
            seat.ending_ms is not None and now_ms - seat.ending_ms >= (END_STARTING_MS if seat.starts else END_MS)
            for seat in host.seats.values()
        )
        idle_for_ms = now_ms - host.idle_ms
        moved = False
        limit_ms = self._start_limit_ms(host)
        if host.launched:
            limit_ms = max(limit_ms, LOADING_STARTS * self.start_timeout_ms)
        if host.state is HostState.STARTING and now_ms - host.since_ms >= limit_ms:
            host.reason = f"its stage host did not start within {limit_ms / 1000:.0f} s"
            self._late = max(self._late, host.late_before + 1)
            moved = self.move(host, HostMove.LATE)
        elif host.state is HostState.UP and now_ms - host.heard_ms >= self._lease.ms(now_ms):
            host.reason = f"its stage host was silent for {(now_ms - host.heard_ms) / 1000:.0f} s"
            moved = self.move(host, HostMove.SILENT)
        elif host.state is HostState.UP and hangs:
            host.reason = "its stage host was ended, since a plan in it did not stop"
            moved = self.move(host, HostMove.HANGS)
        elif self._is_unused(host, idle_for_ms, wanted=wanted):
            moved = self.move(host, HostMove.IDLE)
        return [HostInstruction(HostAction.END_HOST, host.name)] if moved else []

    def _is_unused(self, host: Host, idle_for_ms: int, *, wanted: bool) -> bool:
        """Return whether the host is idle and is not kept as a standby."""
        if host.seats:
            return False
        if wanted and host.state is HostState.UP:
            return True
        is_kept = host.tenant in self.standby and self._open(host.tenant)[:1] == [host]
        return idle_for_ms >= IDLE_MS and not is_kept

    def _strike(self, blame: Blame, now_ms: int) -> None:
        """Blame a plan for the failure of one host at most once."""
        if blame.host.startswith(f"{self.prefix}-") and blame.host not in self._blamed:
            self._blamed.add(blame.host)
            self._strikes[blame.key] = [*self._strikes.get(blame.key, ()), now_ms][-STRIKES:]

    def move(self, host: Host, move: HostMove) -> bool:
        """Perform the transition if it is legal, and return whether it is. The caller handles a host that has ended."""
        if (host.state, move) not in HOST_TRANSITIONS:
            return False
        state = HOST_TRANSITIONS[host.state, move]
        if state is not None:
            host.state = state
        return True
