"""The store serves plans that begin before those that write checkpoints, and each plan in its order."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any, cast

from cep_common.clock import SystemClock
from cep_common.ids import PlanKey
from topology.checkpoint.coordination.archive import Archive
from topology.checkpoint.coordination.storing import AT_ONCE, Storing
from topology.checkpoint.errors import CheckpointError

LIMIT_S = 10.0


class Store:
    """Calls of a store that is busy until `go` is set, in the order in which they are made."""

    def __init__(self) -> None:
        self.go = threading.Event()
        self.made: list[str] = []
        self.answers: list[object] = []
        self.storing = Storing(cast("Archive", self), SystemClock(), lambda order: order(), lambda: None)

    def ask(self, plan: str, what: str, *, urgent: bool = False) -> None:
        self.storing.do(PlanKey(1, plan), self._work(f"{plan} {what}"), self.answers.append, urgent=urgent)

    def occupy(self) -> None:
        for number in range(AT_ONCE):
            self.storing.do(PlanKey(1, f"Busy{number}"), lambda _: self.go.wait(LIMIT_S), lambda _: None)

    def finish(self) -> list[str]:
        self.go.set()
        self.storing.close()
        return self.made

    def _work(self, name: str) -> Callable[[Any], str]:
        def work(_: Any) -> str:
            self.made.append(name)
            return name

        return work


def test_a_plan_that_begins_does_not_wait_for_the_checkpoints_of_others() -> None:
    store = Store()
    store.occupy()
    for number in range(300):
        store.ask(f"Plan{number}", "write")
    store.ask("New", "open", urgent=True)
    made = store.finish()
    assert len(made) == 301
    assert "New open" in made[:AT_ONCE]


def test_what_a_plan_asks_for_is_done_in_its_order_also_what_is_urgent() -> None:
    store = Store()
    store.occupy()
    for what in ("write", "end", "clear"):
        store.ask("Rooms", what)
    store.ask("Other", "write")
    store.ask("Rooms", "open", urgent=True)
    store.ask("Rooms", "write again")
    of_rooms = [one for one in store.finish() if one.startswith("Rooms")]
    assert of_rooms == ["Rooms write", "Rooms end", "Rooms clear", "Rooms open", "Rooms write again"]


def test_two_calls_of_a_plan_never_overlap_and_those_of_several_do() -> None:
    together = threading.Barrier(AT_ONCE)
    storing = Storing(cast("Archive", object()), SystemClock(), lambda order: order(), lambda: None)
    inside: dict[str, int] = {}
    most: list[int] = []

    def work(plan: str, meet: bool) -> None:
        inside[plan] = inside.get(plan, 0) + 1
        most.append(inside[plan])
        if meet:
            together.wait(LIMIT_S)
        inside[plan] -= 1

    for number in range(AT_ONCE):
        for meet in (True, False, False):
            name = f"Plan{number}"
            storing.do(PlanKey(1, name), lambda _, name=name, meet=meet: work(name, meet), lambda _: None)  # type: ignore[misc]
    storing.close()
    assert most == [1] * (3 * AT_ONCE)


def test_a_call_that_fails_lets_the_next_ones_pass() -> None:
    store = Store()

    def fail(_: Any) -> None:
        raise CheckpointError("the disk is full")

    store.storing.do(PlanKey(1, "Rooms"), fail, store.answers.append)
    store.ask("Rooms", "write")
    assert store.finish() == ["Rooms write"]
    assert isinstance(store.answers[0], CheckpointError)
    assert store.answers[1] == "Rooms write"
