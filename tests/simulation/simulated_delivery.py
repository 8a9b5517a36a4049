"""The delivery of events end to end while everything dies, hangs and is cut off: from acceptance to the sinks.

Real are the worker's flow (logs, links, held results), the tasks (loop, links, alignment, checkpoints), the driver's
lifecycle, coordinator and archive, and the manager's control plane. Made up are ZeroMQ, the place of checkpoints,
Spark's jobs, the engine, the sinks, and time.
"""

from __future__ import annotations

import json
import random
import shutil
import tempfile
from collections import Counter
from collections.abc import Callable
from contextlib import ExitStack
from functools import lru_cache
from pathlib import Path
from typing import Any
from unittest import mock

from fake_network import Network
from simulated_driver import MemoryBlobs, SimulatedDriver, SimulatedJob
from simulated_processes import Process
from simulated_task import SEEN, SimulatedTask
from simulated_worker import LateSync, SimulatedWorker, Sink
from virtual_world import VirtualWorld

from cep_common.ids import PlanKey
from cep_common.protocol.registry import Message
from cep_manager.authoring.compiler import compile_plan
from cep_manager.config import QuotasConfig
from cep_manager.control.control_plane import ControlPlane
from cep_manager.control.instructions import PushToDriver, RaiseEpoch
from cep_manager.plans.compiled_plan import CompiledPlan
from cep_manager.plans.record import PlanToRun
from cep_manager.plans.stored_plan import StoredPlan
from query_plan.model import QueryPlan
from siddhi.scripts.language import ScriptPolicy
from topology.checkpoint.coordination.runs import RunId
from topology.checkpoint.model import Manifest, stages_of, unseal
from topology.checkpoint.storage.store import CheckpointStore
from topology.links.positions import Positions
from topology.stages.kinds.receiver import POSITIONS

KEY = PlanKey(-1234, "Numbers")
HEARTBEAT_MS, LEASE_MS = 700, 2_100
FAULTS_UNTIL_MS, SETTLED_BY_MS = 7_000, 60_000
PLAN = """@Plan:name('Numbers') @Plan:delivery('{delivery}')
@Plan:dist(receiverParallelism='{receivers}', publisherParallelism='{publishers}')
@Import('In:1.0.0') define stream In (number long);
@Export('Out:1.0.0') define stream Out (number long);
{queries}
"""
DIRECT = "@info(name='all') @dist(execGroup='all') from In#window.length(2) select number insert into Out;"
SPREAD = """@info(name='some') @dist(execGroup='some', parallel='2') from In select number insert into Some;
@info(name='all') @dist(execGroup='all') from Some#window.length(2) select number insert into Out;"""


MADE_UP: dict[str, Any] = {
    "cep_worker.outflows.transactional_log.store.FileSync": LateSync,
    "cep_worker.inflows.wal.segment.RESERVED_BYTES": 4_096,
    "topology.checkpoint.coordination.archive.stages_of": lru_cache(stages_of),
    "query_plan.model.QueryPlan.links": lru_cache(QueryPlan.links),
}
"""What is replaced while a world lasts: threads by virtual time, and what is dear by its answer of last time."""


@lru_cache
def compiled(delivery: str, receivers: int, publishers: int, spread: bool) -> CompiledPlan:
    """The plan in one of its shapes."""
    queries = SPREAD if spread else DIRECT
    text = PLAN.format(delivery=delivery, receivers=receivers, publishers=publishers, queries=queries)
    return compile_plan(text, ScriptPolicy())


