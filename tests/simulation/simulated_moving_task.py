"""A task of which only the orders are left: whether it works, and where its state comes from and goes to."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

from virtual_world import VirtualWorld

from cep_common.ids import Endpoint, PlanKey
from cep_common.protocol.drivers import SubmitTopology
from cep_common.protocol.tasks import ComponentReport, RegisterTask
from topology.stages.state.transfer import TaskState
from topology.stages.tasks.task import Task

KEY = PlanKey(-1234, "Numbers")


class _Alone(dict[str, Any]):
    """The one instance of a task, which stands for all of them."""

    processors = ()


class _AllState(TaskState):
    """The state of that instance, which always matters."""

    def __init__(self, instances: _Alone) -> None:
        super().__init__(None, instances, (), None)  # type: ignore[arg-type]

    def keepers(self) -> tuple[str, ...]:
        return tuple(self._instances)


class MovingTask(Task):
    """The real following of orders, without anything to work on. `heir_of` are the tasks whose state it has got,
    `replaced` says that another one has gone on from its own."""

    def __init__(self, world: VirtualWorld, job: Job, index: int, number: int) -> None:
        # What a task has beside its orders needs sockets, and is not asked for here.
        self.world, self.job, self.index = world, job, index
        self.number = number
        self.alive = True
        self.replaced = False
        self.heir_of: list[MovingTask] = []
        self.seen: set[int] = set()
        self._instances = _Alone({f"all#{index}": self})  # type: ignore[assignment]
        self.state = _AllState(self._instances)
        self._order = "stand-by" if job.submission.beside else "work"
        self._opened = self._fetched = False
        self.met = True
        self.checkpointing: Any = SimpleNamespace(ending=False)
        self.quiet_ms = 0
        self.beat = 0
        if job.begins is not None:
            self.state.brought = {f"all#{index}": {"seen": job.begins}}

    def wake(self) -> None:
        """Do nothing: the world gives every task its turns."""

    def open(self, now_ms: int, state: Any) -> None:
        """Starts from `state`."""
        self.seen = set(json.loads(state["seen"])) if state else set()

    def snapshot(self) -> dict[str, bytes]:
        return {"seen": json.dumps(sorted(self.seen)).encode()}

    def _is_quiet(self) -> bool:
        return self.world.now_ms >= self.quiet_ms

    @property
    def _clock(self) -> Any:
        return self

    def now_ms(self) -> int:
        """The task's clock."""
        return self.world.now_ms

    def turn(self) -> None:
        """It does what it was told last."""
        self._obey()

    def works(self) -> bool:
        """Events are taken in."""
        return self.alive and self._works()

    def report(self) -> RegisterTask:
        """Its heartbeat."""
        submission = self.job.submission
        instance = f"all#{self.index}"
        door = Endpoint("task", self.number) if self.state.step == "given" else None
        return RegisterTask(
            KEY, submission.epoch, self.index, "host", self.number, (ComponentReport(instance, "all", "processor"),),
            state_transfer=self.state.step, state_endpoint=door, attempt=self.job.attempt,
        )  # fmt: skip


@dataclass(slots=True, eq=False)
class Job:
    """The job of one attempt, which starts from a state that was stored, or from none."""

    submission: SubmitTopology
    attempt: int
    begins: bytes | None
    tasks: list[MovingTask] = field(default_factory=list)
    over: bool = False
