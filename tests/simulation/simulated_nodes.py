"""Two nodes, a database and a sender under virtual time: the real election and the real protection of the mirror.

Processes die and hang, the network is cut between the nodes or from the database, the database and disks are slow,
clocks run apart or stand still while a host is frozen, roles are switched.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass, field

import msgspec
from virtual_world import VirtualWorld

from cep_common.ids import Endpoint
from cep_manager.election.election import Election
from cep_manager.election.messages import (
    ClaimLease,
    ConfirmLease,
    ElectionTiming,
    Instruction,
    Lease,
    LeaseState,
    ManagerAddress,
    ProbeHolder,
    ReadLease,
    ReadPlans,
    Request,
)
from cep_worker.mirror.protection import Protection, Record, Release, State

PACE = ElectionTiming(heartbeat_ms=1_000, poll_ms=1_000, lease_ms=2_000, alone_ms=10_000)
LOOK_MS = 20
TIMEOUT_MS = 1_000
KINDS = ("kill", "worker", "hang", "freeze", "database", "slow", "disk", "cut", "both", "switch")
FAULTS = 8
FAULTS_UNTIL_MS, UNTIL_MS = 25_000, 50_000
"""The last fault may last for 12 s, and what is being written to a slow disk then for some more."""
QUIET_MS = 8_000
"""In the end, without faults for at least so long, some node has been active within this time."""


@dataclass
class Worker:
    """The worker of an active node: what it has accepted waits until it may be acknowledged."""

    token: int
    protection: Protection
    waiting: list[int] = field(default_factory=list)
    batch_ms: int | None = None
    """When the batch that is under way was collected."""
    answer_by_ms: int = 0
    session: int = 0
    copied: int = 0


@dataclass
class Node:
    """A host: `log` is on its disk. `until_ms` is what its manager has told of the lease, by the host's clock."""

    name: str
    rate: float
    offset_ms: int
    log: list[int] = field(default_factory=list)
    alive: bool = True
    hung_until_ms: int = 0
    no_database_until_ms: int = 0
    starts: int = 0
    token: int = 0
    until_ms: int = 0
    worker: Worker | None = None
    seen_token: int = 0
    """The newest token of a sender that the passive worker has seen."""
    session: int = 0
    peer_in_sync: bool = True
    """As the manager has read it last; it does not know at first."""
    records: bool = False
    in_sync_under: int = 0
    frozen_under: int = -1
    """The token that it held when its clock stood still last."""
    slow_disk_until_ms: int = 0
    writing_until_ms: int = 0
    """Its manager waits for the disk."""
    storing_until_ms: int = 0
    """Its worker does."""
    election: Election = field(init=False)

    def start(self) -> None:
        self.starts += 1
        self.election = Election(self.me(), PACE, of_two_nodes=True)
        self.alive, self.worker, self.token, self.until_ms, self.seen_token, self.session = True, None, 0, 0, 0, 0
        self.peer_in_sync, self.records, self.in_sync_under = True, False, 0
        self.frozen_under, self.writing_until_ms, self.storing_until_ms = -1, 0, 0

    def me(self) -> ManagerAddress:
        return ManagerAddress(f"{self.name}-{self.starts}", Endpoint(self.name, 8_904), f"http://{self.name}")

    def now_ms(self, true_ms: int) -> int:
        return self.offset_ms + int(true_ms * self.rate)


