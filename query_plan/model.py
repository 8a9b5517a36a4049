"""The query plan: which stages a topology has, what each of them runs, and how events find their instance.

A plan is a receiver stage, processing stages (one for each execution group), triggers and a publisher stage. Stages are
linked by stream id alone: each producer of a stream feeds all its consumers. Streams, tables and queries are
nodes of the syntax tree, so plans compare by meaning.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import Enum
from typing import Literal

from siddhi.language import ast

RECEIVER_NAME = "EventReceiver"
PUBLISHER_NAME = "EventPublisher"


class GroupingKind(str, Enum):
    """How the instances of a stage share the events of one input."""

    SHUFFLE = "shuffle"
    """Any instance may process any event: the readers keep no state."""
    FIELDS = "fields"
    """Events with the same value of the key attribute go to the same instance."""
    EXPRESSION = "expression"
    """Events with the same value of an expression go to the same instance."""
    RANGES = "ranges"
    """An event goes to the instances of all labels whose condition it meets: none, one or several."""
    ALL = "all"
    """Every instance gets every event."""
    GLOBAL = "global"
    """One instance gets all events: the readers keep state over all of them, so the stage cannot run in parallel."""
    ORIGIN = "origin"
    """All results of one instance go to the same instance, in order: the grouping of publishers."""


@dataclass(frozen=True, slots=True)
class Grouping:
    """How a consumer shares the events of a stream.

    `key` is the attribute of a `FIELDS` grouping, `partition` the key of an `EXPRESSION` or `RANGES` grouping as
    written in `partition with`; otherwise they are None.
    """

    kind: GroupingKind
    key: str | None = None
    partition: ast.ValuePartition | ast.RangePartition | None = None


SHUFFLE = Grouping(GroupingKind.SHUFFLE)
ALL = Grouping(GroupingKind.ALL)
GLOBAL = Grouping(GroupingKind.GLOBAL)
ORIGIN = Grouping(GroupingKind.ORIGIN)


def fields(key: str) -> Grouping:
    """Return the grouping that sends events with the same value of an attribute to the same instance."""
    return Grouping(GroupingKind.FIELDS, key)


def by_expression(partition: ast.ValuePartition) -> Grouping:
    """Return the grouping that sends events with the same value of an expression to the same instance."""
    return Grouping(GroupingKind.EXPRESSION, partition=partition)


def by_ranges(partition: ast.RangePartition) -> Grouping:
    """Return the grouping that sends events to the instances of the ranges that they meet."""
    return Grouping(GroupingKind.RANGES, partition=partition)


@dataclass(frozen=True, slots=True)
class StageInput:
    """An input stream of a stage."""

    stream: ast.StreamDefinition
    grouping: Grouping


@dataclass(frozen=True, slots=True)
class ReceiverStage:
    """Receives the imported streams from the workers; `streams` are in order of definition."""

    parallel: int
    streams: tuple[ast.StreamDefinition, ...]
    name: str = RECEIVER_NAME


SyncRole = Literal["", "entry", "log", "replica"]
"""The role of a stage in a group with shared state: it accepts events, orders them, or keeps the state.

