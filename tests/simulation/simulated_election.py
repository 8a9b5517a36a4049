"""Managers, their database and a driver: elections while messages are late or lost, and processes die, hang and return.

The decisions are the real ones (`cep_manager.election`, `topology.driver.fencing`); the database and what lies
between it and the managers are made up.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import msgspec
from virtual_world import VirtualWorld

from cep_common.ids import Endpoint
from cep_manager.election.election import Election, ElectionRole
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
from topology.driver.fencing import OrderFence

PACE = ElectionTiming(heartbeat_ms=1_000, poll_ms=1_000, lease_ms=2_000, alone_ms=6_000)
NOBODY = Lease(token=0, holder=None, beat=0, lease_ms=0, since_ms=0, changes=0)
UNTIL_MS = 24_000
FAULTS_UNTIL_MS = 14_000
LEADERLESS_MS = 9_000
"""A manager that led alone is waited for as long as its lease lasts."""
RATES = (1.0, 1.045, 0.955)
"""The margin of a tenth is shared by the fastest clock and the slowest."""


@dataclass(slots=True)
class Node:
    """A manager's host: its clock runs `rate` times as fast as the true one, from `offset_ms`."""

    name: str
    rate: float
    offset_ms: int
    election: Election = field(init=False)
    me: ManagerAddress = field(init=False)
    alive: bool = True
    hung_until_ms: int = 0
    cut_until_ms: int = 0
    starts: int = 0

    def start(self) -> None:
        """Another process runs, which knows nothing."""
        self.starts += 1
        self.me = ManagerAddress(f"{self.name}-{self.starts}", Endpoint(f"host-{self.name}", 8_904), "")
        self.election = Election(self.me, PACE)
        self.alive, self.hung_until_ms = True, 0

    def now_ms(self, true_ms: int) -> int:
        """What its clock shows."""
        return self.offset_ms + int(true_ms * self.rate)


