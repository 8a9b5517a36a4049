"""Assigns the instances of a topology to tasks. Pure.

First, the work is spread: the instances of one stage are placed in as many tasks as possible, and then stages with
fewer instances are distributed so that no task has many more of them than another. Within these bounds an instance is
placed in the task from which most of its events come, so that they need not leave the process.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class PlacedStage:
    """A stage to be placed: the names of its instances."""

    name: str
    instances: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class StageLink:
    """A link over which events go from stage `producer` to stage `consumer`.

    `pairwise`: instance i of one sends all its events to instance i of the other; otherwise every instance sends a
    share to each.
    """

    producer: str
    consumer: str
    pairwise: bool = False


def place(stages: Sequence[PlacedStage], ways: Iterable[StageLink], tasks: int) -> dict[str, int]:
    """Return the task of every instance, 0 ≤ task < `tasks`; the same for the same arguments.

    `stages` are ordered so that producers come before their consumers.
    """
    by_name = {stage.name: stage for stage in stages}
    producers: dict[str, list[StageLink]] = {stage.name: [] for stage in stages}
    for way in ways:
        producers[way.consumer].append(way)
    room = _Room(sum(len(stage.instances) % tasks for stage in stages), tasks)
    placed: dict[str, int] = {}
    for stage in stages:
        sources = [(by_name[way.producer], way.pairwise) for way in producers[stage.name]]
        room.next_stage()
        rounds = len(stage.instances) // tasks * tasks
        for index, instance in enumerate(stage.instances):
            placed[instance] = room.take(_nearness(index, sources, placed), loads=index >= rounds)
    return placed


def _nearness(index: int, sources: Iterable[tuple[PlacedStage, bool]], placed: Mapping[str, int]) -> Counter[int]:
    """Return how many stages' worth of events instance `index` gets from each task, in thousandths.

    Whole numbers make ties exact.
    """
    nearness: Counter[int] = Counter()
    for producer, pairwise in sources:
        givers = (producer.instances[index],) if pairwise else producer.instances
        for giver in givers:
            nearness[placed[giver]] += 1_000 // len(givers)
    return nearness


class _Room:
    """The load of the tasks, to which instances are assigned one by one.

    Stages with an instance in every task do not count, since they load all tasks alike. `instances` are all others.
    """

    def __init__(self, instances: int, tasks: int) -> None:
        self._floor, self._fuller = divmod(instances, tasks)
        self._loads = [0] * tasks
        self._siblings = [0] * tasks

    def next_stage(self) -> None:
        """Begin the instances of another stage."""
        self._siblings = [0] * len(self._loads)

    def take(self, nearness: Mapping[int, int], *, loads: bool) -> int:
        """Assign the next instance to a task and return it.

        The task is one without its siblings, where there is room if it `loads` the task, near its producers, else
        where least runs; on ties the lowest.
        """
        task = min(
            range(len(self._loads)),
            key=lambda one: (
                self._siblings[one],
                loads and not self._has_room(one),
                -nearness.get(one, 0),
                self._loads[one],
                one,
            ),
        )
        self._siblings[task] += 1
        self._loads[task] += loads
        return task

    def _has_room(self, task: int) -> bool:
        """Return False if another instance would leave other tasks with less than their share of all instances."""
        load = self._loads[task]
        if load < self._floor:
            return True
        return load == self._floor and sum(other > self._floor for other in self._loads) < self._fuller
