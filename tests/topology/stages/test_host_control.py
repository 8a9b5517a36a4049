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
    turned = []
    for speaker in speakers:
        task: Any = SimpleNamespace(asks=threading.Event())
        turned.append(control.add(task, speaker))
    control.start()
    for count in range(1, 6):
        until(partial(spoke, speakers[1], count))
        until(partial(heard, manager, len(manager.heard) + 2))
        speakers[1].says += 1
        turned[1]()
    control.close()

    first, *later = manager.heard
    assert first.tasks == tuple(speaker.reference() for speaker in speakers)
    assert {(one.version, one.tasks) for one in later} == {(first.version, ())}, "the list of tasks was sent again"
    assert speakers[0].spoken == speakers[2].spoken == 1
    another = HostControl(manager, "normal", lambda: None, "host-1")
    assert another._version != control._version - 1, "another process of the name does not speak of the same list"


class StartingSpeaker(Speaker):
    """Of a task that is not connected yet: it speaks again and again, and each time takes a moment."""

    steady = False

    def __init__(self, number: int, order: list[str]) -> None:
        super().__init__(number)
        self.order = order

    def standing(self) -> None:
        return None

    def speak(self) -> None:
        time.sleep(0.01)
        self.spoken += 1
        self.order.append("speaks")


class OrderedManager(Manager):
    def __init__(self, order: list[str]) -> None:
        super().__init__()
        self.order = order

    def request(self, message: RefreshTasks) -> TasksRefreshed:
        self.order.append("refresh")
        return super().request(message)


def test_tasks_that_start_do_not_keep_the_others_from_being_refreshed() -> None:
    order: list[str] = []
    manager: Any = OrderedManager(order)
    speakers: list[Any] = [Speaker(0), *(StartingSpeaker(number, order) for number in range(1, 150))]
    control = HostControl(manager, "normal", lambda: None, "host-1")
    for speaker in speakers:
        task: Any = SimpleNamespace(asks=threading.Event())
        control.add(task, speaker)
    control.start()
    until(lambda: order.count("refresh") >= 4)
    control.close()
    between = "".join("s" if one == "speaks" else " " for one in order).split()
    assert max(len(one) for one in between[1:-1]) < 100, "the lease of a running task waited for tasks that start"
