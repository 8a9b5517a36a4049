"""A plan's topology in Storm's terms, as far as several answers need them. Pure: derived from a snapshot.

Receivers and triggers are spouts, processing and publisher stages bolts. An executor is a component instance, a worker
a task of the topology, whose number takes the place of Storm's port.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from cep_common.ids import PlanKey, instance_name
from cep_common.protocol.drivers import ExecutorReport
from cep_common.protocol.tasks import ComponentReport, RegisterTask
from cep_manager.control.members import ClusterMember
from cep_manager.control.snapshot import ClusterSnapshot
from cep_manager.history.counter_history import CounterHistory
from cep_manager.history.windowed_metrics import WindowMetrics, added_up, capacity, window_metrics
from cep_manager.monitoring.cluster_model import Overview
from cep_manager.monitoring.storm_topology.errors import NotAliveError
from cep_manager.monitoring.storm_topology.texts import StormWindow, plan_of, topology_id
from cep_manager.plans.compiled_plan import PlannedComponent
from cep_manager.plans.record import PlanRecord
from cep_manager.plans.state import PlanState

STATUS = {
    PlanState.ACTIVE: "ACTIVE",
    PlanState.DEGRADED: "ACTIVE",
    PlanState.INACTIVE: "INACTIVE",
    PlanState.REBALANCING: "REBALANCING",
    PlanState.UPDATING: "REBALANCING",
    PlanState.DRAINING: "KILLED",
}
"""Whatever does not run now is inactive to Storm's clients: `schedulerInfo` has the real status, and the reason."""

NOTHING = WindowMetrics()


class StormExecutor(msgspec.Struct, frozen=True):
    """A component instance in a live task. `number` counts a topology's instances from 1."""

    name: str
    number: int
    task: ClusterMember[RegisterTask]
    report: ComponentReport
    history: CounterHistory | None

    def identifier(self) -> str:
        """Storm's `[first task-last task]`."""
        return f"[{self.number}-{self.number}]"

    def metrics(self, window: StormWindow, now_ms: int) -> WindowMetrics:
        """Return the instance's metrics of the window."""
        if self.history is None or not window.known:
            return NOTHING
        return window_metrics(self.history, window.seconds, now_ms)

    def capacity(self, now_ms: int) -> float:
        """Return the share of the last ten minutes that it spent working."""
        return capacity([self.history], now_ms) if self.history is not None else 0.0


class ComponentError(msgspec.Struct, frozen=True):
    """The newest error of a component instance; `at_ms` is the time of day."""

    text: str
    at_ms: int
    host: str
    port: int


class StormComponent(msgspec.Struct, frozen=True):
    """A stage with the executors that live and what all its instances ever did.

    `consumers` has the number of consuming components of each of its streams.
    """

    planned: PlannedComponent
    executors: tuple[StormExecutor, ...]
    histories: tuple[CounterHistory, ...]
    consumers: dict[str, int]

    @property
    def name(self) -> str:
        return self.planned.name

    @property
    def is_spout(self) -> bool:
        return self.planned.kind in ("receiver", "trigger")

    def metrics(self, window: StormWindow, now_ms: int) -> WindowMetrics:
        """Return the component's metrics of the window, including instances that no longer live."""
        if not window.known:
            return NOTHING
        return added_up(window_metrics(history, window.seconds, now_ms) for history in self.histories)

    def capacity(self, now_ms: int) -> float:
        """Return the capacity of its busiest executor."""
        return max((executor.capacity(now_ms) for executor in self.executors), default=0.0)

    def transferred(self, emitted: dict[str, int]) -> dict[str, int]:
        """Return how many events were transferred for those that were emitted, by stream.

        An event is transferred once to each component that takes it; one that leaves the topology counts once.
        """
        return {stream: events * self.consumers.get(stream, 0) for stream, events in emitted.items()}

    def errors(self) -> list[ComponentError]:
        """Return the newest error of each instance, oldest first."""
        found = [
            ComponentError(one.report.last_error, one.report.last_error_ms, one.task.latest.host, one.task.latest.task)
            for one in self.executors
            if one.report.last_error
        ]
        return sorted(found, key=lambda error: error.at_ms)


