"""Instructions to the plan store: those of one kind share a transaction, and none overtakes another."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
from manager_world import KEY

from cep_common.ids import PlanKey
from cep_manager.control.instructions import (
    Instruction,
    NoteBegun,
    RaiseEpoch,
    RemoveDrained,
    StoreInstruction,
    leading,
)
from cep_manager.control.loop import ManagerControlLoop
from cep_manager.election.leadership import Led, Resigned
from cep_manager.errors import PlanStoreError

OTHER = PlanKey(KEY.tenant, "Other")


def test_what_leads_is_taken_together_and_the_order_is_kept() -> None:
    given: list[StoreInstruction] = [
        RaiseEpoch(KEY),
        RaiseEpoch(OTHER, 4),
        NoteBegun(KEY, 2),
        RemoveDrained(OTHER),
        RaiseEpoch(KEY),
        NoteBegun(KEY, 3),
    ]
    waiting = deque(given)
    taken = []
    while group := leading(waiting, 10):
        taken.append(group)
    assert [one for group in taken for one in group] == given
    assert [len(group) for group in taken] == [2, 1, 1, 1, 1]


def test_a_group_is_bounded() -> None:
    waiting: deque[StoreInstruction] = deque(NoteBegun(KEY, epoch) for epoch in range(5))
    assert [len(leading(waiting, 2)) for _ in range(4)] == [2, 2, 1, 0]


class HeldThread:
    """A thread that does what it was given when `run` is called."""

    def __init__(self) -> None:
        self.jobs: list[Callable[[], None]] = []

    def submit(self, job: Callable[[], None]) -> None:
        self.jobs.append(job)

    def run(self) -> None:
        jobs, self.jobs = self.jobs, []
        for job in jobs:
            job()


class CountingStore:
    """A plan store that counts epochs from 2 on, or fails with `problem`."""

    def __init__(self) -> None:
        self.asked: list[list[tuple[PlanKey, int]]] = []
        self.problem = ""

    def raise_epochs(self, wanted: list[tuple[PlanKey, int]]) -> list[int]:
        self.asked.append(wanted)
        if self.problem:
            raise PlanStoreError(self.problem)
        return [above + 2 for _, above in wanted]


class HeardPlane:
    """Hears which epochs were raised, and which were not."""

    def __init__(self) -> None:
        self.raised: list[tuple[PlanKey, int]] = []
        self.failed: list[tuple[PlanKey, str]] = []

    def epoch_raised(self, key: PlanKey, epoch: int, _now_ms: int) -> list[Instruction]:
        self.raised.append((key, epoch))
        return []

    def epoch_not_raised(self, key: PlanKey, reason: str, _now_ms: int) -> list[Instruction]:
        self.failed.append((key, reason))
        return []


@pytest.fixture
def loop() -> Any:
    made: Any = object.__new__(ManagerControlLoop)  # one that runs needs a port and a database
    made._to_store, made._raising = deque(), set()
    made._store_thread, made._store, made._plane = HeldThread(), CountingStore(), HeardPlane()
    made._commands = SimpleNamespace(post=lambda run: made._carry_out(run(0)))
    return made


def test_epochs_of_many_plans_are_raised_at_once_and_not_twice_while_the_store_is_busy(loop: Any) -> None:
    loop._carry_out([RaiseEpoch(KEY), RaiseEpoch(OTHER), RaiseEpoch(KEY), RaiseEpoch(KEY, 5)])
    loop._carry_out([RaiseEpoch(KEY), RaiseEpoch(OTHER)])
    loop._store_thread.run()
    assert loop._store.asked == [[(KEY, 0), (OTHER, 0), (KEY, 5)]]
    assert loop._plane.raised == [(KEY, 2), (OTHER, 2), (KEY, 7)]
    loop._carry_out([RaiseEpoch(KEY)])
    loop._store_thread.run()
    assert loop._plane.raised[3:] == [(KEY, 2)], "the answer to the first one has come"


def test_each_plan_hears_that_its_epoch_was_not_raised_and_may_ask_again(loop: Any) -> None:
    loop._store.problem = "the disk is full"
    loop._carry_out([RaiseEpoch(KEY), RaiseEpoch(OTHER)])
    loop._store_thread.run()
    assert loop._plane.failed == [(KEY, "the disk is full"), (OTHER, "the disk is full")]
    loop._store.problem = ""
    loop._carry_out([RaiseEpoch(KEY)])
    loop._store_thread.run()
    assert loop._plane.raised == [(KEY, 2)]


def test_a_manager_that_leads_again_raises_epochs_whose_answers_it_dropped(
    loop: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    changes: list[Led | Resigned] = [Resigned(), Led(9, ())]
    loop._leadership = SimpleNamespace(turn=lambda: [changes.pop(0)], settle=lambda: None, refused=lambda: None)
    loop._store.lead = lambda _: None
    monkeypatch.setattr(loop, "_new_plane", lambda _: HeardPlane(), raising=False)
    monkeypatch.setattr(loop, "_tell", lambda: None, raising=False)
    loop._carry_out([RaiseEpoch(KEY)])
    loop._commands.post, post = lambda _: None, loop._commands.post  # a command of one that does not lead is not run
    loop._follow_election()
    loop._store_thread.run()
    loop._commands.post = post
    loop._follow_election()
    loop._carry_out([RaiseEpoch(KEY)])
    loop._store_thread.run()
    assert loop._plane.raised == [(KEY, 2)]
