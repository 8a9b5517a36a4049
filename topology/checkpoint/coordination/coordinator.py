"""The checkpoint coordinator: begins, completes and fails checkpoints, and detects lost tasks. Pure.

It handles all topologies of a driver. Each attempt of a topology is a run, whose phases are in
`topology.checkpoint.coordination.runs`. While two epochs of a plan run side by side, only the older one takes
checkpoints; the newer one starts when that has ended. Times are monotonic milliseconds.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass

from cep_common.ids import PlanKey
from cep_common.lease import AdaptiveLease
from cep_common.protocol.checkpoints import (
    AbandonCheckpoint,
    BeginCheckpoint,
    CompleteCheckpoint,
    JoinTopology,
    ReportPart,
    TopologyJoined,
)
from cep_common.protocol.drivers import CheckpointState, CheckpointTrigger
from cep_common.protocol.registry import Message, Rejected
from topology.checkpoint.coordination.instructions import (
    Drained,
    Instruction,
    OpenRun,
    ProbeTask,
    Push,
    ReserveNumbers,
    RestartTopology,
    SavepointEnded,
    WriteManifest,
)
from topology.checkpoint.coordination.runs import (
    TRANSITIONS,
    Attempted,
    CheckpointedRun,
    Opening,
    Phase,
    RunId,
    RunTransition,
    TaskSeen,
)

FIRST_MS = 500
"""Delay of the first checkpoint of a restarted run after its tasks have joined: workers send again what was under way
then, and exactly once, results of that wait for the checkpoint behind it."""

PROBE_LEASES = 0.4
"""The share of a lease after which the process of a silent task is probed."""

NEVER_MS = 3_600_000
"""How far ahead the next call is due if there are no runs."""

IDLE_LOOK_MS = 1_000
"""Minimum delay of the next checkpoint of an idle topology after new events arrive."""

HOSTED = 120
"""The factor by which heartbeats and leases of tasks in stage hosts are longer: hosts send heartbeats for all of their
tasks anyway, which a thousand plans should not repeat four times a second."""

AWAY_LEASES = 0.5
"""The share of a lease by which the coordinator's own loop may be late. If it is later, the silence of tasks until then
does not count."""


@dataclass(frozen=True, slots=True)
class Timing:
    """When checkpoints begin and when tasks are considered lost.

    Checkpoints begin every `interval_ms` (0: only on request), `pause_ms` after the end of the last at the earliest,
    and fail after `timeout_ms`; the last of a run may take `drain_ms`. After a restart the first begins at
    `FIRST_MS`, and the distance doubles each time up to the interval. Tasks send a heartbeat every `heartbeat_ms` and
    are lost after `lease_ms`, or later while heartbeats are late (see `AdaptiveLease`); all must have joined
    `join_ms` after their job runs.
    """

    interval_ms: int
    timeout_ms: int
    pause_ms: int
    heartbeat_ms: int
    lease_ms: int
    join_ms: int
    drain_ms: int = 10_000


class Coordinator:
    """Coordinates all runs, by plan and epoch; without a store `takes` is False, and tasks are only monitored.

    A broken link loses messages in flight. So tasks that have not reported are sent the checkpoint
    again: in each lease, and when they come by another link.
    """

    def __init__(self, timing: Timing, takes: bool) -> None:
        self._timing = timing
        self._takes = takes
        self._lease = AdaptiveLease(timing.lease_ms, timing.heartbeat_ms)
        self._looked_ms: int | None = None
        self._past: dict[tuple[PlanKey, int], tuple[deque[Attempted], int]] = {}
        self.runs: dict[tuple[PlanKey, int], CheckpointedRun] = {}
        self.changed: set[tuple[PlanKey, int]] = set()
        """The topologies that have changed, until the owner clears it."""
        self._due_ms = 0
        """When the next run must be checked, so that a thousand runs need not be checked each time."""

    # ---- runs -------------------------------------------------------------------------------------------------------

    def begin_run(
        self,
        run: RunId,
        tasks: int,
        opening: Opening | None,
        interval_ms: int | None = None,
        query_plan: str = "",
    ) -> list[Instruction]:
        """Begin an attempt, which runs `query_plan`.

        `opening` is None when it begins beside an older epoch, or nothing is stored. `interval_ms` is the plan's own
        distance of checkpoints, None for that of all plans.
        """
        before = self.runs.get((run.key, run.epoch))
        instructions = self.end_run(before.id, "the topology was started again") if before is not None else []
        own_ms = self._timing.interval_ms if interval_ms is None else interval_ms
        new = CheckpointedRun(run, tasks, own_ms, query_plan)
        new.history, new.failures = self._past.pop((run.key, run.epoch), (new.history, 0))
        self.runs[run.key, run.epoch] = new
        self._note(new)
        if opening is not None:
            self._open(new, opening)
        return instructions

    def open_run(self, run_id: RunId, opening: Opening) -> None:
        """Apply the store's answer to `OpenRun`."""
        run = self._find(run_id)
        if run is not None:
            self._open(run, opening)

    def numbers_reserved(self, run_id: RunId, reserved: int) -> None:
        """Apply the store's answer to `ReserveNumbers`."""
        run = self._find(run_id)
        if run is not None:
            run.reserved, run.asked_ms = max(run.reserved, reserved), None
            self._look_again(run)

    def job_runs(self, run_id: RunId, now_ms: int) -> None:
        """Record that all tasks of the run's job have started."""
        run = self._find(run_id)
        if run is not None and run.started_ms is None:
            run.started_ms = now_ms
            self._look_again(run)

    def end_run(self, run_id: RunId, reason: str) -> list[Instruction]:
        """End the run, whose job is over. Its pending requests fail."""
        run = self._find(run_id)
        if run is None:
            return []
        del self.runs[run_id.key, run_id.epoch]
        self._due_ms = 0  # a run beside it may become the plan's
        self.changed.add((run_id.key, run_id.epoch))
        instructions: list[Instruction] = []
        if run.phase in (Phase.TAKING, Phase.WRITING):
            attempted = run.history[-1]
            attempted.state, attempted.error = "abandoned", f"the topology ended: {reason}"
            instructions += self._savepoint_ended(run, attempted.name, reason)
        self._past[run_id.key, run_id.epoch] = run.history, run.failures
        for name in run.wishes:
            instructions += self._savepoint_ended(run, name, reason)
        if run.drain_until_ms is not None:
            instructions.append(Drained(run.id, reason))
        return instructions

    def forget(self, key: PlanKey, epoch: int) -> None:
        """Remove a topology that has ended and will not restart."""
        self._past.pop((key, epoch), None)

    # ---- tasks ------------------------------------------------------------------------------------------------------

    def join(self, peer: bytes, message: JoinTopology, now_ms: int) -> Message:
        """Return the answer to a task that joins or sends a heartbeat."""
        run = self.runs.get((message.key, message.epoch))
        what = f"attempt {message.attempt} of epoch {message.epoch} of {message.key.topology()}"
        if run is None or run.id.attempt != message.attempt:
            return Rejected("stale-epoch", f"{what} is not what this driver runs")
        if not 0 <= message.task < run.tasks:
            return Rejected("unexpected-message", f"{what} has no task {message.task}")
        before = run.seen.get(message.task)
        if before is not None:
            if not message.hosted:
                self._lease.heard(now_ms - before.heard_ms, now_ms)
            if before.peer != peer:
                run.told_ms = None
        stretched = HOSTED if message.hosted else 1
        run.seen[message.task] = TaskSeen(
            peer, now_ms, message.exchange, message.settled, stretched=stretched, idle=message.idle
        )
        if before is None or (before.idle, before.settled, before.peer) != (message.idle, message.settled, peer):
            self._look_again(run)
            self._note(run)
        if before is not None and before.idle and not message.idle:
            soon_ms = now_ms + IDLE_LOOK_MS
            run.due_ms = min(run.due_ms, soon_ms) if run.due_ms > now_ms else soon_ms  # it was not checked meanwhile
        if len(run.seen) == run.tasks and self._move(run, RunTransition.JOINED):
            first_ms = FIRST_MS if run.begins_again else run.interval_ms
            run.distance_ms = min(first_ms, run.interval_ms)
            run.due_ms = now_ms + run.distance_ms
        timing = self._timing
        return TopologyJoined(timing.heartbeat_ms * stretched, timing.lease_ms * stretched, run.exchanges())

    def task_ended(self, run_id: RunId, task: int) -> list[Instruction]:
        """Record that the process of a silent task has ended, as a probe has shown: its topology is lost."""
        run = self._find(run_id)
        if run is None or run.lost:
            return []
        run.lost = True
        return [RestartTopology(run.id, f"the process of task {task} has ended")]

    def report(self, message: ReportPart, now_ms: int) -> list[Instruction]:
        """Apply a task's report on its part of a checkpoint; ignore reports on finished checkpoints."""
        run = self._find(RunId(message.key, message.epoch, message.attempt))
        if run is None or run.phase is not Phase.TAKING or message.checkpoint != run.number:
            return []
        if message.error:
            return self._fail(run, "failed", f"task {message.task}: {message.error}", now_ms)
        if not 0 <= message.task < run.tasks:
            return []
        run.parts[message.task] = message
        attempted = run.history[-1]
        attempted.acknowledged = len(run.parts)
        self._note(run)
        if len(run.parts) < run.tasks:
            return []
        self._move(run, RunTransition.REPORTED)
        parts = tuple(run.parts[task] for task in sorted(run.parts))
        attempted.size_bytes = sum(state.size_bytes for part in parts for state in part.states)
        attempted.stored_bytes = sum(part.stored_bytes for part in parts)
        attempted.alignment_ms = max(part.alignment_ms for part in parts)
        return [WriteManifest(run.id, run.number, parts, attempted.name, now_ms - attempted.began_ms)]

    def written(self, run_id: RunId, checkpoint: int, error: str, now_ms: int, oldest: int = 0) -> list[Instruction]:
        """Apply the store's answer that the manifest was written, or why it was not (`error`).

        `oldest` is the first checkpoint that is retained (0: unknown).
        """
        run = self._find(run_id)
        if run is None or run.number != checkpoint or run.phase is not Phase.WRITING:
            return []
        if error:
            return self._fail(run, "failed", error, now_ms)
        self._move(run, RunTransition.WRITTEN)
        attempted = run.history[-1]
        attempted.state, attempted.duration_ms = "complete", now_ms - attempted.began_ms
        run.last_complete = checkpoint
        if run.final:
            run.settles = frozenset(task for task, part in run.parts.items() if part.settles)
        instructions = self._to_all(run, CompleteCheckpoint(checkpoint, oldest))
        instructions += self._savepoint_ended(run, attempted.name, "")
        return [*instructions, *self._over(run, "", now_ms)]

    # ---- orders -----------------------------------------------------------------------------------------------------

    def take_savepoint(self, key: PlanKey, epoch: int, name: str) -> list[Instruction]:
        """Store a checkpoint of the topology under `name`, as soon as one can be taken."""
        run = self.runs.get((key, epoch))
        refusal = self._refuse(run)
        if run is None or refusal:
            return [SavepointEnded(key, name, refusal)]
        if name not in run.wishes:
            run.wishes.append(name)
            self._look_again(run)
        return []

    def drain(self, run_id: RunId, now_ms: int) -> list[Instruction]:
        """Take a last checkpoint of the run, after which it accepts no events; `Drained` follows."""
        run = self._find(run_id)
        if run is not None and run.drain_until_ms is not None:
            return []
        refusal = self._refuse(run)
        if run is None or refusal or run.phase is Phase.JOINING or run.lost:
            return [Drained(run_id, refusal or "its tasks are not running")]
        run.drain_until_ms = now_ms + self._timing.drain_ms
        self._look_again(run)
        return []

    @property
    def due_ms(self) -> int:
        """Return when `on_time` must be called again, unless a message or an order arrives before."""
        return self._due_ms

    def on_time(self, now_ms: int, planned_ms: int | None = None) -> list[Instruction]:
        """Return the instructions that are due.

        Call it at `due_ms`, and after everything else. `planned_ms` is when this call was to come at the latest: the
        time between that and now counts as downtime of the coordinator itself. Without it, it was away since the last
        call.
        """
        expected_ms = self._looked_ms if planned_ms is None else planned_ms
        away_ms = max(0, now_ms - expected_ms) if expected_ms is not None else 0
        away = away_ms >= AWAY_LEASES * self._timing.lease_ms
        self._lease.heard(away_ms, now_ms)
        self._looked_ms = now_ms
        instructions: list[Instruction] = []
        if not away and now_ms < self._due_ms:
            return []
        for run in list(self.runs.values()):
            if away:
                for task in run.seen.values():
                    task.heard_ms = now_ms
            elif now_ms < run.look_ms:
                continue
            instructions += self._watch(run, now_ms)
            if run.phase is Phase.TAKING and now_ms - run.history[-1].began_ms >= self._timing.timeout_ms:
                missing = ", ".join(str(task) for task in range(run.tasks) if task not in run.parts)
                error = f"not all tasks had reported within {self._timing.timeout_ms} ms; missing: {missing}"
                instructions += self._fail(run, "abandoned", error, now_ms)
            instructions += self._tell_again(run, now_ms)
            instructions += self._end(run, now_ms)
            instructions += self._begin(run, now_ms)
            run.look_ms = self._next_look(run, now_ms)
        self._due_ms = min((run.look_ms for run in self.runs.values()), default=now_ms + NEVER_MS)
        return instructions

    # ---- steps ------------------------------------------------------------------------------------------------------

    def _next_look(self, run: CheckpointedRun, now_ms: int) -> int:
        """Return when something of the run can become due by the passing of time alone.

        Messages about the run are handled when they arrive. Only a run whose tasks are all heard and that waits for its
        next checkpoint need not be checked all the time.
        """
        quiet = run.phase is Phase.IDLE and not run.lost and not run.wishes and run.drain_until_ms is None
        if not quiet or run.opening is None or len(run.seen) < run.tasks:
            return now_ms
        probe_ms = PROBE_LEASES * self._timing.lease_ms
        heard_ms = min(seen.heard_ms + int(probe_ms * seen.stretched) for seen in run.seen.values())
        # a checkpoint of a current run would contain nothing new; a task with changes reports them
        takes = run.interval_ms > 0 and not run.is_current()
        due_ms = max(run.due_ms, run.free_ms) if takes else heard_ms
        return min(heard_ms, due_ms)

    def _watch(self, run: CheckpointedRun, now_ms: int) -> list[Instruction]:
        if run.lost:
            return []
        lease_ms = self._lease.ms(now_ms)
        silent = [
            task for task, seen in sorted(run.seen.items()) if now_ms - seen.heard_ms >= lease_ms * seen.stretched
        ]
        reason = ""
        if silent:
            reason = f"{_tasks(silent)} silent for {lease_ms * run.seen[silent[0]].stretched} ms"
        elif run.started_ms is not None and now_ms - run.started_ms >= self._timing.join_ms:
            missing = [task for task in range(run.tasks) if task not in run.seen]
            reason = f"{_tasks(missing)} never heard within {self._timing.join_ms // 1000} s" if missing else ""
        run.lost = bool(reason)
        return [RestartTopology(run.id, reason)] if reason else self._probe(run, now_ms)

    def _probe(self, run: CheckpointedRun, now_ms: int) -> list[Instruction]:
        """Tasks that have been silent for a while are probed, once in each heartbeat interval."""
        probes: list[Instruction] = []
        for task, seen in sorted(run.seen.items()):
            silent_ms = now_ms - seen.heard_ms
            if silent_ms < PROBE_LEASES * self._timing.lease_ms * seen.stretched or now_ms < seen.probe_ms:
                continue
            seen.probe_ms = now_ms + self._timing.heartbeat_ms
            probes.append(ProbeTask(run.id, task, seen.exchange))
        return probes

    def _begin(self, run: CheckpointedRun, now_ms: int) -> list[Instruction]:
        """Begin a checkpoint if one is due, or request what is missing for it."""
        if not self._takes or run.phase is not Phase.IDLE or run.lost or run.final:
            return []
        if run.opening is None:
            return self._ask(run, OpenRun(run.id), now_ms) if self._is_the_plans(run) else []
        asked = bool(run.wishes) or run.drain_until_ms is not None
        due = run.interval_ms > 0 and now_ms >= max(run.due_ms, run.free_ms)
        if not (asked or due):
            return []
        if not asked and run.is_current():
            run.due_ms = now_ms + run.interval_ms  # it would contain nothing new
            return []
        if run.number >= run.reserved:
            return self._ask(run, ReserveNumbers(run.id), now_ms)
        run.number += 1
        run.parts = {}
        run.final = run.drain_until_ms is not None and not run.wishes
        name = run.wishes.pop(0) if run.wishes else ""
        trigger: CheckpointTrigger = "savepoint" if name else "last" if run.final else "interval"
        run.history.append(Attempted(run.number, now_ms, run.tasks, name, trigger))
        run.distance_ms = min(2 * run.distance_ms, run.interval_ms)
        run.due_ms, run.told_ms = now_ms + run.distance_ms, now_ms
        self._move(run, RunTransition.BEGIN)
        reserve = self._ask(run, ReserveNumbers(run.id), now_ms) if run.number == run.reserved else []
        return [*self._to_all(run, BeginCheckpoint(run.number, run.final)), *reserve]

    def _tell_again(self, run: CheckpointedRun, now_ms: int) -> list[Instruction]:
        """Resend the order to tasks that have not reported for long: it or their report may have been lost."""
        if run.lost or run.phase is not Phase.TAKING:
            return []
        if run.told_ms is not None and now_ms - run.told_ms < self._timing.lease_ms:
            return []
        run.told_ms = now_ms
        begin = BeginCheckpoint(run.number, run.final)
        return [Push(seen.peer, begin) for task, seen in sorted(run.seen.items()) if task not in run.parts]

    def _ask(self, run: CheckpointedRun, question: Instruction, now_ms: int) -> list[Instruction]:
        """Send a request to the store, and repeat it if the store has not answered for long."""
        if run.asked_ms is not None and now_ms - run.asked_ms < self._timing.timeout_ms:
            return []
        run.asked_ms = now_ms
        return [question]

    def _fail(self, run: CheckpointedRun, state: CheckpointState, error: str, now_ms: int) -> list[Instruction]:
        attempted = run.history[-1]
        attempted.state, attempted.error, attempted.duration_ms = state, error, now_ms - attempted.began_ms
        run.failures += 1
        self._move(run, RunTransition.FAILED)
        instructions = self._to_all(run, AbandonCheckpoint(run.number))
        instructions += self._savepoint_ended(run, attempted.name, error)
        return [*instructions, *self._over(run, error, now_ms)]

    def _end(self, run: CheckpointedRun, now_ms: int) -> list[Instruction]:
        """Drain a run that is ending, once its last checkpoint is settled or that took too long."""
        if run.drain_until_ms is None:
            return []
        settled = bool(run.settles) and run.is_settled()
        if not settled and now_ms < run.drain_until_ms:
            return []
        run.drain_until_ms = None
        late = "its last checkpoint was not " + ("settled" if run.settles else "complete")
        return [Drained(run.id, "" if settled else f"{late} in time")]

    def _over(self, run: CheckpointedRun, error: str, now_ms: int) -> list[Instruction]:
        """Finish a checkpoint."""
        run.free_ms = now_ms + self._timing.pause_ms
        if run.distance_ms < run.interval_ms:  # large states are not to take all of its time
            took_ms = now_ms - run.history[-1].began_ms
            run.due_ms = max(run.due_ms, now_ms + min(took_ms, run.interval_ms))
        if run.final and run.drain_until_ms is not None and not run.settles:
            run.drain_until_ms = None
            return [Drained(run.id, error)]
        return []

    def _open(self, run: CheckpointedRun, opening: Opening) -> None:
        run.opening, run.asked_ms = opening, None
        self._look_again(run)
        self._note(run)
        run.number, run.reserved = opening.last_number, opening.reserved

    def _refuse(self, run: CheckpointedRun | None) -> str:
        if run is None:
            return "the topology does not run"
        if not self._takes:
            return "checkpoint.location in the driver's configuration is empty: nothing can be stored"
        if run.final or run.drain_until_ms is not None:
            return "the topology is being ended"
        return "" if run.opening is not None or self._is_the_plans(run) else "another epoch of the plan still runs"

    def _is_the_plans(self, run: CheckpointedRun) -> bool:
        return not any(key == run.id.key and epoch < run.id.epoch for key, epoch in self.runs)

    def _find(self, run_id: RunId) -> CheckpointedRun | None:
        run = self.runs.get((run_id.key, run_id.epoch))
        return run if run is not None and run.id == run_id else None

    def _to_all(self, run: CheckpointedRun, message: Message) -> list[Instruction]:
        return [Push(seen.peer, message) for _, seen in sorted(run.seen.items())]

    def _savepoint_ended(self, run: CheckpointedRun, name: str, error: str) -> list[Instruction]:
        return [SavepointEnded(run.id.key, name, error)] if name else []

    def _move(self, run: CheckpointedRun, move: RunTransition) -> bool:
        """Perform the transition, and return whether it was legal."""
        phase = TRANSITIONS.get((run.phase, move))
        if phase is None:
            return False
        run.phase = phase
        self._look_again(run)
        self._note(run)
        return True

    def _look_again(self, run: CheckpointedRun) -> None:
        """Let `on_time` check the run at its next call."""
        run.look_ms = self._due_ms = 0

    def _note(self, run: CheckpointedRun) -> None:
        """Record that the run has something new to report."""
        self.changed.add((run.id.key, run.id.epoch))


def _tasks(numbers: Iterable[int]) -> str:
    names = ", ".join(map(str, numbers))
    return f"tasks {names} were" if "," in names else f"task {names} was"
