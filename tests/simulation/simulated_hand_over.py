"""A plan that is changed while it runs, under managers and drivers that die and answers that get lost.

Real are the manager's control plane, the driver's lifecycle, and how a task follows orders and moves its state. Made up
are the plan store, jobs, workers, and all ways between them.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import msgspec
from simulated_moving_task import KEY, Job, MovingTask
from virtual_world import VirtualWorld

from cep_common.ids import Endpoint
from cep_common.protocol.drivers import KillTopology, RegisterDriver, SubmitTopology
from cep_common.protocol.registry import (
    EndpointAssigned,
    ListPlans,
    Message,
    RegisterEndpoint,
    RegisterWorker,
    Rejected,
    RequestEndpoint,
    StreamBinding,
    WorkerRegistered,
)
from cep_common.protocol.tasks import StateSource, TaskRegistered
from cep_manager.config import QuotasConfig
from cep_manager.control.control_plane import ControlPlane
from cep_manager.control.instructions import PushToDriver, RaiseEpoch, SettleChange
from cep_manager.plans.compiled_plan import CompiledPlan, PlannedComponent
from cep_manager.plans.record import PlanToRun, PlanVersion
from cep_manager.plans.stored_plan import StoredPlan
from topology.driver.lifecycle import Instruction, TopologyAction, TopologyRuns

HEARTBEAT_MS, LEASE_MS = 700, 2_100
FAULTS_UNTIL_MS, UNTIL_MS = 14_000, 75_000
"""A state that cannot be moved is waited for half a minute."""
NUMBERS = (StreamBinding("In", "In:1.0.0", (("number", "long"),)),)


def compiled(text: str) -> CompiledPlan:
    """The plan, as far as the manager cares."""
    components = (
        PlannedComponent("EventReceiver", "receiver", 1, ("In",), ("In",)),
        PlannedComponent("all", "processor", 1, ("In",), ("Out",)),
    )
    return CompiledPlan("Numbers", "", text, "", components, NUMBERS, ())


@dataclass(slots=True)
class Worker:
    """Sends events to the task that it is linked to."""

    name: str
    revision: int = -1
    epoch: int = 0
    link: MovingTask | None = None


@dataclass(slots=True)
class Stored:
    """What the plan store knows of the plan."""

    version: PlanVersion
    epoch: int
    changed_epoch: int = 0
    former: PlanVersion | None = None


class HandOverWorld(VirtualWorld):
    """One plan, which is changed one to three times."""

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        chance = self.chance
        self._numbers = 0
        self.lossless = True
        """No process has died but at the system's own will."""
        self.taken: set[int] = set()
        self.checkpoint: bytes | None = None
        self.taken_ms = 0
        self.slots = chance.choice((1, 2, 2, 2))
        self.stored = Stored(PlanVersion("text 1", compiled("text 1"), 1, 1, 0), 1)
        self.push_ms = self.store_ms = 0
        """Orders do not overtake each other, and neither do writes."""
        self.manager = 0
        self.manager_up = True
        self.plane = self._new_plane(sent_before=False)
        self.driver = 1
        self.runs = self._new_runs()
        self.jobs: list[Job] = []
        self.workers = [Worker("w0"), Worker("w1")]
        self.later(100, self._tick_manager)
        self.later(50, self._tick_driver)
        for worker in self.workers:
            self.later(chance.randrange(300), lambda worker=worker: self._beat_worker(worker))
        self.later(200, self._feed)
        for _ in range(chance.randrange(1, 4)):
            self.later(chance.randrange(1_500, 9_000), self._change)
        for _ in range(chance.randrange(0, 4)):
            self.later(chance.randrange(1_500, FAULTS_UNTIL_MS), self._fault)

    def next_number(self) -> int:
        """A number for a process."""
        self._numbers += 1
        return self._numbers

    # ---- the manager and its store ----------------------------------------------------------------------------------

    def _new_plane(self, *, sent_before: bool) -> ControlPlane:
        self.manager += 1
        plane = ControlPlane(HEARTBEAT_MS, LEASE_MS, 1, self.manager * 1_000, QuotasConfig())
        stored = self.stored
        former = _to_run(stored.former, sent_before) if stored.former is not None else None
        plan = _to_run(stored.version, sent_before, epoch=stored.epoch, change="update" if former is not None else None)
        plan = msgspec.structs.replace(plan, former=former)
        plane.put_plan(plan, self.now_ms)
        return plane

    def _tick_manager(self) -> None:
        if self.manager_up:
            self._carry_out(self.plane.tick(self.now_ms))
        self.later(100, self._tick_manager)

    def _change(self) -> None:
        """Somebody deploys another text."""
        if not self.manager_up:
            self.later(500, self._change)
            return
        record = self.plane.snapshot(self.now_ms).plans[KEY]
        stored = self.stored
        keeps = record.change() is not None or record.has_run()
        self.lossless = self.lossless and keeps  # what is replaced as never having run continues from a checkpoint
        stored.former = (record.fallback or record.version()) if keeps else None
        stored.epoch = stored.changed_epoch = stored.epoch + 1
        text = f"text {stored.epoch}"
        stored.version = PlanVersion(text, compiled(text), stored.epoch, 1, self.now_ms)
        self.note("the plan becomes %s", text)
        plan = _to_run(stored.version, sent_before=False, change="update" if keeps else None)
        self._carry_out(self.plane.put_plan(plan, self.now_ms))

    def _carry_out(self, instructions: list[Any]) -> None:
        manager = self.manager
        for one in instructions:
            if isinstance(one, PushToDriver):
                driver = self.driver
                if isinstance(one.message, KillTopology) and one.message.drain:
                    self.lossless = False  # what came behind the last checkpoint is the workers' to send again
                if one.peer == b"%d" % driver and not self._lost():
                    self.push_ms = max(self.push_ms, self.now_ms + self._delay_ms())
                    self.later(
                        self.push_ms - self.now_ms, lambda one=one, driver=driver: self._obey(driver, one.message)
                    )
            elif isinstance(one, RaiseEpoch | SettleChange):
                self.store_ms = max(self.store_ms, self.now_ms + self._store_ms())
                self.later(self.store_ms - self.now_ms, lambda one=one: self._write(manager, one))
            else:
                self.note("manager: %s", one.text)

    def _write(self, manager: int, one: RaiseEpoch | SettleChange) -> None:
        """The plan store's thread, if the manager still lives."""
        if manager != self.manager or not self.manager_up:
            return
        stored = self.stored
        if isinstance(one, RaiseEpoch):
            stored.epoch = max(stored.epoch, one.above) + 1
            self._carry_out(self.plane.epoch_raised(KEY, stored.epoch, self.now_ms))
        elif stored.changed_epoch > one.epoch:
            stored.former = one.in_force
        else:
            if stored.epoch == stored.changed_epoch:
                stored.epoch = one.in_force.epoch
            stored.version, stored.former = one.in_force, None

    def _ask(self, peer: bytes, message: Message, then: Callable[[Any], None]) -> None:
        if self._lost():
            return

        def arrive() -> None:
            if self.manager_up:
                answer, instructions = self.plane.handle(peer, message, self.now_ms)
                self._carry_out(instructions)
                if not self._lost():
                    self.later(self._delay_ms(), lambda: then(answer))

        self.later(self._delay_ms(), arrive)

    def _lost(self) -> bool:
        return self.now_ms < FAULTS_UNTIL_MS and self.chance.random() < 0.02

    def _delay_ms(self) -> int:
        return self.chance.choice((40, 400)) if self.chance.random() < 0.03 else self.chance.randrange(1, 4)

    def _store_ms(self) -> int:
        return self.chance.choice((300, 1_500)) if self.chance.random() < 0.1 else self.chance.randrange(2, 10)

    # ---- the driver and its jobs ------------------------------------------------------------------------------------

    def _new_runs(self) -> TopologyRuns:
        return TopologyRuns((self.slots,), 200, 1_500, 3_000)

    def _obey(self, driver: int, message: Message) -> None:
        if driver != self.driver:
            return
        self.note("driver: %s", message)
        match message:
            case SubmitTopology():
                self._do(self.runs.submit(message))
            case KillTopology(key=key, epoch=epoch, drain=drain):
                self._do(self.runs.kill(key, epoch, drain))

    def _tick_driver(self) -> None:
        self._do(self.runs.on_time(self.now_ms))
        reports, free = self.runs.reports(), max(0, self.runs.slots_free())
        beat = RegisterDriver("driver", "host", self.driver, "local", self.slots, free, reports, started_ms=self.driver)
        self._ask(b"%d" % self.driver, beat, lambda _: None)
        self.later(250, self._tick_driver)

    def _do(self, instructions: list[Instruction]) -> None:
        for one in instructions:
            jobs = [job for job in self.jobs if job.submission.epoch == one.submission.epoch and not job.over]
            if one.action is TopologyAction.START_JOB:
                epoch = one.submission.epoch
                older = any(before < epoch for _, before in self.runs.runs)
                beside = one.submission.beside and older
                job = Job(one.submission, one.attempt, None if beside else self.checkpoint)
                self.jobs.append(job)
                self.runs.job_given(KEY, epoch, self.now_ms)
                self.later(self.chance.randrange(50, 400), lambda job=job: self._start(self.driver, job))
            elif one.action is TopologyAction.DRAIN_JOB:
                self.later(60, lambda one=one, jobs=jobs: self._drain(self.driver, one, jobs))
            elif one.action is TopologyAction.CANCEL_JOB:
                for job in jobs:
                    self._end(job, "cancelled")

    def _start(self, driver: int, job: Job) -> None:
        if job.over or driver != self.driver:
            return
        job.tasks = [MovingTask(self, job, index, self.next_number()) for index in range(job.submission.workers)]
        stored = len(json.loads(job.begins)) if job.begins is not None else 0
        self.note("epoch %d, attempt %d starts from %d stored events", job.submission.epoch, job.attempt, stored)
        self._do(self.runs.job_running(KEY, job.submission.epoch, self.now_ms))
        for task in job.tasks:
            self._beat_task(task)

    def _drain(self, driver: int, one: Instruction, jobs: list[Job]) -> None:
        """The last checkpoint holds what the topology has taken in; it takes in no more."""
        if driver != self.driver:
            return
        for task in [task for job in jobs for task in job.tasks if task.alive and task._opened]:
            self.checkpoint = task.snapshot()["seen"]
            self.note("epoch %d is drained with %d events", one.submission.epoch, len(task.seen))
            task.alive = False
        self._do(self.runs.drained(KEY, one.submission.epoch, one.attempt))

    def _end(self, job: Job, reason: str) -> None:
        if job.over:
            return
        job.over = True
        driver = self.driver
        self.later(self.chance.randrange(1, 80), lambda: self._ended(driver, job, reason))
        for task in job.tasks:
            self.later(self.chance.randrange(1, 60), lambda task=task: self._kill(task))

    def _ended(self, driver: int, job: Job, reason: str) -> None:
        if driver == self.driver:
            self._do(self.runs.job_ended(KEY, job.submission.epoch, reason, False, self.now_ms))  # noqa: FBT003

    def _kill(self, task: MovingTask) -> None:
        task.alive = False

    # ---- tasks ------------------------------------------------------------------------------------------------------

    def _beat_task(self, task: MovingTask, beat: int = 0) -> None:
        """One request at a time: an answer that comes when it is not waited for any more is not heard."""
        if not task.alive or beat != task.beat:
            return
        task.turn()
        task.beat = beat = beat + 1
        self._ask(b"task %d" % task.number, task.report(), lambda answer: self._answered(task, beat, answer))
        self.later(600, lambda: self._beat_task(task, beat))

    def _register(self, task: MovingTask) -> None:
        here = Endpoint("task", task.number)
        links = tuple(f"{worker.name}/In" for worker in self.workers if worker.link is task)
        epoch, attempt = task.job.submission.epoch, task.job.attempt
        message = RegisterEndpoint("receiver", KEY, epoch, f"EventReceiver#{task.index}", here, links, attempt)
        self._ask(b"task %d" % task.number, message, lambda _: None)

    def _answered(self, task: MovingTask, beat: int, answer: Any) -> None:
        if not task.alive or beat != task.beat:
            return
        self._register(task)
        self.later(self.chance.choice((100, 100, 250)), lambda: self._beat_task(task, beat))
        if isinstance(answer, Rejected) and answer.code in ("stale-epoch", "unknown-plan"):
            task.alive = False
            self._end(task.job, f"fenced: {answer.reason}")
        elif isinstance(answer, TaskRegistered):
            if answer.order == "pause" and task._order == "work":
                task.quiet_ms = self.now_ms + self.chance.choice((0, 30, 300))
            task.follow(answer.order)
            task.turn()
            if answer.sources and not task._fetched:
                self.later(self._delay_ms(), lambda: self._fetch(task, answer.sources))

    def _fetch(self, task: MovingTask, sources: tuple[StateSource, ...]) -> None:
        tasks = {other.number: other for job in self.jobs for other in job.tasks}
        givers = [tasks[source.endpoint.port] for source in sources]
        if not task.alive or task._fetched or not all(giver.alive and giver.state.given for giver in givers):
            return
        given = zip(sources, givers, strict=False)
        task.state.brought = {source.instance: giver.state.given[source.instance] for source, giver in given}
        task.heir_of, task._fetched = givers, True
        task.turn()

    # ---- workers ----------------------------------------------------------------------------------------------------

    def _beat_worker(self, worker: Worker) -> None:
        link = worker.link
        if link is not None and (not link.alive or link.job.submission.epoch != worker.epoch):
            worker.link = None

        def registered(answer: Any) -> None:
            if isinstance(answer, WorkerRegistered) and answer.revision != worker.revision:
                self._ask(worker.name.encode(), ListPlans(), lambda listed: self._listed(worker, listed))

        self._ask(worker.name.encode(), RegisterWorker(worker.name, "host", 1, max(0, worker.revision)), registered)
        if worker.link is None and worker.epoch:
            request = RequestEndpoint("receiver", KEY, worker.epoch, worker.name, "host", "In")
            self._ask(worker.name.encode(), request, lambda answer: self._assigned(worker, answer))
        self.later(self.chance.choice((200, 400)), lambda: self._beat_worker(worker))

    def _listed(self, worker: Worker, listed: Any) -> None:
        if listed.plans and listed.revision > worker.revision:
            worker.revision, worker.epoch = listed.revision, listed.plans[0].epoch

    def _assigned(self, worker: Worker, answer: Any) -> None:
        if isinstance(answer, EndpointAssigned) and worker.link is None:
            tasks = (task for job in self.jobs for task in job.tasks)
            found = next(task for task in tasks if task.number == answer.endpoint.port)
            worker.link = found if found.alive and found.job.submission.epoch == worker.epoch else None

    def _feed(self) -> None:
        for worker in self.workers:
            if worker.link is not None and worker.link.works():
                self._take(worker.link)
        self.later(self.chance.choice((30, 60)), self._feed)

    def _take(self, task: MovingTask) -> None:
        epoch = task.job.submission.epoch
        number = len(self.taken) + 1
        self.require(not task.replaced, "epoch %d takes in events, though another has gone on from its state", epoch)
        self.taken.add(number)
        task.seen.add(number)
        self.taken_ms = self.now_ms
        for former in task.heir_of:
            if not former.replaced:
                self.note("epoch %d continues in place of epoch %d", epoch, former.job.submission.epoch)
            former.replaced = True

    # ---- faults -----------------------------------------------------------------------------------------------------

    def _fault(self) -> None:
        kind = self.chance.choice(("manager", "manager", "manager", "driver", "task"))
        self.note("fault: %s", kind)
        match kind:
            case "manager" if self.manager_up:
                self.manager_up = False
                self.later(self.chance.choice((50, 600, 3_000)), self._start_manager)
            case "driver":
                self.lossless = False
                self.driver += 1
                self.runs = self._new_runs()
                for job in self.jobs:
                    job.over = True
                    for task in job.tasks:
                        self.later(self.chance.choice((10, 60)), lambda task=task: self._kill(task))
            case "task":
                jobs = [job for job in self.jobs if not job.over and job.tasks]
                if jobs:
                    self.lossless = False
                    job = self.chance.choice(jobs)
                    job.tasks[0].alive = False
                    self._end(job, "a task was killed")

    def _start_manager(self) -> None:
        self.manager_up = True
        self.plane = self._new_plane(sent_before=True)


def simulate(world: VirtualWorld) -> None:
    """Changes under faults, and a while without: the plan runs as one topology, whose state holds what it must."""
    assert isinstance(world, HandOverWorld)
    world.run(FAULTS_UNTIL_MS + 6_000)
    if world.stored.former is not None or world.now_ms - world.taken_ms > 2_000:
        world.run(UNTIL_MS)
    world.require(world.stored.former is None, "the change is not settled in the end")
    world.require(
        world.now_ms - world.taken_ms < 2_000, "no events are taken in for %d ms", world.now_ms - world.taken_ms
    )
    working = [task for job in world.jobs for task in job.tasks if task.works()]
    world.require(len(working) == 1, "%d topologies work in the end", len(working))
    if world.lossless:
        missing = sorted(world.taken - working[0].seen)
        world.require(
            not missing, "%d events are in the state of no topology that works: %s", len(missing), missing[:9]
        )


def _to_run(version: PlanVersion, sent_before: bool, **changes: Any) -> PlanToRun:
    stored = StoredPlan(KEY, version.text, version.epoch, 0, version.updated_ms, workers=version.workers)
    return PlanToRun(msgspec.structs.replace(stored, **changes), version.compiled, sent_before)
