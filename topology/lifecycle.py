"""The driver's view of its topologies: which run, which wait for slots, which start again. Pure.

                      admit            running
    submit ─▶ WAITING ─────▶ STARTING ─────────▶ RUNNING
                 ▲               │ ended            │ ended
                 │ due           ▼                  ▼
                 └────────── RESTARTING ◀───────────┘        kill, or a newer epoch, from anywhere: STOPPING, then gone
                                                             a fault of the plan itself: FAILED

A topology needs all its slots at once. Those that wait are admitted in the order in which they began to wait: a small
one does not overtake a large one that waits, so none of them waits for ever. Only one that needs more slots than there
are is passed over.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum

from cep_common.ids import PlanKey
from cep_common.messages import RunState, SubmitTopology, TopologyReport

STABLE_MS = 60_000
"""After running for so long a topology's restarts are forgotten when the next delay is chosen."""


class Move(Enum):
    """What can happen to a topology."""

    ADMIT = "admit"
    RUNNING = "running"
    ENDED = "ended"
    UNFIT = "unfit"
    DUE = "due"
    KILL = "kill"


class Action(Enum):
    """What the driver must do."""

    NOTHING = "nothing"
    START_JOB = "start job"
    CANCEL_JOB = "cancel job"
    FORGET = "forget"


TRANSITIONS: dict[tuple[RunState, Move], tuple[RunState, Action]] = {
    ("waiting", Move.ADMIT): ("starting", Action.START_JOB),
    ("waiting", Move.KILL): ("stopping", Action.FORGET),
    ("starting", Move.RUNNING): ("running", Action.NOTHING),
    ("starting", Move.ENDED): ("restarting", Action.NOTHING),
    ("starting", Move.UNFIT): ("failed", Action.NOTHING),
    ("starting", Move.KILL): ("stopping", Action.CANCEL_JOB),
    ("running", Move.ENDED): ("restarting", Action.NOTHING),
    ("running", Move.UNFIT): ("failed", Action.NOTHING),
    ("running", Move.KILL): ("stopping", Action.CANCEL_JOB),
    ("restarting", Move.DUE): ("waiting", Action.NOTHING),
    ("restarting", Move.KILL): ("stopping", Action.FORGET),
    ("failed", Move.KILL): ("stopping", Action.FORGET),
    ("stopping", Move.ENDED): ("stopping", Action.FORGET),
    ("stopping", Move.UNFIT): ("stopping", Action.FORGET),
    ("stopping", Move.RUNNING): ("stopping", Action.CANCEL_JOB),
    ("stopping", Move.KILL): ("stopping", Action.NOTHING),
}
"""Every legal move; anything else is ignored, since it speaks of what is over."""

HOLDS_SLOTS: frozenset[RunState] = frozenset({"starting", "running", "stopping"})


@dataclass(frozen=True, slots=True)
class Instruction:
    """`action` (start or cancel the job) for the topology submitted by `submission`."""

    action: Action
    submission: SubmitTopology


@dataclass(slots=True)
class Run:
    """One topology; `successor` takes its place when it has stopped. `ending` says how its last job ended."""

    submission: SubmitTopology
    state: RunState = "waiting"
    reason: str = ""
    ending: str = ""
    restarts: int = 0
    backoff_ms: int = 0
    due_ms: int = 0
    running_since_ms: int = 0
    successor: SubmitTopology | None = None


@dataclass(slots=True)
class TopologyRuns:
    """All topologies of a driver with `slots_total` slots; delays between restarts double up to the longest."""

    slots_total: int
    first_backoff_ms: int
    longest_backoff_ms: int
    runs: dict[PlanKey, Run] = field(default_factory=dict)

    def submit(self, submission: SubmitTopology) -> list[Instruction]:
        """Takes in a topology; one of the same plan and an older epoch is stopped first, the same epoch is known."""
        run = self.runs.get(submission.key)
        if run is None:
            self.runs[submission.key] = Run(submission)
            return []
        newest = run.successor or run.submission
        if submission.epoch <= newest.epoch and not (run.state == "stopping" and run.successor is None):
            return []
        instructions = self._move(submission.key, Move.KILL)
        if submission.key in self.runs:
            run.successor = submission
        else:
            self.runs[submission.key] = Run(submission)
        return instructions

    def kill(self, key: PlanKey) -> list[Instruction]:
        """Ends a topology for good; one that is not there needs nothing."""
        run = self.runs.get(key)
        if run is None:
            return []
        run.successor = None
        return self._move(key, Move.KILL)

    def job_running(self, key: PlanKey, epoch: int, now_ms: int) -> list[Instruction]:
        """All tasks of the topology's job have started."""
        run = self._current(key, epoch)
        if run is None:
            return []
        run.running_since_ms = now_ms
        return self._move(key, Move.RUNNING)

    def job_ended(self, key: PlanKey, epoch: int, reason: str, unfit: bool, now_ms: int) -> list[Instruction]:
        """The topology's job is over; `unfit` when the plan itself cannot run, so that another try is no use."""
        run = self._current(key, epoch)
        if run is None:
            return []
        if run.state in ("starting", "running"):
            stable = run.state == "running" and now_ms - run.running_since_ms >= STABLE_MS
            run.backoff_ms = self.first_backoff_ms if stable or not run.backoff_ms else 2 * run.backoff_ms
            run.backoff_ms = min(run.backoff_ms, self.longest_backoff_ms)
            run.due_ms = now_ms + run.backoff_ms
            run.restarts += 0 if unfit else 1
            run.reason = run.ending = reason
        return self._move(key, Move.UNFIT if unfit else Move.ENDED)

    def on_time(self, now_ms: int) -> list[Instruction]:
        """Lets topologies start that are due and fit, in the order in which they began to wait."""
        for key, run in list(self.runs.items()):
            if run.state == "restarting" and run.due_ms <= now_ms:
                self._move(key, Move.DUE)
                self.runs[key] = self.runs.pop(key)  # behind those that wait already
        instructions: list[Instruction] = []
        first: Run | None = None
        for key, run in list(self.runs.items()):
            if run.state != "waiting":
                continue
            needed, free, total = run.submission.workers, self.slots_free(), self.slots_total
            if needed > total:
                run.reason = f"needs {needed} slots, the cluster has {total} in all"
            elif first is not None:
                run.reason = f"waits for {first.submission.key.topology()}, which came first"
            elif needed > free:
                run.reason = f"needs {needed} free slots, {free} of {total} are free"
                first = run
            else:
                run.reason = run.ending
                instructions += self._move(key, Move.ADMIT)
        return instructions

    def slots_free(self) -> int:
        """Slots that no topology holds."""
        return self.slots_total - sum(run.submission.workers for run in self.runs.values() if run.state in HOLDS_SLOTS)

    def reports(self) -> tuple[TopologyReport, ...]:
        """Every topology as the manager is told."""
        return tuple(
            TopologyReport(key, run.submission.epoch, run.state, run.reason, run.restarts)
            for key, run in self.runs.items()
        )

    def _current(self, key: PlanKey, epoch: int) -> Run | None:
        run = self.runs.get(key)
        return run if run is not None and run.submission.epoch == epoch else None

    def _move(self, key: PlanKey, move: Move) -> list[Instruction]:
        run = self.runs[key]
        found = TRANSITIONS.get((run.state, move))
        if found is None:
            return []
        run.state, action = found
        if run.state == "running":
            run.reason = ""
        if action is Action.FORGET:
            del self.runs[key]
            if run.successor is not None:
                self.runs[key] = Run(run.successor)
            return []
        return [Instruction(action, run.submission)] if action is not Action.NOTHING else []
