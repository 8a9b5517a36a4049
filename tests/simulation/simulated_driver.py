"""A simulated driver: the real lifecycle, coordinator and archive; jobs, and the store below, are made up."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Any

import msgspec
from fake_network import Network
from simulated_processes import LaterExecutor, Process, WorldClock
from simulated_task import SimulatedTask
from simulated_worker import Ask
from virtual_world import VirtualWorld

from cep_common.protocol.drivers import KillTopology, RegisterDriver, SubmitTopology
from cep_common.protocol.registry import Message
from query_plan.xml import read_xml
from topology.checkpoint.coordination.archive import Archive
from topology.checkpoint.coordination.coordinator import Timing
from topology.checkpoint.coordination.instructions import Drained, RestartTopology
from topology.checkpoint.coordination.runs import Phase, RunId
from topology.checkpoint.coordination.service import CheckpointService, RunOpened, RunRefused
from topology.checkpoint.errors import CheckpointError, CheckpointUnreadableError, StoreUnreachableError
from topology.checkpoint.storage.store import CheckpointStore
from topology.driver.fencing import OrderFence
from topology.driver.lifecycle import Instruction, TopologyAction, TopologyRuns
from topology.model import Topology
from topology.spark.reasons import DOUBTFUL_ENDS, read_ending

SLOTS = 8
TIMING = Timing(
    interval_ms=700, timeout_ms=2_500, pause_ms=150, heartbeat_ms=400, lease_ms=1_500, join_ms=4_000, drain_ms=2_000
)

LONGER_MS = 2_500
"""The interval in every fourth schedule: after a restart checkpoints come sooner."""

read_plan = lru_cache(read_xml)


class MemoryBlobs:
    """A store of checkpoints in memory, which outlives every process; it fails until `fails_until_ms`."""

    def __init__(self, world: VirtualWorld) -> None:
        self._world = world
        self.kept: dict[str, bytes] = {}
        self.fails_until_ms = 0
        self.written: Callable[[str], None] = lambda _: None

    def put(self, name: str, pieces: Sequence[Any]) -> None:
        self._look()
        self.kept[name] = b"".join(pieces)
        self.written(name)

    def get(self, name: str) -> bytes:
        self._look()
        if name not in self.kept:
            raise CheckpointUnreadableError("missing", f"{name} is not there")
        return self.kept[name]

    def get_ranges(self, name: str, ranges: Sequence[tuple[int, int]]) -> list[bytes]:
        data = self.get(name)
        return [data[start : start + length] for start, length in ranges]

    def sizes(self, folder: str) -> dict[str, int]:
        self._look()
        found = ((name.rpartition("/"), data) for name, data in self.kept.items())
        return {last: len(data) for (before, _, last), data in found if before == folder}

    def folders(self, folder: str) -> tuple[str, ...]:
        return ()

    def delete(self, name: str) -> None:
        self._look()
        self.kept.pop(name, None)

    def _look(self) -> None:
        if self._world.now_ms < self.fails_until_ms:
            raise StoreUnreachableError("the store does not answer")


class SimulatedJob:
    """The Spark job of one attempt: all of its tasks, or none. What is cancelled may live on for a while."""

    def __init__(
        self,
        driver: SimulatedDriver,
        topology: Topology,
        reference: str,
        goes_back: bool,
        cleared: tuple[int, ...],
        doubtful: tuple[int, ...],
    ) -> None:
        self.driver = driver
        self.topology = topology
        self.reference = reference
        self.goes_back = goes_back
        self.cleared, self.doubtful = cleared, doubtful
        self.tasks: list[SimulatedTask] = []
        self.over = False
        driver.world.later(driver.world.chance.randrange(20, 300), self._start)

    def is_running(self) -> bool:
        return bool(self.tasks) and not self.over

    def cancel(self) -> None:
        """The driver counts the job as ended; tasks that it cannot reach work on until they notice."""
        self._end("cancelled")

    def lose(self, reason: str) -> None:
        """One of its tasks is gone: so is the job."""
        self._end(reason)

    def _start(self) -> None:
        driver = self.driver
        if self.over or not driver.alive:
            return
        try:
            for index in range(self.topology.tasks):
                self.tasks.append(
                    SimulatedTask(
                        driver.world, driver.network, self.topology, index, driver.service.endpoint, driver.store,
                        self.reference, self.goes_back, self.cleared, self.doubtful, driver.ask, self.lose,
                    )
                )  # fmt: skip
        except CheckpointError as error:
            self._end(str(error))
            return
        driver.world.note("%s starts from %s", self.topology.run(), self.reference or "nothing")
        driver.started(self)
        for task in self.tasks:
            task.wake()

    def _end(self, reason: str) -> None:
        if self.over:
            return
        self.over = True
        driver, world = self.driver, self.driver.world
        for task in self.tasks:
            lingers = world.chance.random() < driver.lingering
            world.later(world.chance.choice((800, 4_000)) if lingers else world.chance.randrange(1, 60), task.kill)
        driver.soon(world.chance.randrange(1, 100), lambda: driver.job_ended(self, reason))


class SimulatedDriver(Process):
    """One process of the driver. `lingering` is the chance of a task to outlive its job for a while."""

    lingering = 0.15

    def __init__(
        self,
        world: VirtualWorld,
        network: Network,
        number: int,
        store: CheckpointStore,
        ask: Ask,
        started: Callable[[SimulatedJob], None],
        begun: Callable[[int, RunId], None],
    ) -> None:
        super().__init__(world, network, f"driver {number}", 150)
        self._begun = begun
        self.network = network
        self._started_ms = number
        self.store = store
        self.ask = ask
        self.started = started
        self.runs = TopologyRuns((SLOTS,), 200, 1_500, 3_000)
        self.jobs: dict[tuple[Any, int], SimulatedJob] = {}
        self._fence = OrderFence()
        self._opening: dict[RunId, SubmitTopology] = {}
        self._beat_ms = 0
        clock = WorldClock(world)
        archive = Archive(store, retained=2)
        timing = TIMING if world.seed % 4 else replace(TIMING, interval_ms=LONGER_MS)
        self.service = CheckpointService(self.context, "127.0.0.1", (16_000, 16_099), timing, archive, clock)
        self.service._storing.close()
        self.service._storing._threads = LaterExecutor(self, 60)  # type: ignore[assignment]

    def obey(self, message: Message) -> None:
        """An order of the manager has come."""
        match message:
            case SubmitTopology():
                self._do(self.runs.submit(message))
            case KillTopology(key=key, epoch=epoch, drain=drain):
                self._do(self.runs.kill(key, epoch, drain))
        self.wake()

    def turn(self) -> None:
        now_ms = self.world.now_ms
        self.service._turn()
        self._follow_checkpoints()
        for report in self.runs.reports():
            job = self.jobs.get((report.key, report.epoch))
            if report.state in ("starting", "stopping") and job is not None and job.is_running():
                self._do(self.runs.job_running(report.key, report.epoch, now_ms))
                self.service.job_runs(RunId(report.key, report.epoch, report.restarts))
        self._do(self.runs.on_time(now_ms))
        self.service._turn()
        for run in self.service._coordinator.runs.values():
            if run.phase is Phase.TAKING:
                self._begun(run.number, run.id)
        if now_ms >= self._beat_ms:
            self._beat_ms = now_ms + 700
            told = [(report, self.service.view(report.key, report.epoch)) for report in self.runs.reports()]
            reports = tuple(msgspec.structs.replace(report, spans=one.spans) for report, one in told)
            free = max(0, self.runs.slots_free())
            beat = RegisterDriver(
                "driver", "127.0.0.1", self.number, "local", SLOTS, free, reports, started_ms=self._started_ms
            )
            self.ask(self, beat, lambda _: None)

    def job_ended(self, job: SimulatedJob, reason: str) -> None:
        """As the driver hears of it."""
        if self.jobs.get((job.topology.key, job.topology.epoch)) is job:
            del self.jobs[job.topology.key, job.topology.epoch]
            self._ended(job.topology.key, job.topology.epoch, reason, unfit=False)

    def _ended(self, key: Any, epoch: int, reason: str, *, unfit: bool) -> None:
        run = self.runs.runs.get((key, epoch))
        if run is not None:
            self.service.end_run(RunId(key, epoch, run.restarts), reason)
        self.world.note("driver: epoch %d ended: %s", epoch, reason)
        doubtful = read_ending(reason, {}).code in DOUBTFUL_ENDS
        self._do(self.runs.job_ended(key, epoch, reason, unfit, self.world.now_ms, doubtful=doubtful))
        if (key, epoch) not in self.runs.runs:
            self.service.forget_views(key, epoch)

    def _follow_checkpoints(self) -> None:
        for event in self.service.events():
            run = event.run
            match event:
                case RunOpened(reference=reference, goes_back=goes_back):
                    self._start(run, reference, goes_back)
                case RunRefused(reason=reason, unfit=unfit):
                    self._opening.pop(run, None)
                    self._ended(run.key, run.epoch, reason, unfit=unfit)
                case RestartTopology(reason=reason):
                    self._do(self.runs.recall(run.key, run.epoch, run.attempt, reason))
                case Drained():
                    self._do(self.runs.drained(run.key, run.epoch, run.attempt))

    def _start(self, run: RunId, reference: str, goes_back: bool) -> None:
        submission = self._opening.pop(run, None)
        known = self.runs.runs.get((run.key, run.epoch))
        if submission is None or known is None or known.state != "starting" or known.recalled:
            self._ended(run.key, run.epoch, "cancelled", unfit=False)
            return
        plan = read_plan(submission.query_plan)
        topology = Topology(run.key, run.epoch, plan, submission.workers, run.attempt)
        self.jobs[run.key, run.epoch] = SimulatedJob(
            self, topology, reference, goes_back, known.cleared, known.doubtful
        )
        self.runs.job_given(run.key, run.epoch, self.world.now_ms)

    def _do(self, instructions: list[Instruction]) -> None:
        for one in instructions:
            submission = one.submission
            job_id = (submission.key, submission.epoch)
            run = RunId(*job_id, one.attempt, submission.deployed_ms)
            if one.action is TopologyAction.START_JOB:
                self._opening[run] = submission
                older = any(key == run.key and epoch < run.epoch for key, epoch in self.runs.runs)
                plan, beside = submission.query_plan, submission.beside and older
                restore, told_under = submission.restore, submission.restore_epoch
                self.service.open_run(run, plan, submission.workers, restore, beside, told_under)
            elif one.action is TopologyAction.DRAIN_JOB:
                self.service.drain(run)
            elif one.action is TopologyAction.CANCEL_JOB and job_id in self.jobs:
                self.jobs[job_id].cancel()
        if instructions:
            self.wake_at(self.world.now_ms + 1)
