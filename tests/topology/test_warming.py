"""Executors on which no task has begun get one, again until it has."""

from __future__ import annotations

import threading

from topology.spark.executors import Executor
from topology.spark.warming import Warming


def executor(name: str, *, usable: bool = True, has_run: bool = False) -> Executor:
    return Executor(name, "host", 1, usable, has_run, 0)


class Rounds:
    """Stands for Spark: counts the executors of each round, which ends when it is told to."""

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


def test_a_round_that_passed_an_executor_by_is_followed_by_another_once_it_is_over() -> None:
    rounds = Rounds()
    warm, cold = executor("0", has_run=True), executor("1")
    rounds.warming.see([warm, cold])
    rounds.warming.see([warm, cold])
    rounds.end()
    assert rounds.begun == [2]

    rounds.warming.see([warm, cold])
    rounds.end()
    assert rounds.begun == [2, 2]

    rounds.warming.see([warm, executor("1", has_run=True)])
    rounds.end()
    assert rounds.begun == [2, 2]


def test_executors_that_are_not_ready_or_gone_get_no_tasks() -> None:
    rounds = Rounds()
    rounds.warming.see([executor("0", usable=False)])
    rounds.warming.see([])
    rounds.end()
    assert rounds.begun == []
