"""A topology: the component instances of a query plan, their tasks, and the paths between them. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Final

from cep_common.ids import PlanKey, instance_name
from cep_common.protocol.links import StreamSchema
from cep_common.protocol.tasks import ComponentKind
from query_plan.model import Grouping, GroupingKind, QueryPlan
from siddhi.language import ast
from topology.placement import PlacedStage, StageLink, place

RECEIVER: Final = "receiver"
PROCESSOR: Final = "processor"
TRIGGER: Final = "trigger"
PUBLISHER: Final = "publisher"


@dataclass(frozen=True, slots=True)
class Component:
    """One stage of the topology."""

    name: str
    kind: ComponentKind
    parallel: int

    def instances(self) -> tuple[str, ...]:
        """Return the names of its instances."""
        return tuple(instance_name(self.name, index) for index in range(self.parallel))


@dataclass(frozen=True, slots=True)
class Consumer:
    """A component that takes `groupings`' streams from another one.

    with `every_ticket` it needs every ticket, even one without rows for it; `every_instance` that each of its instances
    does.
    """

    component: Component
    groupings: Mapping[str, Grouping]
    every_ticket: bool
    every_instance: bool


@dataclass(frozen=True)
class Topology:
    """`plan` laid out over `tasks` tasks, as deployment `epoch` of `key`, started again `attempt` times."""

    key: PlanKey
    epoch: int
    plan: QueryPlan
    tasks: int
    attempt: int = 0

    @cached_property
    def components(self) -> tuple[Component, ...]:
        """All components; a consumer never precedes its producers."""
        plan = self.plan
        processors = [Component(stage.name, PROCESSOR, stage.parallel) for stage in plan.processors]
        return (
            Component(plan.receiver.name, RECEIVER, plan.receiver.parallel),
            *(Component(trigger.name, TRIGGER, 1) for trigger in plan.triggers),
            *self._in_flow_order(processors),
            Component(plan.publisher.name, PUBLISHER, plan.publisher.parallel),
        )

    @cached_property
    def streams(self) -> dict[str, StreamSchema]:
        """Every stream that passes between components."""
        plan = self.plan
        definitions = [*plan.receiver.streams, *(trigger.stream for trigger in plan.triggers), *plan.publisher.streams]
        definitions += [output for stage in plan.processors for output in stage.outputs]
        return {definition.id: stream_schema(definition) for definition in definitions}

    @cached_property
    def placement(self) -> dict[str, int]:
        """Return the task of every instance: evenly spread, instances of one component apart, neighbours together."""
        stages = [PlacedStage(component.name, component.instances()) for component in self.components]
        pairs = dict.fromkeys((link.producer, link.consumer) for link in self.plan.links())
        return place(stages, [StageLink(*pair, self._is_pairwise(*pair)) for pair in pairs], self.tasks)

    def run(self) -> str:
        """Return a readable name for this run of the plan."""
        return f"epoch {self.epoch}, attempt {self.attempt} of {self.key.topology()}"

    def component(self, name: str) -> Component:
        """Return the component called `name`. Raise KeyError when there is none."""
        return {component.name: component for component in self.components}[name]

    def keeps_tickets(self, component: Component) -> bool:
        """Return whether each bundle of the component keeps the ticket of the bundle that caused it.

        This holds for a stateless stage with several instances.
        """
        kinds = {link.grouping.kind for link in self.plan.links() if link.consumer == component.name}
        return component.kind == PROCESSOR and component.parallel > 1 and kinds == {GroupingKind.SHUFFLE}

    def consumers(self, producer: Component) -> tuple[Consumer, ...]:
        """Return the consumers of streams of `producer`, in flow order."""
        found = []
        for component in self.components:
            groupings = {
                link.stream: link.grouping
                for link in self.plan.links()
                if link.producer == producer.name and link.consumer == component.name
            }
            if groupings:
                keeps_order = bool(self.paths(component))
                every_ticket = keeps_order or self.keeps_tickets(component)
                found.append(Consumer(component, groupings, every_ticket, every_instance=keeps_order))
        return tuple(found)

    def producers(self, consumer: Component) -> tuple[str, ...]:
        """Return the instances that send bundles to `consumer`."""
        names = {link.producer for link in self.plan.links() if link.consumer == consumer.name}
        return tuple(name for one in self.components if one.name in names for name in one.instances())

    def origins(self, consumer: Component) -> dict[str, dict[str, str]]:
        """Return, for each stream that `consumer` takes, the instances whose tickets its bundles carry.

        Each instance is mapped to the source that must be heard before rows of the stream can be ordered by event
        time: the instance itself, or the whole component where one of its instances is enough, since not every
        receiver has a link.
        """
        origins: dict[str, dict[str, str]] = {}
        for link in self.plan.links():
            if link.consumer == consumer.name:
                producer = self.component(link.producer)
                names = self._ways(producer) if self.keeps_tickets(producer) else producer.instances()
                found = origins.setdefault(link.stream, {})
                found.update((name, self._heard_as(name)) for name in names)
        return origins

    def paths(self, consumer: Component) -> dict[str, int]:
        """Return, for each origin whose tickets must be ordered at `consumer`, the number of paths between them.

        Origins with a single direct path are omitted, and all origins of a consumer that does not order tickets.
        """
        if self.keeps_tickets(consumer):
            return {}
        ways = self._ways(consumer)
        through_parallel = {origin for origin, counts in ways.items() if counts["parallel"]}
        return {origin: ways[origin]["all"] for origin in sorted(through_parallel)}

    def _heard_as(self, instance: str) -> str:
        component = self.component(instance.rpartition("#")[0])
        return component.name if component.kind == RECEIVER else instance

    def _is_pairwise(self, producer: str, consumer: str) -> bool:
        """Return whether events go from instance i of one stage to instance i of another of the same size.

        This is so between two stateless stages, where the ticket decides, and when both share events by the same
        attribute. A stage's changes of the attribute's value are ignored: such events only cross between tasks.
        """
        giving, taking = self.component(producer), self.component(consumer)
        if giving.parallel != taking.parallel or giving.kind != PROCESSOR or taking.kind != PROCESSOR:
            return False
        if self.keeps_tickets(giving) and self.keeps_tickets(taking):
            return True
        links = self.plan.links()
        given = {link.grouping for link in links if link.consumer == producer}
        taken = {link.grouping for link in links if link.producer == producer and link.consumer == consumer}
        return given == taken and {grouping.kind for grouping in given} == {GroupingKind.FIELDS}

    def _ways(self, consumer: Component) -> dict[str, Counter[str]]:
        ways: dict[str, Counter[str]] = {}
        producers = {link.producer for link in self.plan.links() if link.consumer == consumer.name}
        for producer in (component for component in self.components if component.name in producers):
            if self.keeps_tickets(producer):
                for origin, counts in self._ways(producer).items():
                    ways.setdefault(origin, Counter()).update(all=counts["all"], parallel=counts["all"])
            else:
                for origin in producer.instances():
                    ways.setdefault(origin, Counter()).update(all=1)
        return ways

    def _in_flow_order(self, processors: list[Component]) -> list[Component]:
        """Return the processors in topological order; the planner has refused cycles between stages."""
        names = {component.name for component in processors}
        needs = {
            component.name: {
                link.producer
                for link in self.plan.links()
                if link.consumer == component.name and link.producer in names
            }
            for component in processors
        }
        ordered: list[Component] = []
        waiting = list(processors)
        while waiting:
            done = {component.name for component in ordered}
            free = next(component for component in waiting if needs[component.name] <= done)
            ordered.append(free)
            waiting.remove(free)
        return ordered


def stream_schema(definition: ast.StreamDefinition) -> StreamSchema:
    """Return the definition in the form used in messages."""
    return StreamSchema(
        stream=definition.id,
        attributes=tuple((attribute.name, attribute.type.value) for attribute in definition.attributes),
    )
