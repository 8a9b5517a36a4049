"""Outbox and Inbox: what is under way never exceeds the window by more than a frame, and nothing is lost."""

from __future__ import annotations

from collections import deque

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from random_examples import examples

from cep_common.errors import InputError
from cep_common.protocol.links import MarkIdle
from topology.links.protocol import Inbox, Outbox, PendingFrame

IDLE = MarkIdle(sequence=1)


def frame(sequence: int, rows: int) -> PendingFrame:
    return PendingFrame(sequence, rows, IDLE, ())


def test_nothing_is_sent_before_the_window_is_known() -> None:
    outbox = Outbox()
    assert not outbox.has_room()
    outbox.window_rows = 1
    assert outbox.has_room()


def test_one_frame_may_always_be_under_way_however_large() -> None:
    outbox = Outbox(window_rows=10)
    outbox.sent(frame(1, 1_000))
    assert not outbox.has_room()
    assert outbox.acknowledged(1) == 1_000
    assert outbox.has_room()


def test_an_old_or_repeated_acknowledgement_frees_nothing() -> None:
    outbox = Outbox(window_rows=10)
    for sequence in (1, 2, 3):
        outbox.sent(frame(sequence, 2))
    assert [outbox.acknowledged(sequence) for sequence in (2, 2, 1, 0)] == [4, 0, 0, 0]
    assert [one.sequence for one in outbox.pending] == [3]


def test_frames_leave_in_sequence() -> None:
    with pytest.raises(ValueError, match="frame 2 sent where 1 is next"):
        Outbox(window_rows=1).sent(frame(2, 1))


@pytest.mark.parametrize("sequence", [0, 1, 3])
def test_a_gap_or_a_repeated_frame_breaks_the_protocol(sequence: int) -> None:
    inbox = Inbox(window_rows=10)
    inbox.arrived(1, 1)
    with pytest.raises(InputError, match=f"frame {sequence} came where 2 was next") as caught:
        inbox.arrived(sequence, 1)
    assert caught.value.reason_code == "out-of-sequence"


def test_more_than_the_window_breaks_the_protocol() -> None:
    inbox = Inbox(window_rows=2)
    inbox.arrived(1, 2)
    with pytest.raises(InputError, match="2 rows are held already, 2 agreed") as caught:
        inbox.arrived(2, 1)
    assert caught.value.reason_code == "window-exceeded"


def test_an_acknowledgement_is_due_once() -> None:
    inbox = Inbox(window_rows=10)
    inbox.arrived(1, 1)
    assert inbox.due_acknowledgement() is None
    inbox.done(1)
    assert [inbox.due_acknowledgement(), inbox.due_acknowledgement()] == [1, None]


def test_a_refused_frame_is_acknowledged_only_with_those_before_it() -> None:
    inbox = Inbox(window_rows=10)
    for sequence in (1, 2, 3, 4):
        inbox.arrived(sequence, 1)
    inbox.refused(2)
    inbox.refused(3)
    assert inbox.due_acknowledgement() is None
    inbox.done(1)
    assert inbox.due_acknowledgement() == 3
    assert inbox.held_rows == 1


def test_a_refused_frame_that_is_the_only_one_held_is_acknowledged_at_once() -> None:
    inbox = Inbox(window_rows=10)
    inbox.arrived(1, 5)
    inbox.refused(1)
    assert (inbox.due_acknowledgement(), inbox.held_rows) == (1, 0)


ACTIONS = st.lists(st.tuples(st.sampled_from(["send", "carry", "refuse", "done", "answer"]), st.integers(0, 5)))


@given(st.integers(1, 8), ACTIONS)
@settings(max_examples=examples(300), deadline=None)
def test_in_any_interleaving_the_window_holds_and_every_frame_arrives_and_is_acknowledged(
    window: int, actions: list[tuple[str, int]]
) -> None:
    outbox, inbox = Outbox(window_rows=window), Inbox(window_rows=window)
    wire: deque[PendingFrame] = deque()
    answers: deque[int] = deque()
    arrived: list[int] = []
    open_frames: deque[int] = deque()

    def act(action: str, size: int) -> None:
        if action == "send" and outbox.has_room():
            sent = frame(outbox.next_sequence, size)
            outbox.sent(sent)
            wire.append(sent)
        elif action in ("carry", "refuse") and wire:
            came = wire.popleft()
            inbox.arrived(came.sequence, came.rows)
            arrived.append(came.sequence)
            if action == "refuse":
                inbox.refused(came.sequence)
            else:
                open_frames.append(came.sequence)
        elif action == "done" and open_frames:
            inbox.done(open_frames.popleft())
        elif action == "answer":
            due = inbox.due_acknowledgement()
            if due is not None:
                answers.append(due)
            if answers and size:
                outbox.acknowledged(answers.popleft())

    for action, size in actions:
        act(action, size)
        last = outbox.pending[-1].rows if outbox.pending else 0
        assert outbox.in_flight_rows - last < window
        assert inbox.held_rows <= outbox.in_flight_rows == sum(one.rows for one in outbox.pending)
        assert all(one.sequence <= outbox.pending[-1].sequence for one in outbox.pending)
    for action in ("carry", "done", "answer") * (2 * len(actions) + 1):
        act(action, 1)
    assert arrived == list(range(1, outbox.next_sequence))
    assert not outbox.pending
    assert inbox.held_rows == outbox.in_flight_rows == 0
