"""The delivery of events of which some end the executor of their topology each time that they come, as by its memory.

Each of these is given up in the end, and no other one is, though executors are killed for other reasons, too.
"""

from __future__ import annotations

from collections.abc import Callable
from unittest import mock

from simulated_delivery import FAULTS_UNTIL_MS, SETTLED_BY_MS, DeliveryWorld
from simulated_rows import ids_of
from simulated_task import RememberingStage

from cep_common.errors import CepError
from topology.events.bundle import Bundle

KILLED = (
    "Job aborted due to stage failure.\n"
    "ExecutorLostFailure (executor 0 exited caused by one of the running tasks) Reason: Command exited with code 137"
)
MOST_OTHER_KILLS = 2


class DeadlyEventsWorld(DeliveryWorld):
    """One or two of the first events are deadly, and executors are killed now and then.

    One worker accepts all of them: what two workers have under way alone at the same ends is given up by both.
    """

    feeding = ("w0",)
    settled_by_ms = 2 * SETTLED_BY_MS
    """Each of two events may end six executors before it is given up, and half of the starts in between end early."""

    def _begin(self, seed: int) -> None:
        self.deadly: set[int] = set()
        self._made_up.enter_context(mock.patch.object(RememberingStage, "on_bundle", self._dies_of_some()))
        super()._begin(seed)
        self.deadly = {self.chance.randrange(1, 30) for _ in range(self.chance.randrange(1, 3))}
        self.note("deadly are %s", sorted(self.deadly))
        for _ in range(self.chance.randrange(MOST_OTHER_KILLS + 1)):
            self.later(self.chance.randrange(800, FAULTS_UNTIL_MS), self._kill_executor)

    def _dies_of_some(self) -> Callable[..., None]:
        work = RememberingStage.on_bundle

        def on_bundle(stage: RememberingStage, bundle: Bundle, now_ms: int) -> None:
            if any(self.deadly.intersection(ids_of(batch)) for _, batch in bundle.batches):
                raise CepError(KILLED)
            work(stage, bundle, now_ms)

        return on_bundle

    def _kill_executor(self) -> None:
        tasks = self._tasks()
        if tasks:
            job = next(job for job in self.jobs if tasks[0] in job.tasks)
            self.note("fault: kill executor")
            for task in job.tasks:
                task.kill()
            job.lose(KILLED)

    def _fault(self) -> None:
        """What kills a stage alone would count against whatever event is under way."""
        faults: tuple[Callable[[], object], ...] = (
            lambda: self._with_link(self.network.break_connection), self._stop_manager, self._fail_store,
            lambda: self._any_worker().hang(self.chance.choice((300, 1_500))),
        )  # fmt: skip
        self.chance.choice(faults)()

    def _events_at_once(self) -> int:
        return 1

    def _keep_failed(self, ids: list[int], reason: str) -> int:
        self.note("given up: %s", ids)
        self.require(self.deadly.issuperset(ids), "events %s are given up, which are not among %s", ids, self.deadly)
        for number in ids:
            self.accepted.pop(number, None)
        return 0

    def is_done(self) -> bool:
        return not self.deadly & self.accepted.keys() and super().is_done()