class DeliveryWorld(VirtualWorld):
    """A manager, a driver with one topology, two workers, and sinks."""

    feeding: tuple[str, ...] = ("w0", "w1")
    """The workers that accept events."""
    settled_by_ms = SETTLED_BY_MS
    """Everything has arrived by then."""

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self._made_up = ExitStack()
        try:
            for what, instead in MADE_UP.items():
                self._made_up.enter_context(mock.patch(what, instead))
            self._begin(seed)
        except BaseException:
            self._made_up.close()
            raise

    def _begin(self, seed: int) -> None:
        random.seed(seed)  # ports are searched from a random one on
        chance = self.chance
        self.exactly_once = chance.random() < 0.6
        delivery = "exactly-once" if self.exactly_once else "at-least-once"
        self.plan = compiled(delivery, chance.randrange(1, 3), chance.randrange(1, 3), chance.random() < 0.4)
        self.tasks_wanted = chance.randrange(1, 3)
        scratch = Path("/dev/shm")  # noqa: S108 - only to be quick
        self.folder = Path(tempfile.mkdtemp(prefix="simulated-", dir=scratch if scratch.is_dir() else None))
        self.network = Network(self)
        self.network.slow = 0.02
        self.accepted: dict[int, tuple[str, int]] = {}
        """The place of each accepted event: log and position."""
        self.released: Counter[int] = Counter()
        self.numbers: dict[int, RunId] = {}
        """Which run has begun the checkpoint of each number."""
        self.secured: dict[str, int] = {}
        self.next_id = 1
        self._told: object = None
        self.blobs = MemoryBlobs(self)
        self.blobs.written = self._blob_written
        self.store = CheckpointStore("memory", self.blobs)
        self.epoch, self.revision = 1, 1_000
        self.manager_down_until_ms = 0
        self.push_free_ms = 0
        self.plane = self._new_plane(sent_before=False)
        self.jobs: list[SimulatedJob] = []
        self.drivers = 0
        self.driver = self._new_driver()
        self.sink = Sink(self, self._released)
        self.workers = {name: self._new_worker(name) for name in ("w0", "w1")}
        self.later(100, self._tick_manager)
        self.later(400, self._feed)
        for _ in range(chance.randrange(0, 6)):
            self.later(chance.randrange(800, FAULTS_UNTIL_MS), self._fault)

    def close(self) -> None:
        """No files are left, and nothing is made up any more."""
        for worker in self.workers.values():
            if worker.alive:
                worker.kill()
        shutil.rmtree(self.folder)
        self._made_up.close()

    # ---- what must hold ---------------------------------------------------------------------------------------------

    def check(self) -> None:
        for worker in self.workers.values():
            log = worker.log() if worker.alive else None
            if log is not None and log.secured > self.secured.get(log.identity.log, 0):
                self.secured[log.identity.log] = log.secured
                self._check_secured(worker.name, log.identity.log, log.secured)

    def _check_secured(self, worker: str, log: str, secured: int) -> None:
        self.note("%s forgets up to %d", worker, secured)
        held = self.newest_checkpoint()
        for number, (of, position) in self.accepted.items():
            if of == log and position <= secured:
                self.require(number in held, "%s has forgotten event %d, which no checkpoint holds", worker, number)

    def newest_checkpoint(self) -> set[int]:
        """The events in the state from which the topology would begin now."""
        fails_until_ms, self.blobs.fails_until_ms = self.blobs.fails_until_ms, 0
        try:
            found = self.store.newest(KEY, self.store.lineage(KEY), lambda _: None)
        finally:
            self.blobs.fails_until_ms = fails_until_ms
        return set() if found is None else set(_seen(found[1]))

    def _begun(self, number: int, run: RunId) -> None:
        owner = self.numbers.setdefault(number, run)
        self.require(owner == run, "checkpoint %d of %s is begun again by %s", number, owner, run)

    def _blob_written(self, name: str) -> None:
        if "/checkpoints/" not in name:
            return
        manifest = unseal(self.blobs.kept[name], Manifest, name)
        number, run = manifest.checkpoint, (manifest.epoch, manifest.attempt)
        told = (run, len(_seen(manifest)))
        if told != self._told:
            self.note("checkpoint %d of %s is complete, %d events", number, *told)
        self._told = told
        owner = self.numbers[number]
        self.require((owner.epoch, owner.attempt) == run, "checkpoint %d of %s is written by %s", number, owner, run)
        self._check_cut(manifest)

    def _check_cut(self, manifest: Manifest) -> None:
        """The state holds exactly what receivers say that they have taken."""
        seen = _seen(manifest)
        states = {state.instance: state.inline for state in manifest.states}
        wanted = {f"{name}/{POSITIONS}" for name in self.plan.instances() if name.startswith("EventReceiver")}
        self.require(wanted <= states.keys(), "checkpoint %d lacks %s", manifest.checkpoint, wanted - states.keys())
        self.require(f"all#0/{SEEN}" in states, "checkpoint %d lacks the state of all#0", manifest.checkpoint)
        positions = Positions.restored(states[name] for name in sorted(wanted))
        taken = {position.log: position.position for position in positions.taken.values()}
        for number, (log, position) in self.accepted.items():
            expected = 1 if position <= taken.get(log, 0) else 0
            found = seen.get(number, 0)
            self.require(
                found == expected, "checkpoint %d holds event %d %d times, taken was %d times (position %d, taken %s)",
                manifest.checkpoint, number, found, expected, position, taken.get(log, 0),
            )  # fmt: skip

    def _released(self, ids: list[int]) -> None:
        """Results have taken effect."""
        self.note("results take effect: %s", ids)
        self.released.update(ids)
        if self.exactly_once:
            stand = self.newest_checkpoint()
            for number in ids:
                self.require(self.released[number] == 1, "the result of event %d takes effect again", number)
                self.require(number in stand, "the result of event %d takes effect, though it does not stand", number)

    def is_done(self) -> bool:
        """Every accepted event has had its result, and a checkpoint holds it."""
        return self.accepted.keys() <= self.released.keys() and self.accepted.keys() <= self.newest_checkpoint()

    # ---- the world outside ------------------------------------------------------------------------------------------

    def _feed(self) -> None:
        if self.now_ms >= FAULTS_UNTIL_MS:
            return
        worker = self.workers[self.chance.choice(self.feeding)]
        if worker.alive and self.now_ms >= worker.hung_until_ms:
            ids = list(range(self.next_id, self.next_id + self._events_at_once()))
            place = worker.accept(ids)
            if place is not None:
                self.next_id += len(ids)
                self.accepted.update(dict.fromkeys(ids, place))
                self.note("%s accepts %s at %d", worker.name, ids, place[1])
                worker.wake()
        self.later(self.chance.choice((5, 40, 100, 300)), self._feed)

    def _events_at_once(self) -> int:
        return self.chance.randrange(1, 4)

    def _keep_failed(self, ids: list[int], reason: str) -> int:
        """Return how many of the events that a worker gives up cannot be kept."""
        self.require(ids is None, "events %s are given up: %s", ids, reason)
        return 0

    def _new_worker(self, name: str) -> SimulatedWorker:
        place, number = self.folder, int(name[1:])
        return SimulatedWorker(self, self.network, name, number, place, self.sink, self.ask, self._keep_failed)

    def _new_driver(self) -> SimulatedDriver:
        self.drivers += 1
        return SimulatedDriver(self, self.network, self.drivers, self.store, self.ask, self.jobs.append, self._begun)

    # ---- the manager ------------------------------------------------------------------------------------------------

    def _new_plane(self, *, sent_before: bool) -> ControlPlane:
        self.revision += 1_000
        plane = ControlPlane(HEARTBEAT_MS, LEASE_MS, self.tasks_wanted, self.revision, QuotasConfig())
        plane.put_plan(PlanToRun(StoredPlan(KEY, "", self.epoch, 0, 0), self.plan, sent_before), self.now_ms)
        return plane

    def _tick_manager(self) -> None:
        if self.now_ms >= self.manager_down_until_ms:
            self._carry_out(self.plane.tick(self.now_ms))
        self.later(300, self._tick_manager)

    def ask(self, process: Process, message: Message, then: Callable[[Any], None]) -> None:
        """The manager answers `message`, unless it is away or something gets lost; some requests come twice."""
        lossy = self.now_ms < FAULTS_UNTIL_MS
        if lossy and self.chance.random() < 0.03:
            return
        if lossy and self.chance.random() < 0.02:
            self.later(self.network.delay_ms() + 50, lambda: self._arrive(process, message, lambda _: None))
        self.later(self.network.delay_ms(), lambda: self._arrive(process, message, then))

    def _arrive(self, process: Process, message: Message, then: Callable[[Any], None]) -> None:
        if self.now_ms < self.manager_down_until_ms:
            return
        peer = process.name.encode()
        answer, instructions = self.plane.handle(peer, message, self.now_ms)
        self._carry_out(instructions)
        process.soon(self.network.delay_ms(), lambda: then(answer))

    def _carry_out(self, instructions: list[Any]) -> None:
        for one in instructions:
            if isinstance(one, PushToDriver):
                self.push_free_ms = max(self.push_free_ms, self.now_ms + self.network.delay_ms())
                self.later(self.push_free_ms - self.now_ms, lambda one=one: self._deliver_order(one))
            elif isinstance(one, RaiseEpoch):
                self.epoch = max(self.epoch, one.above) + 1
                self._carry_out(self.plane.epoch_raised(KEY, self.epoch, self.now_ms))

    def _deliver_order(self, one: PushToDriver) -> None:
        driver = self.driver
        if driver.alive and one.peer == driver.name.encode():
            self.note("manager to driver: %s epoch=%s", one.message.TYPE, getattr(one.message, "epoch", ""))
            driver.soon(0, lambda: driver.obey(one.message))

    # ---- faults -----------------------------------------------------------------------------------------------------

    def _fault(self) -> None:
        kinds: dict[str, Callable[[], object]] = {
            "kill task": self._kill_task,
            "hang task": lambda: self._with_task(lambda task: task.hang(self.chance.choice((300, 1_200, 3_500)))),
            "kill worker": self._kill_worker,
            "hang worker": lambda: self._any_worker().hang(self.chance.choice((300, 1_500, 5_000, 11_000))),
            "break link": lambda: self._with_link(self.network.break_connection),
            "stall link": lambda: self._with_link(
                lambda dealer: self.network.connections[dealer].stall(self.chance.choice((500, 3_000, 9_000)))
            ),
            "kill driver": self._kill_driver,
            "hang driver": lambda: self.driver.hang(self.chance.choice((500, 2_500))),
            "manager away": self._stop_manager,
            "store fails": self._fail_store,
            "restart plan": self._restart_plan,
        }
        kind = self.chance.choice(sorted(kinds))
        self.note("fault: %s", kind)
        kinds[kind]()

    def _tasks(self) -> list[SimulatedTask]:
        return [task for job in self.jobs for task in job.tasks if task.alive]

    def _with_task(self, do: Callable[[SimulatedTask], object]) -> None:
        tasks = self._tasks()
        if tasks:
            task = self.chance.choice(tasks)
            self.note("… %s", task.name)
            do(task)

    def _kill_task(self) -> None:
        def kill(task: SimulatedTask) -> None:
            task.kill()
            job = next(job for job in self.jobs if task in job.tasks)
            self.later(self.chance.choice((20, 700)), lambda: job.lose("a task was killed"))

        self._with_task(kill)

    def _any_worker(self) -> SimulatedWorker:
        worker = self.workers[self.chance.choice(("w0", "w1"))]
        self.note("… %s", worker.name)
        return worker

    def _kill_worker(self) -> None:
        worker = self._any_worker()
        if worker.alive:
            worker.kill()
            self.later(self.chance.choice((50, 800, 4_000)), lambda: self._start_worker(worker.name))

    def _start_worker(self, name: str) -> None:
        if not self.workers[name].alive:
            self.workers[name] = self._new_worker(name)

    def _with_link(self, do: Callable[[Any], object]) -> None:
        processes: list[Process] = [*self._tasks(), *self.workers.values()]
        dealers = [dealer for process in processes for dealer in process.context.dealers()]
        if dealers:
            dealer = self.chance.choice(dealers)
            self.note("… to %s", dealer.target)
            do(dealer)

    def _kill_driver(self) -> None:
        """Its jobs end with it; some tasks need a while to notice."""
        driver = self.driver
        if not driver.alive:
            return
        driver.kill()
        for task in self._tasks():
            self.later(self.chance.choice((10, 300, 300, 5_000)), task.kill)
        self.later(self.chance.choice((100, 1_500)), self._start_driver)

    def _start_driver(self) -> None:
        if not self.driver.alive:
            self.driver = self._new_driver()

    def _stop_manager(self) -> None:
        self.manager_down_until_ms = self.now_ms + self.chance.choice((300, 2_500, 5_000))
        self.plane = self._new_plane(sent_before=True)

    def _fail_store(self) -> None:
        self.blobs.fails_until_ms = self.now_ms + self.chance.choice((50, 800, 3_000))

    def _restart_plan(self) -> None:
        if self.now_ms >= self.manager_down_until_ms:
            self.epoch += 1
            self._carry_out(self.plane.restart_plan(KEY, self.epoch, self.now_ms))


def simulate(world: VirtualWorld) -> None:
    """Events under faults, and then none of either: every result is there."""
    assert isinstance(world, DeliveryWorld)
    try:
        world.run(FAULTS_UNTIL_MS)
        world.network.slow = 0.0
        while not world.is_done() and world.now_ms < world.settled_by_ms:
            world.run(world.now_ms + 500)
        missing = sorted(world.accepted.keys() - world.released.keys())
        world.require(not missing, "the results of %s have not come", missing)
        unsafe = sorted(world.accepted.keys() - world.newest_checkpoint())
        world.require(not unsafe, "no checkpoint holds %s", unsafe)
    finally:
        world.close()


def _seen(manifest: Manifest) -> dict[int, int]:
    """The events in the state, with the number of times that each is counted."""
    state = manifest.state(f"all#0/{SEEN}")
    if state is None:
        return {}
    return {int(number): count for number, count in json.loads(state.inline or b"{}").items()}
