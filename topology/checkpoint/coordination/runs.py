"""The checkpoint coordinator's state machine of one attempt of a topology.

                  all tasks        time, or            all tasks have         the manifest
                  have joined      somebody asks       reported               is written
        JOINING ─────────────▶ IDLE ──────────▶ TAKING ──────────────▶ WRITING ──────────▶ IDLE, `complete` to all tasks
                                ▲                  │ an error, or too long   │ it cannot be
                                └──────────────────┴─────────────────────────┘ `abandon` to all tasks

Times are monotonic milliseconds.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from enum import Enum

from cep_common.ids import Endpoint, PlanKey
from cep_common.protocol.checkpoints import ReportPart
from cep_common.protocol.drivers import CheckpointState, CheckpointTrigger
from cep_common.protocol.registry import CheckpointSpan

HISTORY = 8
"""Number of a topology's last checkpoints in reports; managers remember more."""


class Phase(Enum):
    """The phase of a run."""

    JOINING = "joining"
    IDLE = "idle"
    TAKING = "taking"
    WRITING = "writing"


class RunTransition(Enum):
    """An event in the life of a run."""

    JOINED = "all tasks have joined"
    BEGIN = "a checkpoint begins"
    REPORTED = "all tasks have reported"
    FAILED = "it has failed"
    WRITTEN = "its manifest is written"


TRANSITIONS: dict[tuple[Phase, RunTransition], Phase] = {
    (Phase.JOINING, RunTransition.JOINED): Phase.IDLE,
    (Phase.IDLE, RunTransition.BEGIN): Phase.TAKING,
    (Phase.TAKING, RunTransition.REPORTED): Phase.WRITING,
    (Phase.TAKING, RunTransition.FAILED): Phase.IDLE,
    (Phase.WRITING, RunTransition.WRITTEN): Phase.IDLE,
    (Phase.WRITING, RunTransition.FAILED): Phase.IDLE,
}
"""All legal transitions. Other events are ignored, since they refer to an earlier phase."""


@dataclass(frozen=True, slots=True)
class Opening:
    """The store's answer to a run that begins.

    It holds the spans of earlier attempts, and the numbers that the run may use, above `last_number` and up to
    `reserved`.
    """

    spans: tuple[CheckpointSpan, ...]
    last_number: int
    reserved: int
    continues: tuple[str, int] | None = None
    """The query plan and the number of tasks of the checkpoint that the run starts from."""


@dataclass(frozen=True, slots=True)
class RunId:
    """One attempt of a topology. Its plan was first deployed at `deployed_ms`; 0 if unknown."""

    key: PlanKey
    epoch: int
    attempt: int
    deployed_ms: int = field(default=0, compare=False)


@dataclass(slots=True)
class Attempted:
    """A started checkpoint, as reported."""

    checkpoint: int
    began_ms: int
    tasks: int
    name: str = ""
    trigger: CheckpointTrigger = "interval"
    state: CheckpointState = "taking"
    acknowledged: int = 0
    duration_ms: int = 0
    size_bytes: int = 0
    stored_bytes: int = 0
    alignment_ms: int = 0
    error: str = ""


@dataclass(slots=True)
class TaskSeen:
    """A task that has joined.

    It holds the peer to answer, when it was heard last, where it listens for other tasks, and the newest checkpoint
    that it has settled.
    """

    peer: bytes
    heard_ms: int
    exchange: Endpoint
    settled: int = 0
    probe_ms: int = 0
    """When it may be probed next if it is silent."""
    stretched: int = 1
    """The factor by which it may be silent longer than others."""
    idle: bool = False
    """The retained checkpoints include the task's whole state."""


@dataclass(slots=True)
class CheckpointedRun:
    """One attempt of a topology that runs in `tasks` tasks."""

    id: RunId
    tasks: int
    interval_ms: int
    """Interval between checkpoints; 0: only on request."""
    query_plan: str = ""
    opening: Opening | None = None
    phase: Phase = Phase.JOINING
    seen: dict[int, TaskSeen] = field(default_factory=dict)
    started_ms: int | None = None
    lost: bool = False
    asked_ms: int | None = None
    number: int = 0
    reserved: int = 0
    told_ms: int | None = None
    last_complete: int = 0
    due_ms: int = 0
    distance_ms: int = 0
    """The time from the beginning of the last checkpoint to that of the next one."""
    free_ms: int = 0
    look_ms: int = 0
    """When it must be checked next, unless a message about it arrives before."""
    parts: dict[int, ReportPart] = field(default_factory=dict)
    wishes: list[str] = field(default_factory=list)
    drain_until_ms: int | None = None
    final: bool = False
    settles: frozenset[int] = frozenset()
    """The tasks that must have settled the final checkpoint, which is complete, before the run may end."""
    failures: int = 0
    """Checkpoints that failed while the topology kept running."""
    history: deque[Attempted] = field(default_factory=lambda: deque(maxlen=HISTORY))

    @property
    def begins_again(self) -> bool:
        """Return whether an earlier attempt of the same epoch, or an earlier epoch of the same plan, has a checkpoint.

        Until an edited plan has one, it may still go back to the checkpoints of the former text. A plan that another
        manager or another node starts under a new epoch is what it was before.
        """
        spans = self.opening.spans if self.opening is not None else ()
        if self.opening is not None and self.opening.continues == (self.query_plan, self.tasks):
            return True
        return any(span.epoch == self.id.epoch and span.last for span in spans)

    def is_current(self) -> bool:
        """Return whether the retained checkpoints include the topology's whole state."""
        whole = bool(self.last_complete) and len(self.seen) == self.tasks
        return whole and all(seen.idle for seen in self.seen.values())

    def exchanges(self) -> tuple[Endpoint, ...]:
        """Return where all tasks listen for each other, in order; none before all have joined."""
        if len(self.seen) < self.tasks:
            return ()
        return tuple(self.seen[task].exchange for task in range(self.tasks))

    def is_settled(self) -> bool:
        """Return whether tables' databases and workers have what the last complete checkpoint means for them."""
        return all(self.seen[task].settled >= self.last_complete for task in self.settles)

    def spans(self) -> tuple[CheckpointSpan, ...]:
        """Return which results are final; none as long as the run is not the plan's."""
        if self.opening is None:
            return ()
        return (*self.opening.spans, CheckpointSpan(self.id.epoch, self.id.attempt, self.last_complete))
