"""Which prepared results stand: random histories of a topology, seen by a worker that learns of them bit by bit."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cep_common.protocol.registry import CheckpointSpan
from cep_worker.outflows.transactional_log.commit_decisions import CommitDecision, commit_decision, new_rows


@dataclass
class Run:
    """An attempt: the checkpoints that a publisher marked, and those that were completed."""

    run: tuple[int, int]
    marked: list[int] = field(default_factory=list)
    last: int = 0


@st.composite
def histories(draw: st.DrawFn) -> list[list[Run]]:
    """The history of a plan after each of its steps: a marker is given, a checkpoint completed, a new run started."""
    runs = [Run((1, 0))]
    number = 0
    seen: list[list[Run]] = []
    for step in draw(st.lists(st.sampled_from(["mark", "complete", "restart", "redeploy"]), max_size=25)):
        present = runs[-1]
        if step == "mark":
            number += 1
            present.marked.append(number)
        elif step == "complete":
            present.last = max([mark for mark in present.marked if mark > present.last][:1], default=present.last)
        else:
            epoch, attempt = present.run
            runs.append(Run((epoch, attempt + 1) if step == "restart" else (epoch + 1, 0)))
        seen.append([Run(run.run, list(run.marked), run.last) for run in runs])
    return seen


def spans(runs: list[Run]) -> tuple[CheckpointSpan, ...]:
    return tuple(CheckpointSpan(*run.run, run.last) for run in runs)


@settings(deadline=None)
@given(histories(), st.data())
def test_results_stand_if_their_checkpoint_does_and_no_verdict_is_ever_taken_back(
    seen: list[list[Run]], data: st.DataObject
) -> None:
    told: dict[tuple[tuple[int, int], int | None], CommitDecision] = {}
    for runs in seen:
        if data.draw(st.booleans(), label="the worker hears of it"):
            known = spans(runs)
            for run in seen[-1]:
                for checkpoint in [*run.marked, None]:
                    found = commit_decision(run.run, checkpoint, known)
                    before = told.setdefault((run.run, checkpoint), CommitDecision.WAIT)
                    assert before in (CommitDecision.WAIT, found)
                    told[run.run, checkpoint] = found
    final = seen[-1] if seen else []
    for run in final:
        for checkpoint in run.marked:
            stands = checkpoint <= run.last
            newest = run is final[-1]
            expected = CommitDecision.RELEASE if stands else CommitDecision.WAIT if newest else CommitDecision.DISCARD
            assert commit_decision(run.run, checkpoint, spans(final)) is expected


def test_results_of_an_attempt_that_nobody_has_told_of_yet_wait() -> None:
    known = (CheckpointSpan(3, 0, 5),)
    assert commit_decision((3, 1), 6, known) is CommitDecision.WAIT
    assert commit_decision((4, 0), 6, known) is CommitDecision.WAIT
    assert commit_decision((3, 1), 6, ()) is CommitDecision.WAIT
    assert commit_decision((3, 0), None, known) is CommitDecision.WAIT


@pytest.mark.thorough
@settings(deadline=None)
@given(st.integers(0, 40), st.data())
def test_events_sent_again_in_other_frames_are_taken_once(events: int, data: st.DataObject) -> None:
    prepared: list[int] = []
    acknowledged = 0
    for _ in range(4):  # links, each of which begins behind what was acknowledged over the one before
        position = acknowledged
        while position < events and data.draw(st.booleans(), label="another frame arrives"):
            rows = data.draw(st.integers(1, events - position))
            position += rows
            new = new_rows(rows, position, len(prepared))
            prepared += range(position - new + 1, position + 1)
        acknowledged = data.draw(st.integers(acknowledged, max(acknowledged, min(position, len(prepared)))))
    assert prepared == list(range(1, len(prepared) + 1))
