"""Sink `kafka`: a message for each event, delivered when the brokers have it.

The client sends in batches and tries again by itself for as long as it takes, in order; it numbers what it sends
(idempotence), so that the brokers have each message once however often it was sent over one connection of the sink.
Results of plans with exactly-once delivery form groups: each is one transaction (`transactions`).
"""

from __future__ import annotations

import logging
import threading
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from functools import partial
from hashlib import sha256
from operator import attrgetter
from pathlib import Path
from typing import Any, cast
from urllib.parse import quote

import pyarrow as pa

from cep_common.monitoring.paced_log import PacedLog
from cep_common.protocol.worker_reports import TransactionReport, WrittenTopicReport
from cep_common.reach.guard import Guard
from cep_worker.failed_events.entries import FailedBatch
from cep_worker.formats.schemas.settings import mapper_guard
from cep_worker.formats.sink_mappers.registry import sink_mapper
from cep_worker.formats.sink_mappers.template import SinkMapper, UnfitEventsError
from cep_worker.kafka.bounded_calls import StuckCallError
from cep_worker.kafka.client import NO_CREATION, Errors, common_settings, explained, library, made, refuse_brokers
from cep_worker.kafka.deliveries import REPORTS, Deliveries
from cep_worker.kafka.seen import SENDER
from cep_worker.kafka.sequences import Numbers, with_header
from cep_worker.kafka.targets import Target, TargetError, Targets
from cep_worker.kafka.transactions import FOR_GOOD, MOST_STUCK, Headers, NotNowError, Refusals, Row, Transactions
from cep_worker.outflows.consumers import FrameId, GroupId
from cep_worker.sinks.base import EventSink, SinkContext
from cep_worker.sinks.http import idempotency_key
from cep_worker.sinks.retries import RetryableError, RetryPolicy, deliver_with_retries
from cep_worker.sinks.staged_groups import StagedGroups
from cep_worker.sinks.threaded import ThreadedSink, WriteError
from query_plan.connectors.kafka import KafkaSinkOptions
from query_plan.connectors.kafka_settings import PRODUCER
from query_plan.connectors.options import options_of
from topology.events.frames import arrow_schema

logger = logging.getLogger(__name__)

RETRIES = RetryPolicy()

IDENTITY = "cep-id"
"""The header by which a message of an exactly-once plan is known, however often it is sent."""
GATHER_ROWS = 10_000
"""The number of waiting events that are combined: the brokers answer once for all of them."""
POLL_S = 0.1
CALL_S = 1.0
_TOPIC = attrgetter("topic")
PARTITIONER = "murmur2_random"
"""The partitioner for keys, as in Kafka's Java clients."""


