"""The logs of a task: between the stage that puts events into one order and the instances that apply them.

    g.log#0 ──write──▶ topic ──read──▶ g#0, g#1, …
            ──bundles without rows───▶

The bundles go from task to task as always, with their tickets, receipts and markers, and say from which offset on the
topic has their rows. So credit, checkpoints, draining and fencing are those of every stage.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from query_plan.model import ProcessingStage
from query_plan.planning.shared_state import log_name
from topology.errors import TopologyError
from topology.events.bundle import Bundle
from topology.events.frames import CLOCK_FIELD, arrow_schema
from topology.model import Topology
from topology.sync_log.kafka_topic import KafkaReadTopic, KafkaWrittenTopic
from topology.sync_log.reader import SyncLogInput, SyncLogReader
from topology.sync_log.records import LogSchemas
from topology.sync_log.settings import SyncLogSettings
from topology.sync_log.writer import SyncLogOutput, SyncLogWriter

Emit = Callable[[Bundle], None]
WAITS = "sync-log-waits"
"""The code of the error that records wait for the brokers."""


@dataclass(frozen=True)
class LogTopics:
    """How topics are opened, by name; tests have others."""

    written: Callable[[str, SyncLogSettings, Callable[[], None]], SyncLogOutput] = KafkaWrittenTopic
    read: Callable[[str, SyncLogSettings, Callable[[], None]], SyncLogInput] = KafkaReadTopic


KAFKA = LogTopics()


class TaskLogs:
    """The logs in Kafka of which some instance of task `index` writes or reads; often none.

    `deliver` takes what instances of this task may process; `wake` is called, by any thread, when `pump` has something
    to do. Everything else belongs to the task's loop.
    """

    def __init__(
        self,
        topology: Topology,
        index: int,
        settings: SyncLogSettings,
        deliver: Callable[[str, Bundle], None],
        wake: Callable[[], None],
        topics: LogTopics = KAFKA,
    ) -> None:
        """Open the topics.

        Raises:
            TopologyError: When the plan has a log in Kafka and no brokers are configured.
            ConfigError: When the client library is missing or refuses the configuration.
        """
        self._topology, self._index, self._settings, self._topics = topology, index, settings, topics
        self._deliver, self._wake = deliver, wake
        self._run = (topology.epoch, topology.attempt)
        self._writers: dict[str, SyncLogWriter] = {}
        self._readers: dict[str, SyncLogReader] = {}
        """By the instance that reads; those of one group share a reader."""
        self._noted: list[tuple[str, str, str]] = []
        for stage in topology.plan.processors:
            if stage.sync == "replica" and stage.log == "kafka":
                self._open_reader(stage)

    def emitter(self, name: str, stage: ProcessingStage, emit: Emit) -> Emit:
        """Return the function to which instance `name` of `stage` passes its bundles, `emit` unless it is a log."""
        if stage.sync != "log" or stage.log != "kafka":
            return emit
        topic = self._topics.written(self._topic_of(stage.name), self._settings, self._wake)
        self._writers[name] = SyncLogWriter(topic, self._run, emit, secrets.randbits(63))
        return self._writers[name].write

    def takes(self, target: str, bundle: Bundle) -> bool:
        """Take a bundle for `target` whose rows are in a log; return False when it goes to the instance directly."""
        reader = self._readers.get(target)
        if reader is None:
            return False
        reader.push(target, bundle)
        self._hand_on(reader)
        return True

    def pump(self) -> None:
        """Pass on what topics have taken or given. Raise TopologyError when a log cannot continue."""
        for writer in self._writers.values():
            writer.pump()
        for reader in dict.fromkeys(self._readers.values()):
            self._hand_on(reader)

    def is_full(self, most_rows: int) -> bool:
        """Return whether more than `most_rows`, or too many bundles, wait for the brokers."""
        return any(writer.is_full(most_rows) for writer in self._writers.values())

    def is_drained(self) -> bool:
        """Return whether no bundle waits for a topic."""
        return all(one.is_drained() for one in self._sides().values())

    def complete(self, checkpoint: int) -> None:
        """Delete what the complete `checkpoint` holds from the topics."""
        for writer in self._writers.values():
            writer.complete(checkpoint)

    def abandon(self, checkpoint: int) -> None:
        """Discard `checkpoint`, which will not be completed."""
        for writer in self._writers.values():
            writer.abandon(checkpoint)

    def problems(self) -> Iterator[tuple[str, str, str]]:
        """Yield (instance, code, text) of what has gone wrong since the last call, or is wrong now."""
        noted, self._noted = self._noted, []
        yield from noted
        for name, one in self._sides().items():
            problem = "" if one.is_drained() else one.topic.problem()
            if problem:
                yield name, WAITS, f"events wait for the sync log: {problem}"

    def close(self) -> None:
        """Close the topics."""
        for one in dict.fromkeys(self._sides().values()):
            one.topic.close()

    def _sides(self) -> dict[str, SyncLogWriter | SyncLogReader]:
        return {**self._writers, **self._readers}

    def _hand_on(self, reader: SyncLogReader) -> None:
        for target, bundle in reader.ready():
            self._deliver(target, bundle)

    def _open_reader(self, stage: ProcessingStage) -> None:
        topology = self._topology
        instances = topology.component(stage.name).instances()
        mine = [name for name in instances if topology.placement[name] == self._index]
        if not mine:
            return
        streams = {one.stream.id: arrow_schema(topology.streams[one.stream.id]) for one in stage.inputs}
        schemas = LogSchemas(streams, {name: schema.append(CLOCK_FIELD) for name, schema in streams.items()})
        topic = self._topics.read(self._topic_of(log_name(stage.name)), self._settings, self._wake)

        def note(code: str, text: str) -> None:
            self._noted.append((mine[0], code, text))

        reader = SyncLogReader(topic, self._run, mine, schemas, note)
        self._readers.update(dict.fromkeys(mine, reader))

    def _topic_of(self, log: str) -> str:
        if not self._settings.kafka:
            raise TopologyError(
                "not-supported",
                f"{log} is kept in Kafka: name the brokers in stages.sync_log.kafka of the driver's configuration, or"
                " write sync='builtin'",
            )
        return self._settings.topic(self._topology.key, log)
