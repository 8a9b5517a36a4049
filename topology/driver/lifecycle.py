"""The life cycle of a driver's topologies: waiting for slots, starting, running, restarting. Pure.

                      admit            running
    submit ─▶ WAITING ─────▶ STARTING ─────────▶ RUNNING
                 ▲               │ ended            │ ended
                 │ due           ▼                  ▼
                 └────────── RESTARTING ◀───────────┘        kill, or a newer epoch, from anywhere: STOPPING, then gone
                                                             (one that runs may take a last checkpoint before)
                                                             a fault of the plan itself: FAILED

A plan has one topology, except during a change: a newer epoch may be started beside the older one, which continues
until it is killed. A newer epoch that was not submitted to run beside the older ones ends them, and starts after them.

A topology gets all of its slots in one decision, so two that fit separately but not together never deadlock with a part
each. Waiting topologies are admitted in order of arrival: a small one does not overtake a large one, so none starves.
Only one that needs more slots than the cluster has is skipped, until executors join. When a topology ends in favour of
another one of its plan, that one is next, since the slots were its plan's.

A topology whose plan shares stage hosts takes no slot itself: its hosts do (`hosting`), while they run. It starts when
there is a host for its tenant, or a slot for one. A plan that is `alone` is no longer placed there.

A slot is one core of an executor. A task that asks for several takes them on one executor; where tasks are placed is
Spark's choice, so a topology that was admitted may find its slots in pieces: when its tasks have not started in time,
its job is cancelled, and it waits again behind the others. The time-out starts when the job is submitted to Spark:
before, the checkpoint store is asked what the topology starts from, and takes as long as it takes. A stage host starts
its plans one after another: however many there are, none of them is late as long as the host sends heartbeats.

Spark ends the jobs of a lost executor before it reports the loss. So after a job has ended unexpectedly nothing is
admitted until the executors have been looked up again; a topology whose slots are lost before its tasks have started is
recalled soon, because Spark would let its job wait silently.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum

import msgspec

from cep_common.ids import PlanKey
from cep_common.protocol.drivers import RunState, SubmitTopology, TopologyReport
from topology.driver.start_limit import start_limit_ms

SETTLES_MS = 200
"""The time after the end of a job in which Spark's list of executors shows whether one was lost with it."""

SLOW_STORE_MS = 5_000
"""A topology that waits this long for the checkpoint store to determine its starting point reports it."""

OVERBOOKED_MS = 5_000
"""How long topologies may hold more slots than exist: jobs of a lost executor end on their own."""


MOST_CLEARED = 64
"""Maximum number of attempts that no event can have ended to be remembered, the newest."""


class TopologyTransition(Enum):
    """An event in the life of a topology."""

    ADMIT = "admit"
    RUNNING = "running"
    ENDED = "ended"
    UNFIT = "unfit"
    DUE = "due"
    KILL = "kill"
    DRAIN = "drain"
    DRAINED = "drained"


class TopologyAction(Enum):
    """An action for the driver."""

    NOTHING = "nothing"
    START_JOB = "start job"
    CANCEL_JOB = "cancel job"
    DRAIN_JOB = "drain job"
    FORGET = "forget"


TRANSITIONS: dict[tuple[RunState, TopologyTransition], tuple[RunState, TopologyAction]] = {
    ("waiting", TopologyTransition.ADMIT): ("starting", TopologyAction.START_JOB),
    ("waiting", TopologyTransition.KILL): ("stopping", TopologyAction.FORGET),
    ("starting", TopologyTransition.RUNNING): ("running", TopologyAction.NOTHING),
    ("starting", TopologyTransition.ENDED): ("restarting", TopologyAction.NOTHING),
    ("starting", TopologyTransition.UNFIT): ("failed", TopologyAction.NOTHING),
    ("starting", TopologyTransition.KILL): ("stopping", TopologyAction.CANCEL_JOB),
    ("running", TopologyTransition.ENDED): ("restarting", TopologyAction.NOTHING),
    ("running", TopologyTransition.UNFIT): ("failed", TopologyAction.NOTHING),
    ("running", TopologyTransition.KILL): ("stopping", TopologyAction.CANCEL_JOB),
    ("restarting", TopologyTransition.DUE): ("waiting", TopologyAction.NOTHING),
    ("restarting", TopologyTransition.KILL): ("stopping", TopologyAction.FORGET),
    ("failed", TopologyTransition.KILL): ("stopping", TopologyAction.FORGET),
    ("stopping", TopologyTransition.ENDED): ("stopping", TopologyAction.FORGET),
    ("stopping", TopologyTransition.UNFIT): ("stopping", TopologyAction.FORGET),
    ("stopping", TopologyTransition.RUNNING): ("stopping", TopologyAction.CANCEL_JOB),
    ("stopping", TopologyTransition.KILL): ("stopping", TopologyAction.CANCEL_JOB),
    ("waiting", TopologyTransition.DRAIN): ("stopping", TopologyAction.FORGET),
    ("starting", TopologyTransition.DRAIN): ("stopping", TopologyAction.CANCEL_JOB),
    ("running", TopologyTransition.DRAIN): ("stopping", TopologyAction.DRAIN_JOB),
    ("restarting", TopologyTransition.DRAIN): ("stopping", TopologyAction.FORGET),
    ("failed", TopologyTransition.DRAIN): ("stopping", TopologyAction.FORGET),
    ("stopping", TopologyTransition.DRAINED): ("stopping", TopologyAction.CANCEL_JOB),
}
"""All legal transitions. Other events are ignored, since they refer to an earlier state."""