class _KafkaWriter:
    def __init__(
        self,
        context: SinkContext,
        options: KafkaSinkOptions,
        mapper: SinkMapper,
        guard: Guard | None,
    ) -> None:
        self.problem = ""
        self.steps = 0
        self._kafka = library()
        self._context = context
        self._where = context.where()
        self._options = options
        self._targets = Targets(options, context)
        self._mapper = mapper
        self._guard = guard
        self._errors = Errors()
        self._log = PacedLog(logger)
        self._known: dict[str, int] = {}
        """The topics that there are, with the number of their partitions."""
        self._sender = context.worker.encode()
        self._staged = StagedGroups(arrow_schema(context.schema))
        self._counts: Counter[str] = Counter()
        """By topic: messages outside transactions that the brokers have."""
        self.written: tuple[WrittenTopicReport, ...] = ()
        self._transactions: Transactions | None = None
        self._transactional_id = _transactional_id(context)
        self._numbers = Numbers(_numbers_path(context)) if options.sequence_id else None
        self._settings = _producer_settings(options, f"cep-{context.worker}", self._errors)
        if context.connector.carries:  # the manager creates its topic, and deletes it while results may yet wait here
            self._settings |= NO_CREATION
        self._producer = self._made()

    @property
    def transactions(self) -> TransactionReport | None:
        """See TopicMetrics."""
        if (made := self._transactions) is None:
            return None
        return TransactionReport(made.committed, made.aborted, made.checkpoint, made.in_doubt)

    def write(self, batch: pa.RecordBatch, frame: FrameId | None, stopping: threading.Event) -> None:
        if frame is not None and self._options.transactions == "true":
            self._stage(batch, frame, stopping)
            return
        self._require_brokers(stopping)
        payloads = self._payloads(batch)
        targets = self._targets.of(batch)
        unwanted = _unsendable(targets, payloads)
        rows = (
            [row for row in range(batch.num_rows) if row not in unwanted] if unwanted else list(range(batch.num_rows))
        )
        tries = 0
        began = time.monotonic()
        while rows:
            failed = self._send(rows, targets, payloads, frame, stopping, began)
            for row in self._refused_together(failed):  # one of them is to blame; which, shows one by one
                failed |= {row: (False, ""), **self._send([row], targets, payloads, frame, stopping, began)}
                if not failed[row][1]:
                    del failed[row]
            unwanted |= {row: why for row, (for_good, why) in failed.items() if for_good}
            rows = sorted(row for row, (for_good, _) in failed.items() if not for_good)
            if not rows:
                break
            self.problem = reason = failed[rows[0]][1]
            self._log.problem("brokers", "messages are not delivered: sink=%s reason=%s", self._where, reason)
            if self._is_over(began) or stopping.wait(RETRIES.wait_s(tries)):
                given_up = "the sink ended before delivery" if stopping.is_set() else "given up"
                unwanted |= {row: f"{given_up}: {failed[row][1]}" for row in rows}
                break
            tries += 1
        self.problem = ""
        if len(unwanted) < batch.num_rows:
            self._log.over("brokers", "messages are delivered again: sink=%s", self._where)
        if unwanted:
            events = [FailedBatch(batch.slice(row, 1), reason) for row, reason in sorted(unwanted.items())]
            raise WriteError(events[-1].reason, events)

    def commit(self, group: GroupId, stopping: threading.Event) -> None:
        """Deliver the group in a transaction; messages outside a transaction are delivered already."""
        refusals = Refusals()
        tries, began = 0, time.monotonic()
        while next(self._staged.batches(group), None) is not None:
            known = refusals.known()
            try:
                self._require_brokers(stopping)
                self._deliver(group, refusals, stopping)
                break
            except (NotNowError, WriteError) as error:
                self.problem = reason = str(error)
            self._require_client(self._transactions.stuck if self._transactions is not None else 0)
            if refusals.known() > known:
                continue
            self._log.problem("brokers", "messages are not delivered: sink=%s reason=%s", self._where, reason)
            ended = stopping.wait(RETRIES.wait_s(tries))
            over = self._is_over(began) and not (self._transactions and self._transactions.in_doubt)
            if ended or over:
                why = "the sink ended before it was delivered" if ended else "given up"
                raise WriteError(f"{why}: {reason}", self._failed(group, f"{why}: {reason}"))
            tries += 1
        self.problem = ""
        self._log.over("brokers", "messages are delivered again: sink=%s", self._where)
        if refusals.excluded:
            raise WriteError(next(reversed(refusals.excluded.values())), self._excluded(group, refusals.excluded))
        self._staged.forget(group.log)

    def close(self) -> None:
        self._staged.close()
        if self._transactions is not None:
            self._transactions.give_up()
        self._producer.purge()
        self._producer.poll(0)

    def _require_client(self, stuck: int) -> None:
        """End the worker when too many calls of the client library hang: each holds threads and connections."""
        if stuck >= MOST_STUCK:
            self._context.event_loop.post(partial(_end_worker, f"{self._where}: {stuck}"))

    def _stage(self, batch: pa.RecordBatch, frame: FrameId, stopping: threading.Event) -> None:
        def attempt() -> None:
            try:
                self._staged.put(batch, frame)
            except OSError as error:
                raise RetryableError(f"a temporary file cannot be written: {error.strerror}") from error

        deliver_with_retries(attempt, RETRIES, stopping, self._report_disk)

    def _report_disk(self, problem: str) -> None:
        self.problem = problem
        if problem:
            self._log.problem("group", "group waits: sink=%s reason=%s", self._where, problem)

    def _deliver(self, group: GroupId, refusals: Refusals, stopping: threading.Event) -> None:
        """Deliver the group: return when the brokers have it. Raises NotNowError."""
        if self._transactions is None:
            every = common_settings(self._options, f"cep-{self._context.worker}").items()
            common = {name: value for name, value in every if name not in PRODUCER}
            self._transactions = Transactions(
                self._kafka, self._transactional_id, self._settings,
                common | {"error_cb": self._errors.note}, self._errors, self._where,
            )  # fmt: skip
        transactions = self._transactions
        if transactions.has(group, stopping):
            return
        try:
            transactions.deliver(
                group, self._staged.batches(group), self._messages,
                lambda target: self._refuse(target, transactions.producer), refusals, stopping,
            )  # fmt: skip
        finally:
            self.steps += transactions.steps
            transactions.steps = 0
            self._count(())

    def _messages(self, batch: pa.RecordBatch, frame: FrameId) -> Iterator[tuple[Target, bytes, Headers] | str]:
        """Return the messages of a frame's events, or why an event has none."""
        payloads = self._payloads(batch)
        for row, (target, payload) in enumerate(zip(self._targets.of(batch), payloads, strict=True)):
            if isinstance(target, Target) and isinstance(payload, bytes):
                yield target, payload, self._headers(target, frame, row)
            else:
                yield _problem(target, payload)

    def _failed(self, group: GroupId, reason: str) -> Iterator[FailedBatch]:
        """All events of the group, read from where they wait."""
        for _, batch in self._staged.batches(group):
            yield FailedBatch(batch, reason)

    def _excluded(self, group: GroupId, excluded: dict[Row, str]) -> Iterator[FailedBatch]:
        """Return these events of the group; it is forgotten then."""
        try:
            for frame, batch in self._staged.batches(group):
                for row in range(batch.num_rows):
                    if reason := excluded.get((frame.number, row)):
                        yield FailedBatch(batch.slice(row, 1), reason)
        finally:
            self._staged.forget(group.log)

    def _payloads(self, batch: pa.RecordBatch) -> list[bytes | str]:
        """Return the payload of each event, or why it has none."""
        payloads = self._encoded(batch)
        if self._numbers is None:
            return payloads
        binary = self._options.is_binary_message == "true"
        try:
            numbers = self._numbers.take(len(payloads))
        except OSError as error:
            raise WriteError(f"numbers of sequence.id cannot be saved: {error.strerror}") from error
        sequence = self._options.sequence_id
        return [
            with_header(one, sequence, number, binary=binary) if isinstance(one, bytes) else one
            for one, number in zip(payloads, numbers, strict=True)
        ]

    def _encoded(self, batch: pa.RecordBatch) -> list[bytes | str]:
        try:
            return [*self._mapper.events(batch)]
        except UnfitEventsError as error:
            unfit = error.reasons
        others = [row for row in range(batch.num_rows) if row not in unfit]
        encoded = dict(zip(others, self._mapper.events(batch.take(pa.array(others, pa.int64()))), strict=True))
        return [encoded[row] if row in encoded else unfit[row] for row in range(batch.num_rows)]

    def _send(
        self,
        rows: list[int],
        targets: Sequence[Target | TargetError],
        payloads: list[bytes | str],
        frame: FrameId | None,
        stopping: threading.Event,
        began: float,
    ) -> dict[int, tuple[bool, str]]:
        """Send the messages of `rows` in order. Gives those that the brokers do not have: whether for good, and why."""
        sent = Deliveries(targets, payloads)
        failed: dict[int, tuple[bool, str]] = {}
        synchronous = self._options.is_synchronous == "true"
        checked: Target | None = None
        for row in rows:
            target = cast("Target", targets[row])
            if target is not checked:
                if reason := self._refuse(target, self._producer):
                    failed.update((other, (False, reason)) for other in rows[rows.index(row) :])  # none goes past it
                    break
                checked = target
            error = self._produce(row, target, cast("bytes", payloads[row]), frame, sent)
            if error is not None:
                failed[row] = error
            if synchronous:
                self._drain(stopping, began)
                checked = None  # the brokers may have said that it is gone
        self._drain(stopping, began)
        for row, error in sent.failed().items():
            if error.fatal():
                self._begin_again()
            failed[row] = (error.name() in FOR_GOOD, self._reason(error))
        self._count(map(_TOPIC, (targets[row] for row in rows if row not in failed)))
        return failed

    def _count(self, topics: Iterable[str]) -> None:
        """Note messages that the brokers have."""
        self._counts.update(topics)
        whole = self._counts + (Counter() if self._transactions is None else self._transactions.written)
        self.written = tuple(WrittenTopicReport(*one) for one in sorted(whole.items()))

    @staticmethod
    def _refused_together(failed: dict[int, tuple[bool, str]]) -> list[int]:
        """Return the rows that brokers refused permanently, if they may have been in one batch.

        It is refused as a whole.
        """
        refused = [row for row, (for_good, _) in sorted(failed.items()) if for_good]
        return refused if len(refused) > 1 else []

    def _produce(
        self, row: int, target: Target, payload: bytes, frame: FrameId | None, sent: Deliveries
    ) -> tuple[bool, str] | None:
        headers = self._headers(target, frame, row)
        while True:
            try:
                if headers:
                    self._producer.produce(
                        target.topic, payload, target.key, partition=target.partition, headers=headers,
                        on_delivery=sent.of_row(row),
                    )  # fmt: skip
                else:
                    self._producer.produce(
                        target.topic, payload, target.key, target.partition, on_delivery=sent.refused
                    )
                    sent.sent(row)
            except BufferError:  # its queue is full: what is in it goes first
                self._producer.poll(POLL_S)
                continue
            except self._kafka.KafkaException as error:
                return error.args[0].name() in FOR_GOOD, explained(error.args[0])
            return None

    def _headers(self, target: Target, frame: FrameId | None, row: int) -> Headers:
        headers: Headers = list(target.headers)
        if frame is not None:
            headers.append((IDENTITY, idempotency_key(frame, row).encode()))
        if self._numbers is not None:
            headers.append((SENDER, self._sender))
        return headers

    def _drain(self, stopping: threading.Event, began: float) -> None:
        """Wait until the brokers have all messages, or, when the sink ends or their time is over, take them back."""
        purged = False
        while waiting := len(self._producer):
            self._producer.poll(POLL_S)
            if len(self._producer) < waiting:
                self.steps += 1
                self._errors.clear()
            self.problem = self._errors.text
            if not purged and (stopping.is_set() or self._is_over(began)):
                purged = True
                self._producer.purge()

    def _refuse(self, target: Target, producer: Any) -> str:
        """Why no message can go to the topic and partition now, or nothing."""
        count = self._known.get(target.topic)
        if count is None or target.partition >= count:
            try:
                found = producer.list_topics(target.topic, timeout=CALL_S).topics[target.topic]
            except self._kafka.KafkaException as error:
                producer.poll(0)  # says why
                return self._reason(error.args[0])
            if found.error is not None:
                return f"topic {target.topic}: {explained(found.error)}"
            count = self._known[target.topic] = len(found.partitions)
        if target.partition >= count:
            return f"topic {target.topic} has no partition {target.partition}; it has 0 to {count - 1}"
        return ""

    def _reason(self, error: Any) -> str:
        purged = error.name() in ("_PURGE_QUEUE", "_PURGE_INFLIGHT")
        if purged:
            return self._errors.text or "the brokers did not acknowledge the message in time"
        if error.name() in ("_UNKNOWN_TOPIC", "UNKNOWN_TOPIC_OR_PART", "_UNKNOWN_PARTITION"):
            self._known.clear()
        return self._errors.text if error.name() == "_TRANSPORT" and self._errors.text else explained(error)

    def _require_brokers(self, stopping: threading.Event) -> None:
        """Check that the plan may reach the brokers' hosts, and that the mapper has its schema.

        Raises WriteError when it gives up.
        """
        tries, began = 0, time.monotonic()
        while reason := refuse_brokers(self._options, self._guard, "sink") or self._mapper.problem():
            self.problem = reason
            if self._is_over(began) or stopping.wait(RETRIES.wait_s(tries)):
                raise WriteError(reason)
            tries += 1

    def _is_over(self, began: float) -> bool:
        waits = self._options.on_error == "WAIT"
        return not waits and time.monotonic() - began >= self._options.timeout_ms / 1_000

    def _begin_again(self) -> None:
        """Close a producer that has lost count of what it sent."""
        with suppress(self._kafka.KafkaException):
            self._producer.purge()
        self._producer = self._made()

    def _made(self) -> Any:
        return made(self._kafka.Producer, self._settings | REPORTS, self._where)


