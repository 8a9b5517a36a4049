"""Source `kafka`: events of the messages of topics.

    brokers ──► consume ──► mapper ──► the worker's intake ──► in the log ──► committed
                   ▲           └─► failed events: topic, partition, offset, payload
    position: what the log has

A batch is taken before the next one is asked for, so that a partition's messages keep their order, and a plan that does
not keep up leaves them with the brokers.
"""

from __future__ import annotations

import logging
import queue
import threading
import time
from collections.abc import Sequence
from concurrent.futures import CancelledError, Future
from contextlib import suppress
from pathlib import Path
from typing import Any

import pyarrow as pa

from cep_common.errors import ConfigError, InputError
from cep_common.protocol.worker_reports import PartitionReport
from cep_worker.failed_events.entries import FailureOrigin as Failing
from cep_worker.failed_events.service import ReplayAttempt
from cep_worker.formats.schemas.problems import SchemaUnavailableError
from cep_worker.formats.schemas.settings import mapper_guard
from cep_worker.formats.source_mappers.registry import source_format
from cep_worker.formats.transport_properties import split_attributes
from cep_worker.kafka.client import Errors, callback, common_settings, explained, library, made, refuse_brokers
from cep_worker.kafka.fetched import Fetched
from cep_worker.kafka.messages import MessageReader, Refused, StoredMessages, failed_messages
from cep_worker.kafka.pauses import Pauses
from cep_worker.kafka.positions import OutOfRangeError, Position
from cep_worker.kafka.readings import Reader, Reading, Readings
from cep_worker.kafka.seen import Seen
from cep_worker.kafka.source_topics import BeginAgainError, SourceTopics
from cep_worker.kafka.unassigned import UnassignedPartitions
from cep_worker.plans.connectors import DeclaredConnector
from cep_worker.sources.base import SourceContext
from cep_worker.storage.records import BatchOrigin
from query_plan.connectors.kafka import KafkaSourceOptions, read_offsets, read_partitions, read_topics
from query_plan.connectors.options import options_of

logger = logging.getLogger(__name__)

MOST_MESSAGES = 10_000
"""The most messages that are taken at once."""
MOST_BYTES = 16_777_216
"""About the most bytes of messages that are taken at once."""
CONSUME_S = 0.2
"""How long an idle source waits for a message before it does other work."""
FILL_S = 0.002
"""So long a batch may grow after its first message: `consume` would wait for all messages that it may return."""
BEHIND = 1_000
"""With more unread messages than these a batch may grow for CONSUME_S, so that partitions advance together."""
RETRY_S = 1.0
PROBE_S = 2.0
"""How often a source asks whether what was wrong still is, and whether its topics are still the same."""
AGAIN_S = 1.0
"""How often the partitions with unread messages are passed to the inflows again, as these may be new."""
KEPT_S = 5.0
"""How long a problem is shown that does not come again."""
ENDING_S = 0.5
STEP_S = 0.005
SAFE_S = 5.0
"""Longer than it takes until what is taken is safe."""
PAUSE_S = 30.0
"""A plan that has taken nothing for so long must not cost the worker its place in the group."""
SHOWN_S = 60.0
"""Time for which skipped messages are reported as a current problem."""
AWAY_MS = 45_000
"""How long the partitions of an absent worker wait for it, in plans that deliver exactly once."""
TOO_LARGE = "too-large"
_GONE = ("inactive", "unknown-stream")