class ElectionWorld(VirtualWorld):
    """Two or three managers. At most one of them may act; whatever one does that has led before is refused."""

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self.nodes = [
            Node("abc"[number], RATES[number], self.chance.randrange(10**9)) for number in range(2 + seed % 2)
        ]
        self.lease = NOBODY
        self.driver = OrderFence()
        self.highest_order = 0
        self.led: dict[int, str] = {}
        self.signed_in: dict[Endpoint, tuple[ManagerAddress, int]] = {}
        self.acted_ms = 0
        for node in self.nodes:
            node.start()
            late_ms = 5_000 if self.chance.random() < 0.2 else 200
            self.later(self.chance.randrange(late_ms), lambda node=node: self._turn(node, node.starts))
        for _ in range(self.chance.randrange(1, 7)):
            self.later(self.chance.randrange(FAULTS_UNTIL_MS), self._fault)

    def check(self) -> None:
        acting = [node for node in self.nodes if self._acts(node)]
        if not acting:
            return
        self.require(len(acting) == 1, "%s act at once", [node.me.instance for node in acting])
        node = acting[0]
        self.acted_ms = self.now_ms
        token = node.election.token
        self.require(
            self.led.setdefault(token, node.me.instance) == node.me.instance, "token %d has two leaders", token
        )
        held = (self.lease.token, self.lease.holder) == (token, node.me)
        self.require(held, "%s acts under token %d, the lease is %s", node.me.instance, token, self.lease)

    def _acts(self, node: Node) -> bool:
        election = node.election
        if election.role is not ElectionRole.LEADING or not node.alive or self.now_ms < node.hung_until_ms:
            return False
        return election.leads(node.now_ms(self.now_ms))

    # ---- a manager's process ----------------------------------------------------------------------------------------

    def _turn(self, node: Node, life: int) -> None:
        """The control loop turns; one that hung does so late."""
        if not node.alive or node.starts != life:
            return
        if self.now_ms < node.hung_until_ms:
            self.later(node.hung_until_ms - self.now_ms, lambda: self._turn(node, life))
            return
        now_ms = node.now_ms(self.now_ms)
        self._carry_out(node, node.election.tick(now_ms))
        if self._acts(node) and self.chance.random() < 0.4:
            self._act(node, node.election.token)
        self.later(max(1, min(400, node.election.wait_ms(now_ms))), lambda: self._turn(node, life))

    def _act(self, node: Node, token: int) -> None:
        """A leader writes a plan and gives the driver an order; both take their time on the way."""
        self.later(self.chance.choice((1, 5, 50, 3_000)), lambda: self._order_arrives(token))
        self.later(self.chance.choice((1, 5, 50, 3_000)), lambda: self._write_arrives(node, token))

    def _order_arrives(self, token: int) -> None:
        self.require(token <= self.lease.token, "an order has token %d before there is such a lease", token)
        if self.driver.admits(token):
            self.require(token >= self.highest_order, "the driver follows token %d after a later one", token)
            self.highest_order = token

    def _write_arrives(self, node: Node, token: int) -> None:
        if token == self.lease.token and self.lease.holder is not None:
            self.lease = msgspec.structs.replace(self.lease, changes=self.lease.changes + 1)
        elif node.alive and self.now_ms >= node.hung_until_ms:
            self._carry_out(node, node.election.refused(token, "another manager has led since"))

    def _carry_out(self, node: Node, instructions: list[Instruction]) -> None:
        life = node.starts
        for instruction in instructions:
            if isinstance(instruction, ReadLease | ClaimLease | ConfirmLease):
                self._send(node, life, instruction)
            elif isinstance(instruction, ReadPlans):
                self._report_later(self.chance.choice((1, 20, 400)), node, life, _prepared(node, instruction))
            elif isinstance(instruction, ProbeHolder):
                self._probe(node, life, instruction)
            else:
                self.note("%s: %s", node.me.instance, instruction)

    def _probe(self, node: Node, life: int, probe: ProbeHolder) -> None:
        """A connection is refused where no process listens; one that hangs or is cut off refuses nothing."""
        probed = next(one for one in self.nodes if one.me.control == probe.control)
        if not probed.alive and self.now_ms >= probed.cut_until_ms:
            self._report_later(1, node, life, lambda now_ms: node.election.holder_gone(probe.token, probe.beat, now_ms))

    def _report_later(self, after_ms: int, node: Node, life: int, report: Callable[[int], list[Instruction]]) -> None:
        self.later(after_ms, lambda: self._report(node, life, report))

    def _report(self, node: Node, life: int, report: Callable[[int], list[Instruction]]) -> None:
        if not node.alive or node.starts != life:
            return
        if self.now_ms < node.hung_until_ms:
            self._report_later(node.hung_until_ms - self.now_ms, node, life, report)
            return
        now_ms = node.now_ms(self.now_ms)
        self._carry_out(node, node.election.tick(now_ms))
        self._carry_out(node, report(now_ms))

    # ---- the database, and the way to it ----------------------------------------------------------------------------

    def _send(self, node: Node, life: int, request: Request) -> None:
        there_ms = self.chance.choice((1, 2, 5, 40, 700, 1_500)) if self.chance.random() < 0.2 else 2
        self.later(there_ms, lambda: self._arrive(node, life, request))

    def _arrive(self, node: Node, life: int, request: Request) -> None:
        if self.now_ms < node.cut_until_ms:
            self._report_later(self.chance.choice((50, 2_500)), node, life, _failed(node, "cut off"))
            return
        seen = self._database(node, request)
        self.note(
            "database: %s from %s, token=%d beat=%d", request, node.me.instance, seen.lease.token, seen.lease.beat
        )
        if self.chance.random() < 0.02:  # it was done, and the answer never comes
            self._report_later(1_000, node, life, _failed(node, "no answer"))
        else:
            back_ms = self.chance.choice((1, 2, 5, 900)) if self.chance.random() < 0.1 else 1
            self._report_later(back_ms, node, life, lambda now_ms: node.election.heard(seen, now_ms))

    def _database(self, node: Node, request: Request) -> LeaseState:
        lease, done = self.lease, True
        match request:
            case ClaimLease(token, beat, lease_ms) if (lease.token, lease.beat) == (token, beat):
                self.lease = Lease(token + 1, node.me, 0, lease_ms, self.now_ms, lease.changes)
            case ConfirmLease(token, lease_ms) if lease.token == token and lease.holder == node.me:
                self.lease = msgspec.structs.replace(lease, beat=lease.beat + 1, lease_ms=lease_ms)
            case _:
                done = False
        before, beat = self.signed_in.get(node.me.control, (node.me, -1))
        self.signed_in[node.me.control] = (node.me, beat + 1)
        namesake = before.instance if before != node.me else ""
        return LeaseState(
            self.lease, done, tuple(self.signed_in[control] for control in sorted(self.signed_in)), namesake
        )

    # ---- faults -----------------------------------------------------------------------------------------------------

    def _fault(self) -> None:
        node = self.chance.choice([one for one in self.nodes if self._acts(one)] or self.nodes)
        kind = self.chance.choice(("kill", "hang", "cut", "return"))
        self.note("fault: %s %s", kind, node.me.instance)
        match kind:
            case "kill":
                node.alive = False
                self.later(self.chance.choice((200, 5_000)), lambda: self._restart(node))
            case "hang":
                node.hung_until_ms = self.now_ms + self.chance.choice((500, 1_700, 6_000))
            case "cut":
                node.cut_until_ms = self.now_ms + self.chance.choice((500, 1_700, 6_000))
            case "return" if self.lease.holder == node.me:  # it leaves in order
                node.alive = False
                self.lease = msgspec.structs.replace(self.lease, holder=None)
                self.later(self.chance.choice((200, 5_000)), lambda: self._restart(node))

    def _restart(self, node: Node) -> None:
        if not node.alive:
            node.start()
            self._turn(node, node.starts)


def simulate(world: VirtualWorld) -> None:
    """Elections under faults, and a while without: somebody leads in the end."""
    assert isinstance(world, ElectionWorld)
    world.run(UNTIL_MS)
    silence_ms = world.now_ms - world.acted_ms
    world.require(
        silence_ms < LEADERLESS_MS, "nobody has led for %d ms, though there are no faults any more", silence_ms
    )


def _prepared(node: Node, read: ReadPlans) -> Callable[[int], list[Instruction]]:
    return lambda now_ms: node.election.prepared(read.token, read.changes, now_ms)


def _failed(node: Node, reason: str) -> Callable[[int], list[Instruction]]:
    return lambda now_ms: node.election.failed(reason, now_ms)
