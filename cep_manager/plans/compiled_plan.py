"""A plan as the manager uses it: compiled once, in the thread of the request, and never parsed again."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

import msgspec

from cep_common.ids import PlanKey, instance_name
from cep_common.protocol.drivers import PlanHost, SubmitTopology
from cep_common.protocol.registry import Connector, Delivery, StreamBinding
from cep_common.protocol.tasks import ComponentKind, StatisticsLevel
from query_plan.xml import with_instances


class PlannedQuery(msgspec.Struct, frozen=True):
    """A query or partition that a stage runs, and its lines in the plan's text, from 1."""

    name: str
    line: int
    last_line: int


class PlannedComponent(msgspec.Struct, frozen=True):
    """A stage of the query plan: `parallel` instances that take the `inputs` streams and send the `outputs`.

    `groupings` describes for each input how the instances divide the events; `queries` is what they run.
    """

    name: str
    kind: ComponentKind
    parallel: int
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    groupings: tuple[str, ...] = ()
    queries: tuple[PlannedQuery, ...] = ()
    carried: tuple[str, ...] = ()
    """The streams between its groups that are carried by topics instead of links."""

    def feeds(self, consumer: PlannedComponent, stream: str) -> bool:
        """Return whether `stream` goes from this stage to `consumer` by a link."""
        if self.kind == "publisher" or stream not in self.outputs or stream not in consumer.inputs:
            return False
        return stream not in self.carried or (self.kind == "receiver") != (consumer.kind == "publisher")

    def grouping(self, stream: str) -> str:
        """Return how the instances share the events of `stream`; empty where there is nothing to share."""
        return dict(zip(self.inputs, self.groupings, strict=False)).get(stream, "")


class ScaledStage(msgspec.Struct, frozen=True):
    """A stage whose number of instances follows the load, between `least` and `most`."""

    name: str
    least: int
    most: int

    def within(self, instances: int) -> int:
        """Return the nearest number of instances that it may have."""
        return min(self.most, max(self.least, instances))


class CarriedTopic(msgspec.Struct, frozen=True):
    """A topic that the planner made up for a stream; the manager creates it with this number of partitions.

    Messages with the same value of attribute `key` go to the same partition (empty: there is no key).
    """

    stream: str
    topic: str
    use: Literal["between", "in", "out"]
    key: str
    partitions: int


class CompiledPlan(msgspec.Struct, frozen=True):
    """Everything that follows from a plan's text: its query plan (XML), stages in order of flow, sources and sinks.

    `workers` None leaves the number of topology workers to the configuration. `trace`, `statistics`, `delivery` and
    `host` are the values of the annotations `@Plan:trace` and so on (`host` None: not given); `cores`, `memory_bytes`
    and `labels` those of `@Plan:resources`, for each task. `state_shape` is a digest of the stages that keep state: of
    two plans with the same digest, one can continue with the state of the other. `scripts`: the plan defines functions
    in a script language. `topics` carry streams between its groups and beyond; without `creates_topics` they must be
    there already. `distributed`: it asks for CEP 2.0's distributed processing, for which all nodes have the same plan.
    `digest` is that of the text without comments and layout. The number of instances of each of the `scaled` stages
    follows the load.
    """

    name: str
    description: str
    query_plan: str
    state_shape: str
    components: tuple[PlannedComponent, ...]
    imported: tuple[StreamBinding, ...]
    exported: tuple[StreamBinding, ...]
    playback: bool = False
    workers: int | None = None
    trace: bool = False
    statistics: StatisticsLevel = "basic"
    sources: tuple[Connector, ...] = ()
    sinks: tuple[Connector, ...] = ()
    cores: int = 1
    memory_bytes: int = 0
    labels: tuple[str, ...] = ()
    delivery: Delivery = "at-least-once"
    host: PlanHost | None = None
    scripts: bool = False
    topics: tuple[CarriedTopic, ...] = ()
    creates_topics: bool = True
    distributed: bool = False
    digest: str = ""
    scaled: tuple[ScaledStage, ...] = ()

    def submission(
        self,
        key: PlanKey,
        epoch: int,
        workers: int,
        deployed_ms: int,
        *,
        beside: bool = False,
        restore: str = "",
        restore_epoch: int = 0,
        host: PlanHost = "own",
    ) -> SubmitTopology:
        """Return the order to the driver to run the plan in `workers` tasks.

        `deployed_ms` is when the plan was first deployed; `restore` and `restore_epoch` say what it starts from (see
        the protocol).
        """
        return SubmitTopology(
            key=key,
            epoch=epoch,
            query_plan=self.query_plan,
            workers=workers,
            beside=beside,
            cores=self.cores,
            memory_bytes=self.memory_bytes,
            labels=self.labels,
            restore=restore,
            restore_epoch=restore_epoch,
            deployed_ms=deployed_ms,
            host=host,
        )

    def host_for(self, workers: int, default: PlanHost, asked: PlanHost | None = None) -> PlanHost:
        """Return where a topology of `workers` workers runs.

        Where it was moved to on demand, `asked`, or else the plan's text decides. Otherwise it is `default`, unless the
        plan asks for more than its share of a stage host, scales, or runs scripts, which may keep the whole host busy.
        """
        if workers > 1 or self.cores > 1 or self.memory_bytes or self.labels or self.scaled:
            return "own"
        host = asked or self.host
        if host is None and (self.scripts or any(component.parallel > 1 for component in self.components)):
            return "own"
        return host or default

    def with_instances(self, wanted: Mapping[str, int]) -> CompiledPlan:
        """Return the plan with these numbers of instances of its scaled stages, within their bounds.

        A stage that is not among `wanted` has its smallest number.
        """
        numbers = {one.name: one.within(wanted.get(one.name, one.least)) for one in self.scaled}
        components = tuple(
            msgspec.structs.replace(one, parallel=numbers[one.name]) if one.name in numbers else one
            for one in self.components
        )
        if components == self.components:
            return self
        query_plan = with_instances(self.query_plan, numbers)
        return msgspec.structs.replace(self, components=components, query_plan=query_plan)

    def workers_for(self, asked: int | None, default: int) -> int:
        """Return the number of workers of its topology: as `asked`, as in its text, or else by default.

        A plan that scales gets a worker for each instance of its largest scaled stage: more instances in one process
        would not do more.
        """
        names = {one.name for one in self.scaled}
        largest = max((one.parallel for one in self.components if one.name in names), default=0)
        return asked or self.workers or max(default, largest)

    def instances(self) -> tuple[str, ...]:
        """Return the names of all component instances, in order of flow."""
        return tuple(
            instance_name(component.name, index) for component in self.components for index in range(component.parallel)
        )

    def receiver_instances(self) -> int:
        """Return how many receiver instances workers can send to."""
        return sum(component.parallel for component in self.components if component.kind == "receiver")

    def publisher_instances(self) -> int:
        """Return how many publisher instances need a worker; 0 when the plan exports nothing."""
        if not self.exported:
            return 0
        return sum(component.parallel for component in self.components if component.kind == "publisher")