HOLDS_SLOTS: frozenset[RunState] = frozenset({"starting", "running", "stopping"})
MOVING: frozenset[RunState] = frozenset({"waiting", "starting", "restarting", "stopping"})
"""States of topologies that change without a further order."""


@dataclass(frozen=True, slots=True)
class Instruction:
    """An order about the job of a topology.

    `action` (start, drain or cancel the job) is for the topology submitted by `submission`, which has been restarted
    `attempt` times.
    """

    action: TopologyAction
    submission: SubmitTopology
    attempt: int


@dataclass(slots=True)
class TopologyRun:
    """The state of one topology.

    `ending` describes how its last job ended, `recalled` why its current one is cancelled; if that is `innocent`, no
    event of the topology has to do with it. Attempts that ended so are `cleared`, the newest of them; those that ended
    in a way that proves little against an event are `doubtful`. A topology that is `draining` takes its last
    checkpoint. A topology that runs `alone` gets no seat in a stage host, and one that `moves` is leaving its host. Its
    slots were assigned at `admitted_ms`, its job was submitted to Spark at `given_ms` (None: not yet); its tasks did
    not start in time `late` times in a row. A `queued` topology waits in a stage host, which starts its plans one after
    the other.
    """

    submission: SubmitTopology
    state: RunState = "waiting"
    reason: str = ""
    ending: str = ""
    restarts: int = 0
    backoff_ms: int = 0
    due_ms: int = 0
    running_since_ms: int = 0
    admitted_ms: int = 0
    given_ms: int | None = None
    late: int = 0
    queued: bool = False
    recalled: str = ""
    innocent: bool = False
    cleared: tuple[int, ...] = ()
    doubtful: tuple[int, ...] = ()
    draining: bool = False
    alone: bool = False
    moves: bool = False

    @property
    def shared(self) -> bool:
        """Return whether its task runs in a stage host, together with tasks of other plans."""
        return self.submission.host == "shared" and not self.alone

    @property
    def slots(self) -> int:
        """Return the number of slots that it needs or holds itself."""
        return 0 if self.shared else self.submission.workers * self.submission.cores


RunId = tuple[PlanKey, int]
"""A plan and an epoch."""


@dataclass(frozen=True, slots=True)
class SlotUse:
    """The slots that the topologies of a driver need.

    They hold `held` slots of their own, `tenants` have plans in stage hosts, and a topology waits for slots if
    `wanted`. While one `moves`, its state may change without an order.
    """

    held: int
    tenants: frozenset[int]
    wanted: bool
    moves: bool