Stages of other groups have none.
"""
LogKind = Literal["", "kafka"]
"""The log of a group with shared state: a topic of Kafka, or only its own stages."""


@dataclass(frozen=True, slots=True)
class ProcessingStage:
    """One execution group: an engine, or `parallel` of them, over a part of the plan.

    A group with shared state consists of three of them (`query_plan.planning.shared_state`), with different `sync`;
    `log` is the place of their log.

    `inputs` are in order of definition, which orders events of the same time. `internal` are streams that the plan
    defines and only this stage uses. `outputs` are the streams that it writes and others read. `enforce_parallel` means
    that the stage can only run with `parallel` instances: it keeps state over all events.
    """

    name: str
    parallel: int
    enforce_parallel: bool
    inputs: tuple[StageInput, ...]
    outputs: tuple[ast.StreamDefinition, ...]
    elements: tuple[ast.ExecutionElement, ...]
    internal: tuple[ast.StreamDefinition, ...] = ()
    tables: tuple[ast.TableDefinition, ...] = ()
    windows: tuple[ast.WindowDefinition, ...] = ()
    functions: tuple[ast.FunctionDefinition, ...] = ()
    aggregations: tuple[ast.AggregationDefinition, ...] = ()
    sync: SyncRole = ""
    log: LogKind = ""

    @property
    def labels(self) -> tuple[str, ...]:
        """The labels of all ranges that distribute events, each once, in the order of the inputs."""
        partitions = (one.grouping.partition for one in self.inputs)
        ranges = (one.ranges for one in partitions if isinstance(one, ast.RangePartition))
        return tuple(dict.fromkeys(label for part in ranges for _, label in part))

    def owner(self, label: str) -> int:
        """Return the instance that processes `label`; labels are assigned round robin.

        Raises:
            ValueError: For a label that the stage does not have.
        """
        return self.labels.index(label) % self.parallel


@dataclass(frozen=True, slots=True)
class TriggerStage:
    """Emits the events of one trigger, once for the whole plan. Stage and stream are named after the trigger."""

    definition: ast.TriggerDefinition

    @property
    def name(self) -> str:
        """The name of the trigger, which is that of its stream."""
        return self.definition.id

    @property
    def stream(self) -> ast.StreamDefinition:
        """The stream that the trigger writes to."""
        attribute = ast.AttributeDefinition("triggered_time", ast.AttributeType.LONG)
        return ast.StreamDefinition(self.definition.id, (attribute,))


@dataclass(frozen=True, slots=True)
class PublisherStage:
    """Sends the exported streams to the workers; `streams` are in order of definition."""

    parallel: int
    streams: tuple[ast.StreamDefinition, ...]
    name: str = PUBLISHER_NAME


@dataclass(frozen=True, slots=True)
class Playback:
    """Event time drives the clock; after `idle_ms` without an event it advances by `increment_ms` (both or none)."""

    idle_ms: int | None = None
    increment_ms: int | None = None


@dataclass(frozen=True, slots=True)
class Link:
    """Stage `producer` feeds `stream` to stage `consumer`; a publisher's grouping is by origin."""

    producer: str
    stream: str
    consumer: str
    grouping: Grouping


Delivery = Literal["at-least-once", "exactly-once", "at-most-once"]
Transport = Literal["zeromq", "kafka"]


@dataclass(frozen=True, slots=True)
class Resources:
    """The resources of each task of the topology.

    These are cores of one executor, the memory that it may hold (0: no limit), and labels that its host must have.
    """

    cores: int = 1
    memory_bytes: int = 0
    labels: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class QueryPlan:
    """The model from which a topology is built.

    `dialect_3x` means that the plan is written as for CEP 4 (`@Plan:name`), whose dialect of SiddhiQL is Siddhi 3's.
    `playback` None means that the system clock drives the plan; `workers` None that the configuration sets the number
    of topology workers. `delivery` is the guarantee for events and results when a process fails. `carried` are streams
    that go through a topic of Kafka from one group's publisher to others' receivers. `checkpoint_interval_ms` None
    means the interval of the driver's configuration, 0 that no checkpoints are taken by time. `checkpoints_kept` None
    means the number in the driver's configuration.
    """

    name: str
    receiver: ReceiverStage
    processors: tuple[ProcessingStage, ...]
    triggers: tuple[TriggerStage, ...]
    publisher: PublisherStage
    description: str = ""
    dialect_3x: bool = False
    playback: Playback | None = None
    workers: int | None = None
    resources: Resources = Resources()
    delivery: Delivery = "at-least-once"
    checkpoint_interval_ms: int | None = None
    checkpoints_kept: int | None = None
    carried: tuple[str, ...] = ()

    def processor(self, name: str) -> ProcessingStage:
        """Return the processing stage called `name`. Raise KeyError when there is none."""
        return {stage.name: stage for stage in self.processors}[name]

    def producers(self, stream: str) -> tuple[str, ...]:
        """Return the stages that emit `stream`: receiver, processors, triggers, in the plan's order."""
        receiver = (self.receiver.name,) if stream in {one.id for one in self.receiver.streams} else ()
        processors = tuple(stage.name for stage in self.processors if stream in {output.id for output in stage.outputs})
        return receiver + processors + tuple(trigger.name for trigger in self.triggers if trigger.name == stream)

    def links(self) -> tuple[Link, ...]:
        """Return every edge of the topology, ordered by consumer, then by the consumer's inputs, then by producer.

        A stage that writes and reads the same stream keeps its own events inside: there is no link from a stage to
        itself.
        """
        inputs = [(stage.name, one.stream.id, one.grouping) for stage in self.processors for one in stage.inputs]
        inputs += [(self.publisher.name, stream.id, ORIGIN) for stream in self.publisher.streams]
        return tuple(
            Link(producer, stream, consumer, grouping)
            for consumer, stream, grouping in inputs
            for producer in self.producers(stream)
            if producer != consumer and self._feeds(producer, stream, consumer)
        )

    def _feeds(self, producer: str, stream: str, consumer: str) -> bool:
        """Return whether a stream goes from one stage to the other without a topic in between."""
        if stream not in self.carried:
            return True
        return (producer == self.receiver.name) != (consumer == self.publisher.name)