class TwoNodesWorld(VirtualWorld):
    """No two nodes are ever active; what was acknowledged is in the log of every node that the database calls in sync.

    Only a host that was frozen, its clock included, may think that it is active while another one is; it then
    acknowledges nothing that the other one lacks.
    """

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self.nodes = [Node("a", 1.045, self.chance.randrange(10**9)), Node("b", 0.955, self.chance.randrange(10**9))]
        self.lease = Lease(token=0, holder=None, beat=0, lease_ms=0, since_ms=0, changes=0)
        self.managers: dict[str, tuple[ManagerAddress, int]] = {}
        self.in_sync = {"a"}
        self.acknowledged: set[int] = set()
        self.takeovers = self.protected_ms = self.active_ms = 0
        self.cut_until_ms = self.slow_until_ms = 0
        self._events = itertools.count(1)
        self._sessions = itertools.count(1)
        for node in self.nodes:
            node.start()
            self.later(self.chance.choice((0, 100, 3_000)), lambda node=node: self._manage(node))
            self.later(5, lambda node=node: self._work(node))
        self.later(10, self._send_event)
        for _ in range(FAULTS):
            self.later(self.chance.randrange(FAULTS_UNTIL_MS), self._fault)

    def check(self) -> None:
        # After every step of a schedule: this is where most of its time goes.
        first, second = map(self._is_active, self.nodes)
        if first or second:
            self.active_ms = self.now_ms
        if first and second:
            sure = [node.name for node in self.nodes if node.frozen_under != node.token]
            self.require(len(sure) <= 1, "%s are active at once", [node.name for node in self.nodes])

    def finish(self) -> None:
        """Check what holds in the end."""
        for node in self.nodes:
            if node.name in self.in_sync:
                self.require(self.acknowledged <= set(node.log), "%s lacks acknowledged events", node.name)
        silent_ms = self.now_ms - self.active_ms
        self.require(silent_ms < QUIET_MS, "no node has been active for %d ms, though there are no faults", silent_ms)

    # ---- time and faults --------------------------------------------------------------------------------------------

    def _runs(self, node: Node) -> bool:
        return node.alive and self.now_ms >= node.hung_until_ms

    def _is_active(self, node: Node) -> bool:
        """Its ports are open, and its worker would acknowledge."""
        worker = node.worker
        return worker is not None and self._runs(node) and self._holds(node, worker)

    def _holds(self, node: Node, worker: Worker) -> bool:
        return node.token == worker.token and node.now_ms(self.now_ms) < node.until_ms

    def _other(self, node: Node) -> Node:
        return self.nodes[1 - self.nodes.index(node)]

    def _fault(self) -> None:
        node = self.chance.choice([one for one in self.nodes if self._is_active(one)] or self.nodes)
        if self.chance.random() < 0.3:
            node = self._other(node)
        length_ms, kind = self.chance.choice((300, 1_500, 4_000, 12_000)), self.chance.choice(KINDS)
        self.note("fault: %s of %s, %d ms", kind, node.name, length_ms)
        match kind:
            case "kill":
                node.alive = False
                self.later(length_ms, lambda: node.alive or self._restart(node))
            case "worker":
                node.worker, node.session = None, 0
            case "hang":
                node.hung_until_ms = max(node.hung_until_ms, self.now_ms + length_ms)
            case "freeze":  # a virtual machine that is paused: its clocks stand still, too
                node.hung_until_ms = max(node.hung_until_ms, self.now_ms + length_ms)
                node.offset_ms -= int(length_ms * node.rate)
                node.frozen_under = node.token
            case "disk":
                node.slow_disk_until_ms = self.now_ms + length_ms
            case "database":
                node.no_database_until_ms = self.now_ms + length_ms
            case "slow":
                self.slow_until_ms = self.now_ms + length_ms
            case "cut":
                self.cut_until_ms = self.now_ms + length_ms
            case "both":
                self.cut_until_ms = node.no_database_until_ms = self.now_ms + length_ms
            case "switch" if self._is_active(node) and node.worker and node.worker.protection.state is State.PROTECTED:
                self._switch(node)

    def _restart(self, node: Node) -> None:
        node.start()
        self._manage(node)
        self._work(node)

    def _switch(self, node: Node) -> None:
        """The worker ends first, then the manager gives the lease back; the node starts again as passive."""
        if self.lease.holder == node.me():
            self.lease = msgspec.structs.replace(self.lease, holder=None)
        node.alive = False
        self.later(500, lambda: node.alive or self._restart(node))

    def _disk_ms(self) -> int:
        return self.chance.choice((5, 100, 800, 2_500))

    # ---- managers and the database ----------------------------------------------------------------------------------

    def _manage(self, node: Node, life: int = 0) -> None:
        life = life or node.starts
        if not node.alive or life != node.starts:
            return
        blocked_until_ms = max(node.hung_until_ms, node.writing_until_ms)
        if self.now_ms < blocked_until_ms:
            self.later(blocked_until_ms - self.now_ms, lambda: self._manage(node, life))
            return
        now_ms = node.now_ms(self.now_ms)
        self._watch(node, now_ms)
        self._carry_out(node, node.election.tick(now_ms))
        self._write_role(node)
        wait_ms = max(1, min(LOOK_MS, node.election.wait_ms(now_ms)), node.writing_until_ms - self.now_ms)
        self.later(wait_ms, lambda: self._manage(node, life))

    def _write_role(self, node: Node) -> None:
        """Write role.json; a manager whose disk is slow waits for it."""
        token, until_ms = node.election.tenure(node.now_ms(self.now_ms))
        if self.now_ms >= node.slow_disk_until_ms:
            node.token, node.until_ms = token, until_ms
            return
        life, took_ms = node.starts, max(0, node.writing_until_ms - self.now_ms) + self._disk_ms()

        def written() -> None:
            if node.alive and node.starts == life:
                node.token, node.until_ms = token, until_ms

        node.writing_until_ms = self.now_ms + took_ms
        self.later(took_ms, written)

    def _watch(self, node: Node, now_ms: int) -> None:
        """What the agent of the node does: it reads now and then, and a passive one looks at the active one."""
        other = self._other(node)
        if self.now_ms >= node.no_database_until_ms and self.chance.random() < 0.05:
            node.peer_in_sync = other.name in self.in_sync
            if not node.token and self.lease.holder is None and node.name in self.in_sync:
                self._carry_out(node, node.election.claim_free(self.lease.token, self.lease.beat, now_ms))
        if not node.token and not other.alive and self.now_ms >= self.cut_until_ms and self.chance.random() < 0.2:
            self._carry_out(node, node.election.peer_gone(now_ms))
        may_claim = node.records or node.peer_in_sync
        node.election.contested = node.in_sync_under == node.election.token and may_claim

    def _carry_out(self, node: Node, instructions: list[Instruction]) -> None:
        life = node.starts
        for instruction in instructions:
            match instruction:
                case ConfirmLease():  # the database learns of a shorter lease behind the processes of the node
                    self._write_role(node)
                    after_ms = max(0, node.writing_until_ms - self.now_ms)
                    self.later(after_ms, lambda instruction=instruction: self._ask(node, life, instruction))
                case ReadLease() | ClaimLease():
                    self._ask(node, life, instruction)
                case ReadPlans(token, changes):
                    self.later(20, lambda token=token, changes=changes: self._report(
                        node, life, lambda now_ms: node.election.prepared(token, changes, now_ms)
                    ))  # fmt: skip
                case ProbeHolder(token, beat, control):
                    holder = next(one for one in self.nodes if one.name == control.host)
                    if not holder.alive:  # the guard port is closed when no process of the node is left
                        self.later(1, lambda token=token, beat=beat: self._report(
                            node, life, lambda now_ms: node.election.holder_gone(token, beat, now_ms)
                        ))  # fmt: skip

    def _delay_ms(self) -> int:
        return self.chance.choice((1, 5, 40, 400, 1_200)) if self.chance.random() < 0.1 else 2

    def _ask(self, node: Node, life: int, request: Request) -> None:
        def arrive() -> None:
            if self.now_ms < node.no_database_until_ms:
                self.later(500, lambda: self._report(node, life, lambda now_ms: node.election.failed("cut", now_ms)))
                return
            seen = self._database(node, request)
            self.later(
                self._delay_ms() + self._slow_ms(),
                lambda: self._report(node, life, lambda now_ms: node.election.heard(seen, now_ms)),
            )

        self.later(self._delay_ms() + self._slow_ms(), arrive)

    def _slow_ms(self) -> int:
        return self.chance.randrange(2_000) if self.now_ms < self.slow_until_ms else 0

    def _database(self, node: Node, request: Request) -> LeaseState:
        me, lease, done, barred = node.me(), self.lease, True, ""
        match request:
            case ClaimLease() if node.name not in self.in_sync:
                done, barred = False, "behind"
            case ClaimLease(token, beat, lease_ms) if (lease.token, lease.beat) == (token, beat):
                self.lease = Lease(token + 1, me, 0, lease_ms, self.now_ms, lease.changes)
                self.in_sync = {node.name}
                self.takeovers += 1
                self.require(self.acknowledged <= set(node.log), "%s takes over without acknowledged events", node.name)
            case ConfirmLease(token, lease_ms) if lease.token == token and lease.holder == me:
                self.lease = msgspec.structs.replace(lease, beat=lease.beat + 1, lease_ms=lease_ms)
            case _:
                done = False
        self.note("database: %s from %s: done=%s token=%d beat=%d", request, me.instance, done, self.lease.token,
                  self.lease.beat)  # fmt: skip
        _, beats = self.managers.get(node.name, (me, 0))
        self.managers[node.name] = (me, beats + 1)
        return LeaseState(self.lease, done, tuple(self.managers.values()), barred=barred)

    def _report(self, node: Node, life: int, report: Callable[[int], list[Instruction]]) -> None:
        if not node.alive or node.starts != life:
            return
        blocked_until_ms = max(node.hung_until_ms, node.writing_until_ms)
        if self.now_ms < blocked_until_ms:
            self.later(blocked_until_ms - self.now_ms, lambda: self._report(node, life, report))
            return
        now_ms = node.now_ms(self.now_ms)
        self._carry_out(node, node.election.tick(now_ms))
        self._carry_out(node, report(now_ms))
        self._write_role(node)

    # ---- workers ----------------------------------------------------------------------------------------------------

    def _work(self, node: Node, life: int = 0) -> None:
        life = life or node.starts
        if not node.alive or life != node.starts:
            return
        if not self._runs(node):
            self.later(node.hung_until_ms - self.now_ms, lambda: self._work(node, life))
            return
        now_ms = node.now_ms(self.now_ms)
        worker = node.worker
        if worker is not None and not self._holds(node, worker):
            node.worker = worker = None  # it ends by itself
        if worker is None and node.token and now_ms < node.until_ms:
            worker = node.worker = Worker(node.token, Protection(now_ms))
            node.session = 0  # an active node has no receiver, and the next one knows no session
            self._do(node, worker, worker.protection.begin(now_ms))
        if worker is not None:
            self._mirror(node, worker, now_ms)
            if worker.protection.state is State.PROTECTED:
                self.protected_ms += LOOK_MS
        # A passive worker only waits for its role.
        pause_ms = 1 if worker is not None and self.chance.random() < 0.5 else LOOK_MS
        self.later(pause_ms, lambda: self._work(node, life))

    def _mirror(self, node: Node, worker: Worker, now_ms: int) -> None:
        protection = worker.protection
        if protection.state is State.ALONE:
            if now_ms > worker.answer_by_ms:
                self._begin_session(node, worker, now_ms)
        elif protection.state is not State.LEAVING:
            if worker.batch_ms is None:
                self._send_batch(node, worker, now_ms)
            elif now_ms > worker.answer_by_ms:
                self._do(node, worker, protection.lost("silent", now_ms))

    def _begin_session(self, node: Node, worker: Worker, now_ms: int) -> None:
        session = worker.session = next(self._sessions)
        worker.batch_ms, worker.copied, worker.answer_by_ms = None, 0, now_ms + TIMEOUT_MS

        def opened(now: int) -> list[Record | Release]:
            return worker.protection.linked(now) if worker.session == session else []

        self._exchange(node, worker, lambda other: self._open(other, worker.token, session), opened)

    def _open(self, other: Node, token: int, session: int) -> bool:
        """Begin the session that the message names: it may come when the worker has begun another one."""
        if other.worker is not None or token < other.seen_token:
            return False
        other.seen_token, other.session = token, session
        return True

    def _send_batch(self, node: Node, worker: Worker, now_ms: int) -> None:
        worker.batch_ms, worker.answer_by_ms = now_ms, now_ms + TIMEOUT_MS
        session, everything = worker.session, list(node.log)
        upto = max(worker.copied, len(everything) - self.chance.choice((0, 0, 0, 5)))
        complete, began_ms = upto == len(everything), now_ms

        def apply(other: Node) -> bool:
            if other.worker is not None or other.session != session or worker.token < other.seen_token:
                return False
            other.log = everything[:upto]
            return True

        def applied(now: int) -> list[Record | Release]:
            if worker.session != session:
                return []
            worker.batch_ms, worker.copied = None, upto
            if not complete:
                return []
            done = set(everything)
            self._acknowledge(node, worker, [event for event in worker.waiting if event in done])
            return [*worker.protection.applied(began_ms, now), *worker.protection.caught_up(now)]

        self._exchange(node, worker, apply, applied)

    def _exchange(
        self, node: Node, worker: Worker, there: Callable[[Node], bool], back: Callable[[int], list[Record | Release]]
    ) -> None:
        """A message to the other node and its answer; what is cut, or finds no process, has no answer."""

        def answer() -> None:
            if self.now_ms < self.cut_until_ms or not node.alive or node.worker is not worker:
                return
            if not self._runs(node):
                self.later(node.hung_until_ms - self.now_ms, answer)
                return
            if self._holds(node, worker):
                self._do(node, worker, back(node.now_ms(self.now_ms)))

        self.later(self._delay_ms(), lambda: self._arrive(self._other(node), there, answer))

    def _arrive(self, node: Node, there: Callable[[Node], bool], answer: Callable[[], None]) -> None:
        """A message is at `node`; the socket keeps it while the process hangs, or stores what came before."""
        if self.now_ms < self.cut_until_ms or not node.alive:
            return
        blocked_until_ms = max(node.hung_until_ms, node.storing_until_ms)
        if self.now_ms < blocked_until_ms:
            self.later(blocked_until_ms - self.now_ms, lambda: self._arrive(node, there, answer))
            return
        took_ms, life = self._disk_ms() if self.now_ms < node.slow_disk_until_ms else 0, node.starts
        node.storing_until_ms = self.now_ms + took_ms

        def stored() -> None:
            if not node.alive or node.starts != life:
                return
            if not self._runs(node):
                self.later(node.hung_until_ms - self.now_ms, stored)
            elif there(node):
                self.later(self._delay_ms(), answer)

        self.later(took_ms, stored)

    def _do(self, node: Node, worker: Worker, instructions: list[Record | Release]) -> None:
        for instruction in instructions:
            match instruction:
                case Record(number, False) if node.in_sync_under != worker.token:  # the claim has recorded it
                    self.later(1, lambda number=number: self._recorded(node, worker, number))
                case Record(number, in_sync):
                    node.records, node.in_sync_under = True, worker.token
                    self.later(self._delay_ms(), lambda number=number, in_sync=in_sync: self._record(
                        node, worker, number, in_sync
                    ))  # fmt: skip
                case Release():
                    self._acknowledge(node, worker, list(worker.waiting))

    def _record(self, node: Node, worker: Worker, number: int, in_sync: bool) -> None:
        """The manager records the newest request of its worker, if it still leads, and asks again when it cannot."""
        if not node.alive or node.worker is not worker or worker.protection.number != number:
            return
        if not self._runs(node) or self.now_ms < node.no_database_until_ms:
            self.later(100, lambda: self._record(node, worker, number, in_sync))
            return
        if self.lease.token != worker.token or self.lease.holder != node.me():
            return
        self.in_sync = {node.name, self._other(node).name} if in_sync else {node.name}
        self.note("database: %s is in sync by %s", sorted(self.in_sync), node.name)
        node.peer_in_sync, node.records = in_sync, False
        self._recorded(node, worker, number)

    def _recorded(self, node: Node, worker: Worker, number: int) -> None:
        if node.alive and not self._runs(node):
            self.later(node.hung_until_ms - self.now_ms, lambda: self._recorded(node, worker, number))
        elif node.alive and node.worker is worker and self._holds(node, worker):
            self._do(node, worker, worker.protection.recorded(number, node.now_ms(self.now_ms)))

    def _acknowledge(self, node: Node, worker: Worker, events: list[int]) -> None:
        if node.frozen_under != worker.token:
            self.require(self.lease.token == worker.token, "%s acknowledges under a lease that was taken", node.name)
        for other in self.nodes:
            if other.name in self.in_sync:
                self.require(set(events) <= set(other.log), "%s lacks what %s acknowledges", other.name, node.name)
        self.note("%s acknowledges %s, %s", node.name, events, worker.protection.state)
        self.acknowledged.update(events)
        worker.waiting = [event for event in worker.waiting if event not in self.acknowledged]

    def _send_event(self) -> None:
        """The sender tries the nodes whose ports are open."""
        for node in self.nodes:
            worker = node.worker
            if self._is_active(node) and worker is not None:
                after_ms = self._disk_ms() if self.now_ms < node.slow_disk_until_ms else 0
                self.later(after_ms, lambda node=node, worker=worker: self._store(node, worker, next(self._events)))
        self.later(self.chance.choice((5, 30, 200)), self._send_event)

    def _store(self, node: Node, worker: Worker, event: int) -> None:
        """The worker has an event in its log; it may have ended since it took it."""
        if node.worker is not worker or not self._runs(node) or not self._holds(node, worker):
            return
        node.log.append(event)
        if worker.protection.waits:
            worker.waiting.append(event)
        else:
            self._acknowledge(node, worker, [event])


def simulate(world: VirtualWorld) -> None:
    """Faults, and a while without: some node is active in the end."""
    assert isinstance(world, TwoNodesWorld)
    world.run(UNTIL_MS)
    world.finish()