@dataclass(slots=True)
class TopologyRuns:
    """All topologies of a driver whose executors have `executors` slots each.

    Delays between restarts double up to a maximum, and start over for a topology that ran at least that long. Tasks
    have `start_timeout_ms` to start, and longer after starts that took too long (`start_limit`). `seen_ms` is when
    the executors were looked up, None when they are known without looking.
    """

    executors: tuple[int, ...]
    first_backoff_ms: int
    longest_backoff_ms: int
    start_timeout_ms: int
    seen_ms: int | None = None
    runs: dict[RunId, TopologyRun] = field(default_factory=dict)
    hosts: dict[int, int] = field(default_factory=dict)
    """The number of stage hosts of each tenant; each holds a slot."""
    hosts_open: frozenset[int] = frozenset()
    """The tenants with a host that accepts plans."""
    _unsure_until_ms: int = 0
    """The time until which the list of executors may include a lost one."""
    _overbooked_since_ms: int | None = None

    def submit(self, submission: SubmitTopology, refusal: str = "") -> list[Instruction]:
        """Accept a topology, unless its epoch is known or over, not being above all others of its plan.

        Older ones are stopped first, unless it is to run beside them. `refusal` says why it can never run here: it
        has failed then.
        """
        if any(run.submission.epoch >= submission.epoch for run in self._of(submission.key)):
            return []
        instructions = [] if submission.beside else self.kill(submission.key, drain=True)
        state: RunState = "failed" if refusal else "waiting"
        self.runs[submission.key, submission.epoch] = TopologyRun(submission, state, refusal)
        return instructions

    def rename(self, key: PlanKey) -> None:
        """Report the plan under the name in `key` from now on."""
        for run in self._of(key):
            run.submission = msgspec.structs.replace(run.submission, key=key)
        self.runs = {(run.submission.key, epoch): run for (_, epoch), run in self.runs.items()}

    def kill(self, key: PlanKey, epoch: int = 0, drain: bool = False) -> list[Instruction]:
        """End the plan's topology of `epoch` (0 for all) permanently; a missing one is ignored.

        With `drain`, a running topology continues until `drained`.
        """
        instructions: list[Instruction] = []
        for run in self._of(key):
            if epoch in (0, run.submission.epoch):
                instructions += self._move(run, TopologyTransition.DRAIN if drain else TopologyTransition.KILL)
        return instructions

    def drain_all(self) -> list[Instruction]:
        """Let every topology take its last checkpoint, if it can, and end."""
        return [one for key in {key for key, _ in self.runs} for one in self.kill(key, drain=True)]

    def drained(self, key: PlanKey, epoch: int, attempt: int) -> list[Instruction]:
        """Record that the topology's last checkpoint is complete, or that there will be none."""
        run = self.runs.get((key, epoch))
        if run is None or run.restarts != attempt or not run.draining:
            return []
        run.draining = False
        return self._move(run, TopologyTransition.DRAINED)

    def recall(
        self, key: PlanKey, epoch: int, attempt: int, reason: str, *, innocent: bool = False
    ) -> list[Instruction]:
        """Cancel the job of a topology because of `reason`, and restart it.

        It has lost a task, or is `innocent`: the driver has its own reasons, which no event can have caused.
        """
        run = self.runs.get((key, epoch))
        if run is None or run.restarts != attempt or run.state not in ("starting", "running"):
            return []
        run.recalled, run.innocent = reason, innocent
        return [Instruction(TopologyAction.CANCEL_JOB, run.submission, attempt)]

    def job_given(self, key: PlanKey, epoch: int, now_ms: int) -> None:
        """Record that the topology's job was submitted to Spark, which starts the time-out of its tasks."""
        run = self.runs.get((key, epoch))
        if run is not None and run.state == "starting":
            run.given_ms, run.reason = now_ms, run.ending

    def job_queued(self, key: PlanKey, epoch: int) -> None:
        """Record that a stage host is to start the topology: behind others, so that no time limit applies.

        A host that does not start, hangs or dies is detected, and the plans that wait in it are ended.
        """
        run = self.runs.get((key, epoch))
        if run is not None and run.state == "starting":
            run.queued, run.reason = True, run.ending

    def job_running(self, key: PlanKey, epoch: int, now_ms: int) -> list[Instruction]:
        """Record that all tasks of the topology's job have started."""
        run = self.runs.get((key, epoch))
        if run is None or run.draining:
            return []
        run.running_since_ms, run.late = now_ms, 0
        return self._move(run, TopologyTransition.RUNNING)

    def job_ended(
        self,
        key: PlanKey,
        epoch: int,
        reason: str,
        unfit: bool,
        now_ms: int,
        innocent: bool = False,
        doubtful: bool = False,
    ) -> list[Instruction]:
        """Record that the job of the topology is over.

        It is `unfit` when the plan itself cannot run, so that a restart is useless, `innocent` when no event can have
        ended it, and `doubtful` when other causes are as likely.
        """
        run = self.runs.get((key, epoch))
        if run is None:
            return []
        if run.state in ("starting", "running"):
            stable = run.state == "running" and now_ms - run.running_since_ms >= self.longest_backoff_ms
            run.backoff_ms = self.first_backoff_ms if stable or not run.backoff_ms else 2 * run.backoff_ms
            run.backoff_ms = min(run.backoff_ms, self.longest_backoff_ms)
            run.due_ms = now_ms + run.backoff_ms
            if innocent or run.innocent:
                run.cleared = (*run.cleared, run.restarts)[-MOST_CLEARED:]
            elif doubtful:
                run.doubtful = (*run.doubtful, run.restarts)[-MOST_CLEARED:]
            run.innocent = False
            run.restarts += 0 if unfit else 1
            run.reason = run.ending = run.recalled or reason
            run.recalled = ""
            run.alone, run.moves = run.alone or run.moves, False
            self._unsure_until_ms = now_ms + SETTLES_MS
        return self._move(run, TopologyTransition.UNFIT if unfit else TopologyTransition.ENDED)

    def on_time(self, now_ms: int) -> list[Instruction]:
        """Start topologies that are due and fit, in the order in which they began to wait.

        Also cancel and restart those whose tasks do not start.
        """
        for run_id, run in list(self.runs.items()):
            if run.state == "restarting" and run.due_ms <= now_ms:
                self._move(run, TopologyTransition.DUE)
                self.runs[run_id] = self.runs.pop(run_id)  # after those that are already waiting
        instructions = self._recall(now_ms)
        unsure = self.seen_ms is not None and self.seen_ms < self._unsure_until_ms
        first: TopologyRun | None = None
        for run in list(self.runs.values()):
            if run.state != "waiting":
                continue
            if unsure:
                run.reason = run.reason or "waits until the remaining executors are known"
                continue
            former = self._former(run.submission)
            if former is not None:
                run.reason = f"waits until epoch {former.submission.epoch} has ended"
            elif run.shared and run.submission.key.tenant in self.hosts_open:
                instructions += self._admit(run, now_ms)
            elif not self._could_fit(run.submission):
                run.reason = f"needs {_needs(run.submission)}, the cluster has {self._offers(run.submission)}"
            elif first is not None:
                run.reason = f"waits for {first.submission.key.topology()}, which was submitted first"
            elif run.shared and self.slots_free() < 1:
                run.reason = f"needs a slot for a stage host, 0 of {self.slots_total} are free"
                first = run
            elif run.slots > self.slots_free():
                free = f"{max(0, self.slots_free())} of {self.slots_total} are free"
                run.reason = f"needs {_needs(run.submission, free=True)}, {free}"
                first = run
            else:
                instructions += self._admit(run, now_ms)
        return instructions

    def _admit(self, run: TopologyRun, now_ms: int) -> list[Instruction]:
        run.reason = run.ending
        run.admitted_ms, run.given_ms, run.queued = now_ms, None, False
        return self._move(run, TopologyTransition.ADMIT)

    @property
    def slots_total(self) -> int:
        """Return the slots of all current executors."""
        return sum(self.executors)

    def slots_free(self) -> int:
        """Return the number of slots that no topology or stage host holds.

        It is negative while topologies that lost executors have not ended yet. For plans of a tenant without a host,
        a host that is to be started counts.
        """
        return self.slots_free_of(self.slot_use())

    def slots_free_of(self, use: SlotUse) -> int:
        """Return the number of free slots if topologies use `use`."""
        hosts = dict.fromkeys(use.tenants, 1) | self.hosts
        return self.slots_total - use.held - sum(hosts.values())

    def slot_use(self) -> SlotUse:
        """Return the slots that the topologies need now."""
        held = [run for run in self.runs.values() if run.state in HOLDS_SLOTS]
        return SlotUse(
            held=sum(run.slots for run in held),
            tenants=frozenset(run.submission.key.tenant for run in held if run.shared),
            wanted=self.slots_wanted,
            moves=any(run.state in MOVING for run in self.runs.values()),
        )

    @property
    def slots_wanted(self) -> bool:
        """Return whether a topology waits for slots that would be available if nothing ran."""
        return any(
            run.state == "waiting" and not run.shared and self._could_fit(run.submission) for run in self.runs.values()
        )

    def leave_hosts(self, key: PlanKey, reason: str) -> list[Instruction]:
        """Take the plan's topologies out of stage hosts, for that `reason`.

        Plans that run in one restart in slots of their own.
        """
        instructions: list[Instruction] = []
        for run in self._of(key):
            if not run.shared or run.moves:
                continue
            if run.state in ("starting", "running"):
                run.moves = True
                instructions += self.recall(key, run.submission.epoch, run.restarts, reason, innocent=True)
            elif run.state in ("waiting", "restarting"):
                run.alone = True
        return instructions

    def reports(self) -> tuple[TopologyReport, ...]:
        """Return the reports of all topologies for the manager."""
        return tuple(
            TopologyReport(key, epoch, run.state, run.reason, run.restarts, deployed_ms=run.submission.deployed_ms)
            for (key, epoch), run in self.runs.items()
        )

    def _could_fit(self, submission: SubmitTopology) -> bool:
        """Return whether the executors could run all its tasks if they ran nothing else."""
        return sum(slots // submission.cores for slots in self.executors) >= submission.workers

    def _offers(self, submission: SubmitTopology) -> str:
        in_all = f"{self.slots_total} in all"
        if submission.workers * submission.cores <= self.slots_total:
            return f"{in_all}, at most {max(self.executors)} on one executor"
        return in_all

    def _recall(self, now_ms: int) -> list[Instruction]:
        instructions: list[Instruction] = []
        for run in self.runs.values():
            if run.state != "starting":
                continue
            if run.queued:
                if now_ms - run.admitted_ms >= SLOW_STORE_MS:
                    run.reason = run.ending or "waits for its turn to start in a stage host"
            elif run.given_ms is None:
                if now_ms - run.admitted_ms >= SLOW_STORE_MS:
                    run.reason = "waits for the checkpoint store to determine its starting state"
            elif now_ms - run.given_ms >= (limit_ms := start_limit_ms(self.start_timeout_ms, run.late)):
                run.given_ms = now_ms
                run.late += 1
                run.innocent = True
                run.recalled = f"its tasks did not start within {limit_ms / 1000:.0f} s, though there are slots"
                instructions.append(Instruction(TopologyAction.CANCEL_JOB, run.submission, run.restarts))
        return instructions + self._take_back(now_ms)

    def _take_back(self, now_ms: int) -> list[Instruction]:
        """Recall the newest topologies that hold missing slots and have not started."""
        missing = -self.slots_free()
        if missing <= 0:
            self._overbooked_since_ms = None
            return []
        if self._overbooked_since_ms is None:
            self._overbooked_since_ms = now_ms
        instructions: list[Instruction] = []
        if now_ms - self._overbooked_since_ms >= OVERBOOKED_MS:
            self._overbooked_since_ms = now_ms
            for run in sorted(self.runs.values(), key=lambda one: one.admitted_ms, reverse=True):
                if run.state == "starting" and missing > 0:
                    missing -= run.slots
                    run.recalled, run.innocent = "its slots were lost before its tasks had started", True
                    instructions.append(Instruction(TopologyAction.CANCEL_JOB, run.submission, run.restarts))
        return instructions

    def _of(self, key: PlanKey) -> list[TopologyRun]:
        return [run for (plan, _), run in self.runs.items() if plan == key]

    def _former(self, submission: SubmitTopology) -> TopologyRun | None:
        """Return an older topology of the plan whose end must be awaited."""
        older = (run for run in self._of(submission.key) if run.submission.epoch < submission.epoch)
        return None if submission.beside else next(older, None)

    def _move(self, run: TopologyRun, move: TopologyTransition) -> list[Instruction]:
        found = TRANSITIONS.get((run.state, move))
        if found is None:
            return []
        run.state, action = found
        if run.state == "running":
            run.reason, run.recalled, run.innocent = "", "", False
        run.draining = action is TopologyAction.DRAIN_JOB
        if run.draining:
            run.reason = "takes its last checkpoint"
        if action is TopologyAction.FORGET:
            self._forget(run.submission)
            return []
        return [Instruction(action, run.submission, run.restarts)] if action is not TopologyAction.NOTHING else []

    def _forget(self, gone: SubmitTopology) -> None:
        del self.runs[gone.key, gone.epoch]
        heirs = {run_id: run for run_id, run in self.runs.items() if run_id[0] == gone.key and run.state == "waiting"}
        self.runs = {**heirs, **self.runs}


def _needs(submission: SubmitTopology, *, free: bool = False) -> str:
    slots = submission.workers * submission.cores
    what = f"{slots} {'free ' if free else ''}slots"
    return what if submission.cores == 1 else f"{what} ({submission.workers} tasks of {submission.cores} each)"
