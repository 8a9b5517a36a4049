"""Executors on which no task has begun get one, again until it has."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from itertools import pairwise

import pytest

from topology.spark.driver_side.executors import Executor
from topology.spark.driver_side.warming import FIRST_PAUSE_MS, LONGEST_PAUSE_MS, Warming


def executor(name: str, *, usable: bool = True, has_run: bool = False) -> Executor:
    return Executor(name, "host", 1, usable, has_run, 0)


WARM, COLD = executor("0", has_run=True), executor("1")


class Rounds:
    """Stands for Spark: counts the executors of each round, which lasts until it is told to end."""

    def __init__(self) -> None:
        self.begun: list[int] = []
        self._end = threading.Event()
        self.warming = Warming(self._run)

    def _run(self, executors: int) -> None:
        self.begun.append(executors)
        self._end.wait()

    def end(self) -> None:
        self._end.set()
        for thread in threading.enumerate():
            if thread.name == "warming":
                thread.join()
        self._end.clear()


@pytest.fixture
def rounds() -> Iterator[Rounds]:
    made = Rounds()
    yield made
    made.end()


def test_a_round_that_passed_an_executor_by_is_followed_by_another_once_it_is_over(rounds: Rounds) -> None:
    rounds.warming.see([WARM, COLD], 0)
    rounds.warming.see([WARM, COLD], FIRST_PAUSE_MS)
    assert rounds.begun == [2]
    rounds.end()
    rounds.warming.see([WARM, COLD], FIRST_PAUSE_MS)
    rounds.end()
    assert rounds.begun == [2, 2]
    rounds.warming.see([WARM, executor("1", has_run=True)], LONGEST_PAUSE_MS)
    assert rounds.begun == [2, 2]


def test_rounds_for_an_executor_that_gets_no_tasks_become_seldom_and_a_new_one_is_seen_to_at_once(
    rounds: Rounds,
) -> None:
    began_ms = []
    for now_ms in range(0, 400_000, 500):
        before = len(rounds.begun)
        rounds.warming.see([COLD], now_ms)
        rounds.end()
        began_ms += [now_ms] * (len(rounds.begun) - before)
    assert began_ms[:6] == [0, 2_000, 6_000, 14_000, 30_000, 62_000]
    assert {later - former for former, later in pairwise(began_ms[5:])} == {LONGEST_PAUSE_MS}
    rounds.begun.clear()
    rounds.warming.see([COLD, executor("2")], 400_000)
    assert rounds.begun == [2]


def test_executors_that_are_not_ready_or_gone_get_no_tasks(rounds: Rounds) -> None:
    rounds.warming.see([executor("0", usable=False)], 0)
    rounds.warming.see([], 0)
    assert rounds.begun == []