def _end_worker(calls: str) -> None:
    """On the data thread, which ends the worker when it fails."""
    raise StuckCallError(
        f"{calls} calls of Kafka's client library hang, and only a new process ends them; nothing is lost. Check that "
        "all brokers run, and start the worker again if nothing else does"
    )


def _unsendable(targets: Sequence[Target | TargetError], payloads: Sequence[bytes | str]) -> dict[int, str]:
    """Return the rows that have no target or no payload, each with the reason."""
    return {
        row: _problem(target, payload)
        for row, (target, payload) in enumerate(zip(targets, payloads, strict=True))
        if not (isinstance(target, Target) and isinstance(payload, bytes))
    }


def _problem(target: Target | TargetError, payload: bytes | str) -> str:
    return str(payload if isinstance(target, Target) else target)


def kafka_sink(context: SinkContext) -> EventSink:
    """Return a sink that writes to topics. Raises ConfigError for options that cannot be used."""
    options = options_of(KafkaSinkOptions, context.connector.options)
    mapper = sink_mapper(context.connector, context.schema, "json", mapper_guard(context.guard, context.given))
    guard = None if "bootstrap.servers" in context.given else context.guard
    writer = _KafkaWriter(context, options, mapper, guard)
    return ThreadedSink(context, writer, options.on_error, GATHER_ROWS)


def _producer_settings(options: KafkaSinkOptions, client_id: str, errors: Errors) -> dict[str, Any]:
    settings = {
        "linger.ms": 5,
        "partitioner": PARTITIONER,
        "enable.idempotence": True,
        **common_settings(options, client_id),
    }
    if settings.get("acks", settings.get("request.required.acks", "all")) not in ("all", "-1"):
        settings["enable.idempotence"] = False
    return settings | {"message.timeout.ms": 0, "error_cb": errors.note}


def _transactional_id(context: SinkContext) -> str:
    """Return the identity of the sink's transactions: each worker delivers the results that it holds."""
    names = (str(context.key.tenant), context.key.identity, context.connector.stream, context.label, context.worker)
    return "/".join(("cep", *(quote(name, safe="") for name in names)))


def _numbers_path(context: SinkContext) -> Path:
    names = "/".join((str(context.key.tenant), context.key.identity, context.connector.stream, context.label))
    return Path(context.positions) / f"{sha256(names.encode()).hexdigest()[:32]}.numbers"