class StormTopology(msgspec.Struct, frozen=True):
    """A deployed plan; `killed` while it is about to be undeployed."""

    record: PlanRecord
    identifier: str
    tasks: tuple[ClusterMember[RegisterTask], ...]
    components: tuple[StormComponent, ...]
    killed: bool

    @property
    def key(self) -> PlanKey:
        return self.record.key

    @property
    def owner(self) -> str:
        """Return the tenant."""
        return str(self.key.tenant)

    @property
    def cores(self) -> int:
        """Return the slots of each of its tasks."""
        return self.record.compiled.cores if self.record.compiled is not None else 1

    def status(self) -> str:
        """Return the state as one of Storm's four status values."""
        return "KILLED" if self.killed else STATUS.get(self.record.state, "INACTIVE")

    def scheduler_info(self) -> str | None:
        """Return the state and its reason, for which Storm has no word; None when all is well."""
        if self.record.state is PlanState.ACTIVE:
            return None
        return f"{self.record.state.value}: {self.record.reason}".rstrip(": ")

    def executors(self) -> int:
        """Return the number of live component instances."""
        return sum(len(component.executors) for component in self.components)

    def up_s(self, now_ms: int) -> int:
        """Return the seconds since deployment; `now_ms` is the time of day."""
        return max(0, now_ms - self.record.stored.created_ms) // 1_000

    def component(self, name: str) -> StormComponent | None:
        return next((one for one in self.components if one.name == name), None)

    def producers(self, consumer: StormComponent, stream: str) -> tuple[str, ...]:
        """Return the components that send `stream` to `consumer`."""
        return tuple(
            one.name for one in self.components if one is not consumer and one.planned.feeds(consumer.planned, stream)
        )

    def producer(self, consumer: StormComponent, stream: str) -> str:
        """Return the first of them, under which counts stand that are kept by stream alone.

        Empty when there is none.
        """
        return next(iter(self.producers(consumer, stream)), "")


def topologies(overview: Overview, killed: frozenset[str]) -> Iterator[StormTopology]:
    """Yield all deployed plans in order of tenant and name; `killed` are the ids of those about to be undeployed."""
    for key in sorted(overview.snapshot.plans):
        yield topology_of(overview.snapshot, overview.snapshot.plans[key], killed)


def topology(overview: Overview, identifier: str, killed: frozenset[str]) -> StormTopology:
    """Return the deployed plan with the id. Raises NotAliveError."""
    named = plan_of(identifier)
    key = overview.snapshot.key_named(*named) if named is not None else None
    record = overview.snapshot.plans.get(key) if key is not None else None
    if record is None or topology_id(record.key, record.stored.created_ms) != identifier:
        raise NotAliveError(identifier)
    return topology_of(overview.snapshot, record, killed)


def topology_of(snapshot: ClusterSnapshot, record: PlanRecord, killed: frozenset[str] = frozenset()) -> StormTopology:
    """Return the deployed plan `record`."""
    tasks = tuple(task for task in snapshot.tasks.get(record.key, ()) if task.live(snapshot.now_ms, snapshot.lease_ms))
    identifier = topology_id(record.key, record.stored.created_ms)
    components = tuple(_components(snapshot, record, tasks))
    return StormTopology(record, identifier, tasks, components, identifier in killed)


def _components(
    snapshot: ClusterSnapshot, record: PlanRecord, tasks: tuple[ClusterMember[RegisterTask], ...]
) -> Iterator[StormComponent]:
    planned = record.compiled.components if record.compiled is not None else ()
    histories = snapshot.histories.get(record.key, {})
    reported = {report.instance: (task, report) for task in tasks for report in task.latest.components}
    number = 0
    for component in planned:
        names = [instance_name(component.name, index) for index in range(component.parallel)]
        executors = [
            StormExecutor(name, number + index, *reported[name], histories.get(name))
            for index, name in enumerate(names, start=1)
            if name in reported
        ]
        number += component.parallel
        found = tuple(histories[name] for name in names if name in histories)
        yield StormComponent(component, tuple(executors), found, _consumers(component, planned))


def _consumers(component: PlannedComponent, planned: tuple[PlannedComponent, ...]) -> dict[str, int]:
    if component.kind == "publisher":
        return dict.fromkeys(component.outputs, 1)
    takers = [other for other in planned if other is not component and other.kind not in ("receiver", "trigger")]
    return {stream: sum(component.feeds(other, stream) for other in takers) for stream in component.outputs}


class Slots(msgspec.Struct, frozen=True):
    """A Spark executor, Storm's supervisor, with the tasks that take its slots."""

    executor: ExecutorReport
    tasks: tuple[tuple[StormTopology, ClusterMember[RegisterTask]], ...]

    def used(self) -> int:
        """Return the slots that are taken."""
        return min(self.executor.slots, sum(topology.cores for topology, _ in self.tasks))


def supervisors(overview: Overview, running: tuple[StormTopology, ...]) -> tuple[Slots, ...]:
    """Return the executors of a live driver.

    Of several executors on one host, the first ones with room are shown with its tasks: Spark does not report
    which of them runs a task.
    """
    snapshot = overview.snapshot
    driver = snapshot.driver
    if driver is None or not driver.live(snapshot.now_ms, snapshot.lease_ms):
        return ()
    left = [(topology, task) for topology in running for task in topology.tasks]
    found = []
    for executor in driver.latest.executors:
        room, mine = executor.slots, []
        for topology, task in left:
            if task.latest.host == executor.host and topology.cores <= room:
                room -= topology.cores
                mine.append((topology, task))
        left = [one for one in left if not any(one[1] is task for _, task in mine)]
        found.append(Slots(executor, tuple(mine)))
    return tuple(found)
