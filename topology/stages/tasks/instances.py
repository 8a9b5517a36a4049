"""The component instances of a task, and the routing of their bundles."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

import zmq

from cep_common.clock import Clock
from cep_common.protocol.tasks import ComponentReport, StatisticsLevel
from query_plan.model import instance_stage
from siddhi.scripts.language import ScriptRunner
from topology.events.bundle import Bundle
from topology.events.resequencer import Resequencer
from topology.links.shared import HostLinks
from topology.model import Component, Topology
from topology.stages.contract import Emit, StageInstance
from topology.stages.kinds.processor import Processor
from topology.stages.kinds.publisher import Publisher
from topology.stages.kinds.receiver import Receiver
from topology.stages.kinds.trigger import TriggerInstance
from topology.stages.routes.exchange import TaskExchange
from topology.stages.routes.routing import Routing
from topology.stages.settings import StageSettings
from topology.stages.tasks.sampler import Sampler
from topology.sync_log.task_logs import TaskLogs


@dataclass(frozen=True, slots=True)
class InstanceContext:
    """The context that the instances of a task share.

    `deliver` takes a bundle for one of them, `exchange` those for other tasks'. `lost` is called when a publisher has
    lost its worker. With `secures` checkpoints will be taken, and workers learn what they hold.
    """

    settings: StageSettings
    context: zmq.Context[zmq.Socket[bytes]]
    clock: Clock
    sampler: Sampler
    exchange: TaskExchange
    deliver: Callable[[str, Bundle], None]
    lost: Callable[[], None]
    secures: bool
    logs: TaskLogs
    scripts: ScriptRunner
    links: HostLinks | None = None
    """The links that the plans of a stage host share."""


class TaskInstances(Mapping[str, StageInstance]):
    """The instances of task `index`, by name.

    `receivers` and `publishers` are those at its edges. Belongs to the task's loop.
    """

    def __init__(self, topology: Topology, index: int, around: InstanceContext) -> None:
        self.receivers: list[Receiver] = []
        self.publishers: list[Publisher] = []
        self.processors: list[Processor] = []
        self._topology = topology
        self._index = index
        self._around = around
        self._routing = Routing(topology, around.settings.scripts, self._hand_over, around.scripts)
        self._by_name = {
            name: self.build(name, component)
            for component in topology.components
            for name in component.instances()
            if topology.placement[name] == index
        }

    def __getitem__(self, name: str) -> StageInstance:
        return self._by_name[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._by_name)

    def __len__(self) -> int:
        return len(self._by_name)

    def is_full(self) -> bool:
        """Return whether too much output waits, so that no more events should be accepted."""
        full = any(publisher.is_full() for publisher in self.publishers)
        full = full or self._around.logs.is_full(self._around.settings.window_rows)
        return full or any(processor.is_full() for processor in self.processors)

    def follow_level(self, level: StatisticsLevel) -> None:
        """Set the statistics level of all instances."""
        for instance in self.values():
            if instance.statistics.level != level:
                instance.statistics.level = level
                if isinstance(instance, Processor):
                    instance.follow_level()

    def measure(self, level: StatisticsLevel, *, changed: bool) -> None:
        """Update the counters of database problems, and of state size if it may have `changed`.

        At the `level` "off" state is not measured.
        """
        for processor in self.processors:
            processor.tell_of_stores()
            if changed and level != "off":
                processor.measure()

    def reports(self) -> tuple[ComponentReport, ...]:
        """Return the counters of all instances."""
        return tuple(instance.statistics.report(name, self.peers(name)) for name, instance in self.items())

    def peers(self, name: str) -> tuple[str, ...]:
        """Return the instances or workers that instance `name` sends to."""
        instance = self[name]
        if isinstance(instance, Publisher):
            return (instance.worker,) if instance.is_connected() else ()
        component = self._topology.component(name.rpartition("#")[0])
        return tuple(
            target for consumer in self._topology.consumers(component) for target in consumer.component.instances()
        )

    def build(self, name: str, component: Component) -> StageInstance:
        """Build instance `name` of `component`, connected to its consumers."""
        topology, around, plan = self._topology, self._around, self._topology.plan
        settings = around.settings
        match component.kind:
            case "receiver":
                receiver = Receiver(
                    name, topology, self.emitter(name, component), around.context, settings.host, settings.ports,
                    settings.window_rows, secures=around.secures, clock=around.clock.now_ms,
                    shared=around.links.receivers if around.links is not None else None,
                )  # fmt: skip
                self.receivers.append(receiver)
                return receiver
            case "processor":
                stage = instance_stage(plan.processor(component.name), int(name.rpartition("#")[2]))
                emit = around.logs.emitter(name, stage, self.emitter(name, component))
                processor = Processor(name, topology, stage, emit, settings, around.scripts)
                self.processors.append(processor)
                return processor
            case "trigger":
                trigger = next(trigger for trigger in plan.triggers if trigger.name == component.name)
                return TriggerInstance(name, trigger, self.emitter(name, component))
            case "publisher":
                resequencer = Resequencer(topology.paths(component))
                publisher = Publisher(
                    name, topology, around.context, settings.publisher_queue_rows, resequencer, around.lost,
                    plan.delivery == "exactly-once", plan.delivery == "at-least-once",
                    around.links.workers if around.links is not None else None,
                )  # fmt: skip
                self.publishers.append(publisher)
                return publisher

    def emitter(self, name: str, component: Component) -> Emit:
        """Return the function to which instance `name` passes its bundles.

        It distributes them, and passes them to the sampler while samples are taken.
        """
        emit, sampler, clock = self._routing.emitter(component), self._around.sampler, self._around.clock

        def emit_seen(bundle: Bundle) -> None:
            if sampler.on:
                sampler.note(name, "out", bundle, clock.now_ms(), clock.monotonic_ms())
            emit(bundle)

        return emit_seen

    def _hand_over(self, target: str, share: Bundle) -> None:
        task = self._topology.placement[target]
        if task == self._index:
            share.hold()
            self._around.deliver(target, share)
        else:
            self._around.exchange.send(task, target, share)
