"""The thread of a stage host that speaks with the manager: tasks that stand are told of together."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from functools import partial
from types import SimpleNamespace
from typing import Any

from cep_common.ids import PlanKey
from cep_common.protocol.tasks import RefreshedTask, RefreshTasks, TasksRefreshed
from topology.stages.hosts.host_control import HostControl

BEAT_MS = 50


class Speaker:
    """Of a task whose registration is answered at once; what it would say is `says`."""

    steady = True
    heartbeat_ms = BEAT_MS

    def __init__(self, number: int) -> None:
        self.number = number
        self.says = self.spoken = 0

    def standing(self) -> object:
        return self.says

    def speak(self) -> None:
        self.spoken += 1

    def reference(self) -> RefreshedTask:
        return RefreshedTask(PlanKey(1, f"plan {self.number}"), 1, 0, 0)

    def close(self) -> None:
        """Nothing is open."""


class Manager:
    """Knows all tasks that it is told of."""

    def __init__(self) -> None:
        self.heard: list[RefreshTasks] = []

    def request(self, message: RefreshTasks) -> TasksRefreshed:
        self.heard.append(message)
        return TasksRefreshed(BEAT_MS, 20 * BEAT_MS)

    def close(self) -> None:
        """Nothing is open."""


def until(condition: Callable[[], bool]) -> None:
    end_s = time.monotonic() + 10
    while not condition():
        assert time.monotonic() < end_s, "it did not come to that"
        time.sleep(0.005)


def spoke(speaker: Speaker, times: int) -> bool:
    return speaker.spoken >= times


def heard(manager: Manager, times: int) -> bool:
    return len(manager.heard) >= times


def test_a_task_that_changes_now_and_then_does_not_part_the_heartbeat_of_all() -> None:
    manager: Any = Manager()
    speakers: list[Any] = [Speaker(number) for number in range(3)]
    control = HostControl(manager, "normal", lambda: None, "host-1")
    for speaker in speakers:
        task: Any = SimpleNamespace(asks=threading.Event())
        control.add(task, speaker)
    control.start()
    for count in range(1, 6):
        until(partial(spoke, speakers[1], count))
        until(partial(heard, manager, len(manager.heard) + 2))
        speakers[1].says += 1
    control.close()

    first, *later = manager.heard
    assert first.tasks == tuple(speaker.reference() for speaker in speakers)
    assert {(one.version, one.tasks) for one in later} == {(first.version, ())}, "the list of tasks was sent again"
    assert speakers[0].spoken == speakers[2].spoken == 1
    another = HostControl(manager, "normal", lambda: None, "host-1")
    assert another._version != control._version - 1, "another process of the name does not speak of the same list"
