"""The query plan: which stages a topology has, what each of them runs, and how events find their instance.

A plan is a receiver stage, processing stages (one for each execution group), triggers and a publisher stage. Stages are
linked by stream id alone: whoever gives out a stream feeds everyone who takes it in. Streams, tables and queries are
nodes of the syntax tree, so plans compare by meaning.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from siddhi.language import ast

RECEIVER_NAME = "EventReceiver"
PUBLISHER_NAME = "EventPublisher"


class GroupingKind(str, Enum):
    """How the instances of a stage share the events of one input."""

    SHUFFLE = "shuffle"
    """Any instance may take any event: the readers keep no state."""
    FIELDS = "fields"
    """Events with the same value of the key attribute go to the same instance."""
    ALL = "all"
    """Every instance gets every event."""
    GLOBAL = "global"
    """One instance gets all events: the readers keep state over all of them, so the stage cannot run in parallel."""


@dataclass(frozen=True, slots=True)
class Grouping:
    """`key` is the attribute of a `FIELDS` grouping, None otherwise."""

    kind: GroupingKind
    key: str | None = None


SHUFFLE = Grouping(GroupingKind.SHUFFLE)
ALL = Grouping(GroupingKind.ALL)
GLOBAL = Grouping(GroupingKind.GLOBAL)


def fields(key: str) -> Grouping:
    return Grouping(GroupingKind.FIELDS, key)


@dataclass(frozen=True, slots=True)
class StageInput:
    """A stream that a stage takes in."""

    stream: ast.StreamDefinition
    grouping: Grouping


@dataclass(frozen=True, slots=True)
class ReceiverStage:
    """Takes the imported streams in from the workers. `streams` stand in order of definition."""

    parallel: int
    streams: tuple[ast.StreamDefinition, ...]
    name: str = RECEIVER_NAME


@dataclass(frozen=True, slots=True)
class ProcessingStage:
    """One execution group: an engine, or `parallel` of them, over a part of the plan.

    `inputs` stand in order of definition, which decides between events of the same time. `internal` are streams that
    the plan defines and only this stage uses. `outputs` are what others need of the streams that it writes.
    `enforce_parallel` says that the stage can only run with `parallel` instances: it keeps state over all events.
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


@dataclass(frozen=True, slots=True)
class TriggerStage:
    """Gives out the events of one trigger, once for the whole plan. Its name and its stream's are the trigger's id."""

    definition: ast.TriggerDefinition

    @property
    def name(self) -> str:
        return self.definition.id

    @property
    def stream(self) -> ast.StreamDefinition:
        attribute = ast.AttributeDefinition("triggered_time", ast.AttributeType.LONG)
        return ast.StreamDefinition(self.definition.id, (attribute,))


@dataclass(frozen=True, slots=True)
class PublisherStage:
    """Gives the exported streams out to the workers. `streams` stand in order of definition."""

    parallel: int
    streams: tuple[ast.StreamDefinition, ...]
    name: str = PUBLISHER_NAME


@dataclass(frozen=True, slots=True)
class Playback:
    """Event time drives the plan; after `idle_ms` without an event the clock moves by `increment_ms` (both or none)."""

    idle_ms: int | None = None
    increment_ms: int | None = None


@dataclass(frozen=True, slots=True)
class Link:
    """Stage `producer` feeds `stream` to stage `consumer`. A publisher's grouping is shuffle."""

    producer: str
    stream: str
    consumer: str
    grouping: Grouping


@dataclass(frozen=True, slots=True)
class QueryPlan:
    """What a topology is built from.

    `dialect_3x` says that the plan is written as for CEP 4 (`@Plan:name`), whose dialect of SiddhiQL is Siddhi 3's.
    `playback` None means that the system clock drives the plan; `workers` None that the plan leaves the number of
    topology workers to the configuration.
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

    def processor(self, name: str) -> ProcessingStage:
        """The processing stage called `name`; KeyError when there is none."""
        return {stage.name: stage for stage in self.processors}[name]

    def producers(self, stream: str) -> tuple[str, ...]:
        """The stages that give out `stream`: receiver, processors, triggers, in the plan's order."""
        receiver = (self.receiver.name,) if stream in {one.id for one in self.receiver.streams} else ()
        processors = tuple(stage.name for stage in self.processors if stream in {output.id for output in stage.outputs})
        return receiver + processors + tuple(trigger.name for trigger in self.triggers if trigger.name == stream)

    def links(self) -> tuple[Link, ...]:
        """Every edge of the topology, ordered by consumer, then by the consumer's inputs, then by producer.

        A stage that writes and takes in one stream keeps its own events inside: no link leads from a stage to itself.
        """
        inputs = [(stage.name, one.stream.id, one.grouping) for stage in self.processors for one in stage.inputs]
        inputs += [(self.publisher.name, stream.id, SHUFFLE) for stream in self.publisher.streams]
        return tuple(
            Link(producer, stream, consumer, grouping)
            for consumer, stream, grouping in inputs
            for producer in self.producers(stream)
            if producer != consumer
        )


def stage_app(plan: QueryPlan, stage: ProcessingStage) -> ast.App:
    """The Siddhi app that the engines of `stage` run: the plan's name and clock, then everything that the stage holds.

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