class KafkaSource:
    """Reads in a separate thread."""

    def __init__(self, context: SourceContext, options: KafkaSourceOptions, reader: MessageReader) -> None:
        self._kafka = library()
        self._where = context.where()
        self._context = context
        self._options = options
        self._reader = reader
        self._stream = context.declared.stream
        self._topic_names = read_topics(options.topic_list)
        self._listed = read_partitions(options.partition_no_list)
        self._plan = context.declared.plan()
        key = context.declared.key
        identity = f"{context.declared.tenant()}/{key.identity if key is not None else ''}"
        self._names = (identity, self._stream.lasting_name())
        self._once = context.declared.delivery == "exactly-once"
        self._seen: Seen | None = None
        self._errors = Errors()
        self._topics = SourceTopics(
            self._kafka, self._topic_names, self._listed, options, folder=Path(context.files.positions),
            stream=self._names, client_id=self._client_id(), where=self._where, errors=self._errors,
        )  # fmt: skip
        self._unassigned: UnassignedPartitions | None = None
        """Of a group of static members."""
        self._trouble = self._left_out = ""
        self._left_out_at = self._trouble_at = 0.0
        self._limit = self._most = MOST_MESSAGES
        self._readings: Readings | None = None
        self._waited_for: set[tuple[str, int]] = set()
        """The partitions for which event time waits, unless they are idle: those that were ever read here."""
        self._pauses = Pauses(self._kafka, self._where)
        self._waited_s = self._noted_at = 0.0
        self._awaited: frozenset[tuple[str, int]] = frozenset()
        """The partitions with unread messages, for which event time waits."""
        self._ending = threading.Event()
        self._stirred = threading.Event()
        self._replays: queue.SimpleQueue[tuple[pa.RecordBatch, ReplayAttempt]] = queue.SimpleQueue()
        self.dropped_events = 0
        self.delivered_events = 0
        self._settings = self._consumer_settings()
        made(self._kafka.Consumer, self._settings, self._where).close()  # wrong settings are the plan's error at once
        self._thread = threading.Thread(target=self._run, name=f"kafka source {self._topic_names[0]}", daemon=True)
        self._thread.start()

    @property
    def error(self) -> str:
        """The current error, or the last skipped message."""
        wrong = self._trouble or self._errors.text
        if wrong:
            return f"{self._where}: {wrong}"
        recent = time.monotonic() - self._left_out_at < SHOWN_S
        return f"{self._where}: {self._left_out}" if self._left_out and recent else ""

    @property
    def partitions(self) -> tuple[PartitionReport, ...]:
        readings = self._readings
        return readings.reports if readings is not None else ()

    def retry(self, now_ms: int) -> None:
        """Batches wait in the worker's intake, not here."""

    def reroute(self, declared: DeclaredConnector, now_ms: int) -> None:
        self._stream = declared.stream
        self._plan = declared.plan()

    def tick(self, now_ms: int) -> None:
        """Do nothing."""

    def replay(self, batch: pa.RecordBatch, attempt: ReplayAttempt) -> None:
        self._replays.put((batch, attempt))
        self._stirred.set()

    def close(self) -> None:
        """Stop reading. Messages that were not taken are read again by the next source."""
        self._ending.set()
        self._stirred.set()
        self._thread.join(ENDING_S)

    # ---- the source's thread ----------------------------------------------------------------------------------------

    def _run(self) -> None:
        while not self._ending.is_set():
            try:
                self._serve()
            except (BeginAgainError, OutOfRangeError) as error:
                self._report_problem(str(error))
            except InputError as error:  # the plan is not active, or being deployed
                self._report_problem("" if error.reason_code in _GONE else error.message)
            except self._kafka.KafkaException as error:
                self._report_problem(explained(error.args[0]))
            except Exception as defect:  # the border of the thread: the plan's last error tells people of it
                plan_error = f"it cannot read: {type(defect).__name__}: {defect}"
                if plan_error != self._trouble:
                    logger.exception("%s: %s", self._where, plan_error)
                self._trouble = plan_error
            self._replay_all()
            self._ending.wait(RETRY_S)
        self._replay_all()
        for topic, partition in self._waited_for:
            self._context.intake.leave(self._name(topic, partition), self._stream)

    def _serve(self) -> None:
        """Read until the source ends. Raises what keeps it from reading."""
        if reason := refuse_brokers(self._options, self._context.guard if self._guarded() else None, "source"):
            raise BeginAgainError(reason)
        self._newest(())  # whether the plan takes events at all
        consumer = self._kafka.Consumer(self._settings)
        try:
            is_other = self._topics.require(consumer, self._ending)
            if is_other and self._options.seq_enabled == "true":
                self._seen = self._seen_at_cluster()
            self._read_topics(consumer)
        finally:
            consumer.close()

    def _read_topics(self, consumer: Any) -> None:
        other = self._other_group()
        readings = Readings(
            self._kafka, self._what(), self._newest, self._report_skipped, self._joined, self._topics.ids, other
        )
        try:
            self._subscribe(consumer, readings)
            self._readings = readings
            probed = time.monotonic()
            if self._once:
                self._unassigned = UnassignedPartitions(
                    self._kafka, self._topic_names, self._own_group(), self._where, probed
                )
            while not self._ending.is_set():
                self._turn(consumer, readings)
                if time.monotonic() - probed >= PROBE_S:
                    probed = time.monotonic()
                    self._probe(consumer)
                    self._rejoin_unassigned(consumer, readings)
        finally:
            self._readings = None
            self._await(frozenset())
            with suppress(self._kafka.KafkaException, RuntimeError):
                readings.commit(consumer, at_once=True)
            readings.lost(consumer, [])
            if other is not None:
                other.close()
            if self._seen is not None:
                self._seen.save()

    def _subscribe(self, consumer: Any, readings: Readings) -> None:
        consumer.subscribe(
            list(self._topic_names),
            on_assign=callback(readings.assigned),
            on_revoke=callback(readings.revoked),
            on_lost=callback(readings.lost),
        )

    def _rejoin_unassigned(self, consumer: Any, readings: Readings) -> None:
        """Join the group again, which has static members, when none of them reads some partitions."""
        if self._unassigned is None:
            return
        if lasting := self._unassigned.check(consumer, self._topics.admin, time.monotonic()):
            names = ", ".join(f"{topic}[{number}]" for topic, number in lasting)
            logger.warning("%s: joining the group again: none of its members reads %s", self._where, names)
            self._subscribe(consumer, readings)

    def _turn(self, consumer: Any, readings: Readings) -> None:
        found = self._fetch(consumer, FILL_S if readings.unread() <= BEHIND else CONSUME_S)
        ends: list[tuple[Any, Reading, int]] = []
        errors = [one for one in found if one.error() is not None]
        if errors:
            found = [one for one in found if one.error() is None]
        for one in errors:
            read = readings.reading(one.topic(), one.partition())
            if read is not None and one.error().code() == self._kafka.KafkaError._PARTITION_EOF:
                ends.append((one, read, read.position.generation))
            self._heed(consumer, readings, one)
        if found:
            self._most = max(1, min(self._limit, MOST_BYTES * len(found) // max(sum(map(len, found)), 1)))
            self._errors.clear()
            self._report_problem("")
        by_partition: dict[tuple[str, int], list[Any]] = {}
        for one in found:
            by_partition.setdefault((one.topic(), one.partition()), []).append(one)
        for (topic, number), messages in by_partition.items():
            reading = readings.reading(topic, number)
            if reading is not None:
                self._take(consumer, readings, reading, messages)
        for one, read, generation in ends:  # only now: what came before the end has been taken
            readings.reached_end(one.topic(), one.partition(), read, Position(generation, one.offset()))
        readings.tick(consumer)
        if self._stream.has_event_time():
            self._await(self._pauses.align(consumer, readings.have_unread(), self._waited_s))
        self._replay_all()

    def _await(self, places: frozenset[tuple[str, int]]) -> None:
        """Let event time wait for these partitions as long as they are not read, and for no others."""
        now = time.monotonic()
        again = now - self._noted_at >= AGAIN_S
        if again:
            self._noted_at = now
        for place in self._awaited | places:
            more = place in places
            if again or more != (place in self._awaited):
                self._context.intake.note_more(self._name(*place), self._stream, more=more)
        self._awaited = places

    def _fetch(self, consumer: Any, fill_s: float) -> list[Any]:
        """Return the messages that are available once there is one, and those that arrive within `fill_s` of it."""
        began = time.monotonic()
        first = consumer.poll(CONSUME_S)
        self._waited_s += time.monotonic() - began
        if first is None:
            return []
        return [first, *consumer.consume(self._most - 1, timeout=fill_s)] if self._most > 1 else [first]

    def _take(self, consumer: Any, readings: Readings, reading: Reading, messages: list[Any]) -> None:
        """All messages of one partition go on: as events, or among the failed ones."""
        topic, number = messages[0].topic(), messages[0].partition()
        last = Position(reading.position.generation, messages[-1].offset() + 1)
        if messages[0].offset() < reading.position.offset:
            messages = [one for one in messages if one.offset() >= reading.position.offset]
        fetched = Fetched(messages)
        refused: list[Refused] = []
        if self._seen is not None:
            refused += self._seen.take_off(fetched)
        batch, unreadable = self._read(consumer, readings, fetched)
        if readings.reading(topic, number) is not reading:
            return  # the partition was revoked while they waited: its new owner starts with them
        self._keep_failed([*refused, *unreadable])
        if batch is not None and batch.num_rows:
            try:
                origin = BatchOrigin(reading.origin, last.number())
                self._submit(consumer, readings, self._name(topic, number), batch, origin)
            except InputError as error:
                if error.reason_code != TOO_LARGE:
                    raise
                self._split(fetched, error.message)
            else:
                self.delivered_events += batch.num_rows
        if self._seen is not None:
            self._seen.took()
        readings.took(topic, number, last)
        if self._stream.has_event_time():
            self._pauses.took((topic, number), batch, self._waited_s)

    def _read(self, consumer: Any, readings: Readings, fetched: Fetched) -> tuple[pa.RecordBatch | None, list[Refused]]:
        """Return the events of the messages, and what is refused. Wait for schemas. Raises BeginAgainError."""
        paused = False
        while True:
            try:
                read = self._reader.read(fetched, self._context.now_ms())
            except SchemaUnavailableError as error:
                self._report_problem(error.message)
            else:
                if paused:
                    self._report_problem("")
                    self._pauses.resume_all(consumer)
                return read
            self._pause(consumer, readings)
            paused = True
            if self._ending.wait(RETRY_S):
                raise BeginAgainError("")

    def _split(self, fetched: Fetched, problem: str) -> None:
        """Take fewer messages at once, since the log can never hold their events together.

        A single message that is too large is kept as failed. Raises BeginAgainError otherwise.
        """
        if len(fetched) > 1:
            self._limit = self._most = max(1, len(fetched) // 2)
            raise BeginAgainError(problem)
        self._keep_failed([Refused(fetched.message(0), problem)])

    def _submit(
        self,
        consumer: Any,
        readings: Readings,
        name: tuple[Any, ...],
        batch: pa.RecordBatch,
        origin: BatchOrigin | None,
    ) -> None:
        """Wait until the worker has the events in its log.

        Raises:
            BeginAgainError: The source ends before.
            InputError: The plan takes nothing now.
        """
        while True:
            taken = self._context.intake.submit(name, self._stream, batch, origin)
            try:
                return self._wait(consumer, readings, taken)
            except InputError as error:
                if error.reason_code in (*_GONE, TOO_LARGE):
                    raise
                self._report_problem(error.message)
            if self._ending.wait(RETRY_S):
                raise BeginAgainError("")

    def _wait(self, consumer: Any, readings: Readings, taken: Future[None]) -> None:
        taken.add_done_callback(lambda _: self._stirred.set())
        waited_since = time.monotonic()
        paused = False
        while not taken.done() and not self._ending.is_set():
            self._stirred.wait(RETRY_S)
            self._stirred.clear()
            if not taken.done() and time.monotonic() - waited_since >= PAUSE_S:
                self._pause(consumer, readings)
                paused = True
        if paused:
            self._pauses.resume_all(consumer)
        if not taken.done():
            taken.cancel()
        try:
            taken.result(SAFE_S)
        except (CancelledError, TimeoutError):
            raise BeginAgainError("") from None

    def _pause(self, consumer: Any, readings: Readings) -> None:
        """Read nothing for now, of new partitions either; the brokers see that the member is alive."""
        failed = self._pauses.pause_all(consumer)
        if failed is not None:
            self._heed(consumer, readings, failed)

    def _heed(self, consumer: Any, readings: Readings, message: Any) -> None:
        """Handle an error that came in the place of a message."""
        error = message.error()
        if error.code() == self._kafka.KafkaError._PARTITION_EOF:
            return
        if error.code() == self._kafka.KafkaError._AUTO_OFFSET_RESET:
            readings.out_of_range(consumer, message.topic(), message.partition())
            return
        place = f"topic {message.topic()}: " if message.topic() else ""
        raise BeginAgainError(f"{place}{explained(error)}")

    def _probe(self, consumer: Any) -> None:
        """See whether what was wrong still is."""
        if self._errors.text:
            with suppress(self._kafka.KafkaException):
                consumer.list_topics(self._topic_names[0], timeout=RETRY_S)
                self._errors.clear()
        elif time.monotonic() - self._trouble_at >= KEPT_S:
            self._report_problem("")
        self._topics.refuse_others()

    def _keep_failed(self, refused: Sequence[Refused]) -> None:
        if not refused:
            return
        failed = list(failed_messages(refused, self._context.now_ms()))
        origin = Failing(self._plan, self._context.declared.connector.stream, "source", self._context.label)
        kept = self._context.errors.keep(origin, failed)
        self.dropped_events += len(refused)
        lost = f"; {kept.lost} of them are lost: {kept.problem}" if kept.lost else " (cep errors)"
        self._report_skipped(f"{failed[-1].reason}; invalid messages so far: {self.dropped_events}{lost}", 0)

    def _replay_all(self) -> None:
        while not self._replays.empty():
            batch, attempt = self._replays.get()
            try:
                self._replay(batch, attempt)
            except Exception as error:  # noqa: BLE001 - reported to the caller that waits for the attempt
                attempt.refuse(InputError("no-room", f"{type(error).__name__}: {error}"))

    def _replay(self, batch: pa.RecordBatch, attempt: ReplayAttempt) -> None:
        try:
            events, refused = self._reader.read(StoredMessages(batch), self._context.now_ms())
            if events is not None and events.num_rows:
                self._context.intake.submit(("replay", *self._names), self._stream, events).result(SAFE_S)
        except (InputError, ValueError) as error:
            attempt.refuse(error if isinstance(error, InputError) else InputError("failed-again", str(error)))
            return
        if refused:
            attempt.failed(failed_messages(refused, self._context.now_ms()))
        attempt.end()

    def _newest(self, origins: Sequence[bytes]) -> list[int | None]:
        found = self._context.intake.newest(self._stream, origins)
        deadline = time.monotonic() + SAFE_S
        while not found.done() and not self._ending.is_set() and time.monotonic() < deadline:
            self._ending.wait(STEP_S)
        if not found.done():
            raise BeginAgainError("" if self._ending.is_set() else "the worker is busy")
        return found.result()

    def _joined(self, topic: str, partition: int, is_unread: bool) -> None:
        place = topic, partition
        self._waited_for.add(place)
        self._pauses.assigned(place)
        self._context.intake.join(self._name(*place), self._stream)
        if is_unread and self._stream.has_event_time():  # now: the first messages may come later than `inflow.idle_ms`
            self._context.intake.note_more(self._name(*place), self._stream, more=True)
            self._awaited |= {place}

    def _name(self, topic: str, partition: int) -> tuple[str | int, ...]:
        """Return the name of the partition: event time waits for each of them."""
        return ("kafka-source", *self._names, self._context.label, topic, partition)

    def _guarded(self) -> bool:
        return "bootstrap.servers" not in self._context.declared.given

    def _seen_at_cluster(self) -> Seen:
        """Return the numbers of messages that were accepted from the cluster."""
        folder, ids = Path(self._context.files.positions), self._topics.ids
        return Seen(
            folder, *self._names, self._options, self._topics.cluster or "", lambda one: ids.had(one) is not False
        )

    def _client_id(self) -> str:
        return f"cep-{self._context.worker}"

    def _what(self) -> Reader:
        options = self._options
        return Reader(
            *self._names, self._listed, read_offsets(options.topic_offsets_map), options.reset(),  # type: ignore[arg-type]
            commits=self._once or options.enable_offsets_commit == "true", waits=options.enable_async_commit == "false",
            safe_s=self._context.safe_ms / 1000, cluster=self._topics.cluster or "",
        )  # fmt: skip

    def _own_group(self) -> str:
        """Return the plan's own group, in which no stranger reads or commits.

        Where partitions are listed, other consumers of the group may read other ones, and would be given these.
        """
        stream = self._context.declared.connector.stream
        return ".".join((self._options.group_id.strip(), *self._names[0].split("/"), stream))

    def _instance(self) -> str:
        return "/".join((self._context.worker, self._names[0], self._names[1], self._context.label))

    def _other_group(self) -> Any:
        """Return a consumer for the group that the source is no member of; None where it needs one group alone."""
        if self._listed or self._options.enable_offsets_commit != "true":
            return None
        group = self._options.group_id.strip() if self._once else self._own_group()
        settings = {name: text for name, text in self._settings.items() if name != "group.instance.id"}
        # The member itself reports connections that fail; errors of this consumer would be reported too late.
        return self._kafka.Consumer(settings | {"group.id": group, "error_cb": _ignore})

    def _consumer_settings(self) -> dict[str, Any]:
        options = self._options
        settings: dict[str, Any] = {"session.timeout.ms": 10_000}
        if self._once:
            # A worker that comes back soon finds its partitions as it left them: another one would read again what its
            # log has and what was not committed.
            settings = {"session.timeout.ms": AWAY_MS, "group.instance.id": self._instance()}
        settings |= {
            "isolation.level": "read_committed",
            "fetch.queue.backoff.ms": 10,
            "queued.max.messages.kbytes": 32_768,
            **common_settings(options, self._client_id()),
        }
        with suppress(ValueError):  # what is no number has no effect
            self._limit = self._most = max(1, int(settings.pop("max.poll.records", MOST_MESSAGES)))
        return settings | {
            "group.id": self._own_group() if self._once or self._listed else options.group_id.strip(),
            "enable.auto.commit": False,
            "enable.partition.eof": True,  # what follows the last message of a transaction is no message
            "enable.auto.offset.store": False,
            "auto.offset.reset": "error",
            "partition.assignment.strategy": "roundrobin,range",
            "allow.auto.create.topics": False,
            "error_cb": self._errors.note,
        }

    def _report_skipped(self, problem: str, lost: int) -> None:
        self._left_out, self._left_out_at = problem, time.monotonic()
        self.dropped_events += lost
        logger.warning("%s: %s", self._where, problem)

    def _report_problem(self, plan_error: str) -> None:
        """Log a problem once, however often it is found."""
        if plan_error and plan_error != self._trouble:
            logger.warning("%s: %s", self._where, plan_error)
        if plan_error:
            self._trouble_at = time.monotonic()
        self._trouble = plan_error


def kafka_source(context: SourceContext) -> KafkaSource:
    """Return a source that reads topics. Raises ConfigError for options that cannot be used."""
    declared, where = context.declared, context.where()
    options = options_of(KafkaSourceOptions, declared.connector.options)
    schema = declared.stream.schema
    split = split_attributes(declared.connector, schema, f"@map of {where}")
    form = source_format(split.connector, split.body, f"@map of {where}", mapper_guard(context.guard, declared.given))
    try:
        reader = MessageReader(form, schema, split.properties, options.timestamp or None)
    except InputError as error:
        raise ConfigError(f"{where}: timestamp: {error.message}") from error
    return KafkaSource(context, options, reader)


def _ignore(_error: Any) -> None:
    """Ignore an error that is reported elsewhere."""
