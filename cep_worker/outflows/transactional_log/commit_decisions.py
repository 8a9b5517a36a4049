"""Decides which prepared results are committed, which are discarded, and which must wait. Pure.

A publisher of attempt 0 has marked checkpoints 1 and 2, then its topology was restarted from checkpoint 1:

    attempt 0   ──frames──1──frames──2──frames──     spans (0, last 1), (1, last 3)
    attempt 1                ──frames──3──frames──
    verdicts      release     discard   discard      of attempt 0
                               release   wait        of attempt 1
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum

from cep_common.protocol.registry import CheckpointSpan

Attempt = tuple[int, int]
"""Identifies a run of a plan's topology: (epoch, attempt)."""


class CommitDecision(Enum):
    """The decision about the results of a group."""

    WAIT = "wait"
    RELEASE = "release"
    DISCARD = "discard"


def commit_decision(attempt: Attempt, checkpoint: int | None, spans: Sequence[CheckpointSpan]) -> CommitDecision:
    """Decide about results that a run of `attempt` sent before its marker of `checkpoint`.

    `checkpoint` is None when no marker follows them; `spans` say which checkpoints are complete. Results of an attempt
    older than all `spans` were undone or given up with their deployment; those of an attempt that `spans` do not know
    yet wait.
    """
    last = max((span.last for span in spans if (span.epoch, span.attempt) == attempt), default=0)
    if checkpoint is not None and checkpoint <= last:
        return CommitDecision.RELEASE
    if any((span.epoch, span.attempt) > attempt for span in spans):
        return CommitDecision.DISCARD
    return CommitDecision.WAIT


def new_rows(rows: int, position: int, prepared: int) -> int:
    """Count the new rows of a frame: the last ones, after position `prepared`.

    `position` is that of the frame's last row in its sender's log; rows without a position (0) are all new.
    """
    return rows if position == 0 else max(0, min(rows, position - prepared))
