"""The registry under late, lost, repeated and overtaking registrations, while endpoints die, move and fall silent.

The registry is the real one; receivers, workers and the links between them are made up. What is assigned is compared
with what has really reached the registry, told by an account of its own.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from virtual_world import VirtualWorld

from cep_common.ids import Endpoint, PlanKey
from cep_common.protocol.registry import EndpointAssigned, RegisterEndpoint, RequestEndpoint
from cep_manager.control.registry import EndpointRegistry

KEY = PlanKey(-1234, "Storms")
HEARTBEAT_MS, LEASE_MS = 1_000, 3_000
FAULTS_UNTIL_MS, UNTIL_MS = 12_000, 22_000
HOSTS = ("near", "far", "farther")


@dataclass(slots=True)
class Receiver:
    """A receiver instance: its process, and the links that really stand at it."""

    instance: str
    endpoint: Endpoint
    epoch: int
    alive: bool = True
    silent_until_ms: int = 0
    links: set[str] = field(default_factory=set)


@dataclass(slots=True)
class Worker:
    """A worker: the receiver that it is linked to, by instance."""

    name: str
    host: str
    linked: Receiver | None = None
    former: str = ""


@dataclass(slots=True)
class Heard:
    """What the registry was told of an instance: when, where it is, its links, and to whom it was given since."""

    at_ms: int
    endpoint: Endpoint
    connections: tuple[str, ...]
    given: dict[str, int] = field(default_factory=dict)

    def count(self, now_ms: int) -> int:
        """Links that stand or are about to."""
        expected = {name for name, given_ms in self.given.items() if now_ms - given_ms < LEASE_MS}
        return len(expected.union(self.connections))


class AssignmentWorld(VirtualWorld):
    """Some receivers of one plan on three hosts, workers that want one each, and a registry."""

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        chance = self.chance
        self.registry = EndpointRegistry(HEARTBEAT_MS, LEASE_MS)
        self.epoch = 1
        self.heard: dict[tuple[int, str], Heard] = {}
        self.receivers = [self._receiver(number) for number in range(chance.randrange(1, 5))]
        self.workers = [Worker(f"worker-{number}", chance.choice(HOSTS)) for number in range(chance.randrange(1, 5))]
        for receiver in self.receivers:
            self.later(chance.randrange(500), lambda receiver=receiver: self._beat(receiver))
        for worker in self.workers:
            self.later(chance.randrange(2_000), lambda worker=worker: self._look(worker))
        for _ in range(chance.randrange(1, 8)):
            self.later(chance.randrange(FAULTS_UNTIL_MS), self._fault)
        self.later(500, self._tick)

    def _receiver(self, number: int, epoch: int = 1) -> Receiver:
        host = self.chance.choice(HOSTS)
        return Receiver(f"EventReceiver#{number}", Endpoint(host, 15_000 + self.chance.randrange(4)), epoch)

    def _tick(self) -> None:
        self.registry.expire(self.now_ms)
        known = {(record.epoch, record.instance): record for record in self.registry.records()}
        for identity, record in known.items():
            heard = self.heard[identity]
            count = record.live_connections(self.now_ms, LEASE_MS)
            expected = heard.count(self.now_ms)
            self.require(count == expected, "%s counts %d links, %d were told or promised", identity, count, expected)
            self.require(self.now_ms - heard.at_ms < 4 * LEASE_MS, "%s is kept though it is gone", identity)
        at = [record.endpoint for record in known.values()]
        self.require(len(at) == len(set(at)), "two instances have one endpoint: %s", known)
        self.later(500, self._tick)

    # ---- receivers --------------------------------------------------------------------------------------------------

    def _beat(self, receiver: Receiver) -> None:
        if not receiver.alive:
            return
        if self.now_ms >= receiver.silent_until_ms:
            message = RegisterEndpoint(
                "receiver", KEY, receiver.epoch, receiver.instance, receiver.endpoint, tuple(sorted(receiver.links))
            )
            chance = self.chance.random() if self.now_ms < FAULTS_UNTIL_MS else 1.0
            if chance > 0.1:
                self.later(self._delay_ms(), lambda: self._register(message))
            if chance < 0.2:  # asked again, since no answer came
                self.later(self._delay_ms() + 100, lambda: self._register(message))
        self.later(HEARTBEAT_MS, lambda: self._beat(receiver))

    def _delay_ms(self) -> int:
        slow = self.now_ms < FAULTS_UNTIL_MS and self.chance.random() < 0.1
        return self.chance.choice((400, 1_500, 4_000)) if slow else self.chance.randrange(5)

    def _register(self, message: RegisterEndpoint) -> None:
        if message.epoch != self.epoch:
            return  # the control plane refuses it
        self.registry.register(message, self.now_ms)
        self.note("registered %s at %s with %s", message.instance, message.endpoint, message.connections)
        identity = (message.epoch, message.instance)
        before = self.heard.get(identity)
        same = before is not None and before.endpoint == message.endpoint
        for other in [other for other, heard in self.heard.items() if heard.endpoint == message.endpoint and not same]:
            del self.heard[other]
        given = before.given if before is not None and same else {}
        self.heard[identity] = Heard(self.now_ms, message.endpoint, message.connections, given)

    # ---- workers ----------------------------------------------------------------------------------------------------

    def _look(self, worker: Worker) -> None:
        receiver = worker.linked
        if receiver is not None and (not receiver.alive or receiver.epoch != self.epoch):
            receiver.links.discard(f"{worker.name}/In")
            worker.former = receiver.instance if receiver.epoch == self.epoch else ""
            worker.linked = None
        if worker.linked is None:
            self._ask(worker)
        self.later(self.chance.randrange(300, 1_200), lambda: self._look(worker))

    def _ask(self, worker: Worker) -> None:
        request = RequestEndpoint("receiver", KEY, self.epoch, worker.name, worker.host, "In", former=worker.former)
        for heard in self.heard.values():
            heard.given.pop(f"{worker.name}/In", None)
        answer, _ = self.registry.assign(request, self.now_ms)
        healthy = {
            instance: heard
            for (epoch, instance), heard in self.heard.items()
            if epoch == self.epoch and self.now_ms - heard.at_ms < LEASE_MS
        }
        if not isinstance(answer, EndpointAssigned):
            self.require(not healthy, "%s is given nothing, though there are %s", worker.name, sorted(healthy))
            return
        self.note("%s on %s is given %s", worker.name, worker.host, answer)
        self.require(answer.instance in healthy, "%s is given %s, which is silent", worker.name, answer.instance)
        self._check_choice(worker, healthy, answer)
        healthy[answer.instance].given[f"{worker.name}/In"] = self.now_ms
        self.later(self.chance.randrange(1, 300), lambda: self._connect(worker, answer))

    def _check_choice(self, worker: Worker, healthy: dict[str, Heard], answer: EndpointAssigned) -> None:
        chosen = healthy[answer.instance]
        self.require(chosen.endpoint == answer.endpoint, "%s is at %s, not at %s", answer.instance, chosen, answer)
        if worker.former in healthy:
            self.require(answer.instance == worker.former, "%s had %s, which is there", worker.name, worker.former)
            return
        near = [heard for heard in healthy.values() if heard.endpoint.host == worker.host]
        self.require(not near or chosen in near, "%s is sent away, though there are %s", worker.name, near)
        least = min(heard.count(self.now_ms) for heard in near or healthy.values())
        found = chosen.count(self.now_ms)
        self.require(found == least, "%s is given one with %d links, another has %d", worker.name, found, least)

    def _connect(self, worker: Worker, assigned: EndpointAssigned) -> None:
        """The link comes to stand, if who was assigned is still there."""
        for receiver in self.receivers:
            at_place = receiver.alive and receiver.endpoint == assigned.endpoint and receiver.epoch == self.epoch
            if at_place and worker.linked is None:
                worker.linked = receiver
                receiver.links.add(f"{worker.name}/In")

    # ---- faults -----------------------------------------------------------------------------------------------------

    def _fault(self) -> None:
        kind = self.chance.choice(("kill", "kill", "silent", "leave", "epoch", "manager"))
        receiver = self.chance.choice(self.receivers)
        self.note("fault: %s %s", kind, receiver.instance)
        match kind:
            case "kill":  # another process takes the instance's place, perhaps at an address that was another's
                receiver.alive = False
                number = int(receiver.instance.rpartition("#")[2])
                self.later(self.chance.choice((100, 2_000, 5_000)), lambda: self._replace(number))
            case "silent":
                receiver.silent_until_ms = self.now_ms + self.chance.choice((1_500, 4_000, 9_000))
            case "leave":
                worker = self.chance.choice(self.workers)
                if worker.linked is not None:
                    worker.linked.links.discard(f"{worker.name}/In")
                    worker.former, worker.linked = worker.linked.instance, None
            case "epoch":
                self.epoch += 1
                self.registry.keep_epochs(KEY, (self.epoch,))
                self.heard = {identity: heard for identity, heard in self.heard.items() if identity[0] == self.epoch}
                for old in self.receivers:
                    old.alive = False
                for number in range(len(self.receivers)):
                    self._replace(number)
            case "manager":
                self.registry = EndpointRegistry(HEARTBEAT_MS, LEASE_MS)
                self.heard = {}

    def _replace(self, number: int) -> None:
        """There is one process for each instance, and one listener at each address."""
        new = self._receiver(number, self.epoch)
        taken = {one.endpoint for one in self.receivers if one.alive}
        if self.receivers[number].alive or new.endpoint in taken:
            return
        self.receivers[number] = new
        self._beat(new)


def simulate(world: VirtualWorld) -> None:
    """Assignments under faults, and a while without: then every worker has a receiver that counts it."""
    assert isinstance(world, AssignmentWorld)
    world.run(UNTIL_MS)
    for receiver in (one for one in world.receivers if one.alive):
        counted = world.heard.get((receiver.epoch, receiver.instance))
        if counted is not None and world.now_ms - counted.at_ms < LEASE_MS:
            found = set(counted.connections)
            world.require(
                found == receiver.links, "%s counts %s, its links are %s", receiver.instance, found, receiver.links
            )
    if any(one.alive for one in world.receivers):
        lonely = [worker.name for worker in world.workers if worker.linked is None]
        world.require(not lonely, "%s have no receiver in the end", lonely)