def stage_app(plan: QueryPlan, stage: ProcessingStage) -> ast.App:
    """Return the Siddhi app that the engines of `stage` run: the plan's name and clock, then the stage's content.

    Triggers are plain streams in it, fed by the plan's trigger stages.
    """
    streams = {one.stream.id: one.stream for one in stage.inputs}
    streams |= {stream.id: stream for stream in (*stage.internal, *stage.outputs) if stream.id not in streams}
    return ast.App(
        annotations=_header(plan),
        definitions=(
            *streams.values(),
            *stage.tables,
            *stage.windows,
            *stage.functions,
            *stage.aggregations,
        ),
        elements=stage.elements,
    )


def instance_stage(stage: ProcessingStage, index: int) -> ProcessingStage:
    """Return `stage` for its instance `index`: partitions by ranges contain only the labels that the instance owns.

    An event that meets the conditions of several labels is sent to the owner of each, and each processes it for its own
    labels. The entry of a group with shared state writes its instance number into each event, as the last attribute.
    """
    if stage.sync == "entry":
        return replace(stage, elements=tuple(_own_events(element, index) for element in stage.elements))
    if stage.parallel == 1 or not stage.labels:
        return stage
    return replace(stage, elements=tuple(_own_ranges(stage, element, index) for element in stage.elements))


def _own_events(element: ast.ExecutionElement, index: int) -> ast.ExecutionElement:
    if not isinstance(element, ast.Query) or element.selection is None or not element.selection.attributes:
        return element
    *attributes, origin = element.selection.attributes
    number = ast.OutputAttribute(ast.Constant(index, ast.AttributeType.INT), origin.name)
    return replace(element, selection=replace(element.selection, attributes=(*attributes, number)))


def _own_ranges(stage: ProcessingStage, element: ast.ExecutionElement, index: int) -> ast.ExecutionElement:
    if not isinstance(element, ast.Partition):
        return element
    return replace(element, keys=tuple(_own_part(stage, key, index) for key in element.keys))


def _own_part(
    stage: ProcessingStage, key: ast.ValuePartition | ast.RangePartition, index: int
) -> ast.ValuePartition | ast.RangePartition:
    if not isinstance(key, ast.RangePartition):
        return key
    labels = stage.labels
    own = tuple(one for one in key.ranges if one[1] in labels and stage.owner(one[1]) == index)
    # If the instance owns no label of this stream, it gets no event of the stream, whatever the ranges are.
    return replace(key, ranges=own) if own else key


def _header(plan: QueryPlan) -> tuple[ast.Annotation, ...]:
    namespace = "Plan" if plan.dialect_3x else "app"
    name = ast.Annotation("name", (ast.AnnotationElement(None, plan.name),), namespace=namespace)
    if plan.playback is None:
        return (name,)
    options: tuple[ast.AnnotationElement, ...] = ()
    if plan.playback.idle_ms is not None and plan.playback.increment_ms is not None:
        options = (
            ast.AnnotationElement("idle.time", f"{plan.playback.idle_ms} millisec"),
            ast.AnnotationElement("increment", f"{plan.playback.increment_ms} millisec"),
        )
    return (name, ast.Annotation("playback", options, namespace=namespace))
