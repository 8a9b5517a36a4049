"""Groups of results as transactions: consumers with `read_committed` see each group as a whole, and once.

    init_transactions      fence an earlier producer of the sink; its unfinished transaction is aborted
    marker of the log      which group was committed last: read once, then known
    begin ─ messages ─ marker ─ commit

The marker is an offset that the transaction commits under a consumer group of the sink's own: it is there if and only
if the messages are. So a group whose commit was not answered, or that comes again after a crash, is known.
"""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import pyarrow as pa

from cep_worker.kafka.bounded_calls import BoundedCalls, StuckCallError
from cep_worker.kafka.client import WEAK, Errors, explained, group_reader, made
from cep_worker.kafka.targets import Target
from cep_worker.outflows.consumers import FrameId, GroupId

CALL_S = 5.0
"""One call of the transaction protocol may take so long; it is repeated then."""
STUCK_S = 10.0
"""A call that has not returned after so long, although its limit is shorter, is left alone."""
MARKER_S = 20.0
"""The same for reading a marker, which is several calls."""
MOST_STUCK = 8
"""A worker ends, to be started again, when so many calls of one sink have not returned."""
ANSWER_S = 12.0
"""A producer that has not begun or committed after so long is given up: another one asks the brokers again."""
POLL_S = 0.1
TRANSACTION_MS = 60_000
"""The brokers abort a transaction that is open for longer."""
FOR_GOOD = frozenset({"MSG_SIZE_TOO_LARGE", "RECORD_LIST_TOO_LARGE", "INVALID_RECORD", "INVALID_MSG", "_INVALID_ARG"})
"""Errors of a message that is refused next time, too."""

Row = tuple[int, int]
"""(number of the frame, row in it)."""
Checkpoint = tuple[int, int, int]
"""(epoch, attempt, checkpoint) of a group; groups of a log come in this order."""
Headers = list[tuple[str, bytes]]
Messages = Callable[[pa.RecordBatch, FrameId], Iterator[tuple[Target, bytes, Headers] | str]]
"""The messages of a frame's events in order, or why there is none."""


class NotNowError(Exception):
    """The transaction was aborted, or its outcome is open: it is to be tried again."""


@dataclass(slots=True)
class Refusals:
    """The events of a group that cannot be messages, and why; `suspects` were refused together with others."""

    excluded: dict[Row, str] = field(default_factory=dict)
    suspects: set[Row] = field(default_factory=set)
    limits: dict[str, int] = field(default_factory=dict)
    """By topic: messages of so many bytes are too large."""
    keyed: set[str] = field(default_factory=set)
    """Topics that take no message without a key."""

    def known(self) -> int:
        """Return how much is known; more than before means that the next try differs."""
        return len(self.excluded) + len(self.suspects)


@dataclass(slots=True)
class _TransactionOutcome:
    """What the brokers said of the messages of a transaction."""

    waiting: int = 0
    delivered: int = 0
    failed: dict[Row, Any] = field(default_factory=dict)

    def note(self, row: Row, error: Any, _message: Any) -> None:
        """As `on_delivery` of the library."""
        self.waiting -= 1
        if error is None:
            self.delivered += 1
        else:
            self.failed[row] = error


class Transactions:
    """Delivers groups, each in a separate transaction. Lives on the sink's thread.

    A producer whose state is not certain is given up; the next one fences it and reads the markers again.
    """

    def __init__(
        self, kafka: Any, name: str, settings: dict[str, Any], common: dict[str, Any], errors: Errors, where: str
    ) -> None:
        """`name` identifies the sink.

        It is the `transactional.id`, and begins the names of its consumer groups. `common` are the settings of any
        client.
        """
        self._kafka = kafka
        self._name = name
        self._common = common
        timeout_ms = int(settings.get("transaction.timeout.ms", TRANSACTION_MS))
        self._settings = settings | {
            "transactional.id": name,
            "enable.idempotence": True,
            "acks": "all",
            "transaction.timeout.ms": timeout_ms,
            "message.timeout.ms": timeout_ms,
        }
        self._settings.pop("request.required.acks", None)
        self._errors = errors
        self._where = where
        self._producer: Any = None
        self._committed: dict[str, Checkpoint] = {}
        """By log: the last group that the brokers have, as far as it was read since the producer began."""
        self._members: dict[str, Any] = {}
        self._calls = BoundedCalls()
        self.steps = 0
        self.in_doubt = False
        """The brokers did not answer the last commit: they may have the group."""
        self.committed = self.aborted = self.checkpoint = 0
        self.written: Counter[str] = Counter()
        """By topic: messages of transactions that were committed."""

    @property
    def producer(self) -> Any:
        """The producer of the open transaction."""
        return self._producer

    @property
    def stuck(self) -> int:
        """How many calls of the client library hang."""
        return self._calls.stuck

    def has(self, group: GroupId, stopping: threading.Event) -> bool:
        """Return whether the brokers have the group. Raises NotNowError."""
        self._begin(stopping)
        if group.log not in self._committed:
            read = partial(self._read_marker, group.log)
            self._committed[group.log] = self._bounded("reading the marker", read, MARKER_S)
        self.in_doubt = False
        return self._committed[group.log] >= _checkpoint(group)

    def deliver(
        self,
        group: GroupId,
        frames: Iterator[tuple[FrameId, pa.RecordBatch]],
        messages: Messages,
        refuse: Callable[[Target], str],
        refusals: Refusals,
        stopping: threading.Event,
    ) -> None:
        """Commit the events of a group that the brokers do not have, without those that are excluded.

        `refuse` says why a target takes nothing now. Raises NotNowError; `refusals` may hold more then.
        """
        outcome = _TransactionOutcome()
        shapes: dict[Row, tuple[Target, int]] = {}
        try:
            self._call("begin_transaction")
            topics = self._fill(frames, messages, refuse, outcome, shapes, refusals, stopping)
            self._drain(outcome, stopping)
            self._require(outcome, shapes, refusals)
            if outcome.delivered:
                self._commit(group, set(topics))
            else:
                self._call("abort_transaction", CALL_S)
        except NotNowError:
            if self.in_doubt:
                self.give_up()
            else:
                self._abort()
            raise
        except self._kafka.KafkaException as error:
            self._abort()
            raise NotNowError(self._why(error.args[0])) from error
        self._committed[group.log] = _checkpoint(group)
        self.committed += bool(outcome.delivered)
        self.checkpoint = group.checkpoint
        self.written.update(topics)
        self._errors.clear()

    def give_up(self) -> None:
        """Drop the producer: the next one aborts what it left open."""
        producers, self._producer = [self._producer], None
        self._committed.clear()
        if producers[0] is not None:
            self._calls.discard(producers)

    def _begin(self, stopping: threading.Event) -> None:
        if self._producer is not None:
            return
        self._producer = made(self._kafka.Producer, self._settings, self._where)
        try:
            self._initialise(stopping)
        except BaseException:
            self.give_up()
            raise
        self._committed.clear()

    def _initialise(self, stopping: threading.Event) -> None:
        deadline_s = time.monotonic() + ANSWER_S
        while True:
            try:
                self._call("init_transactions", CALL_S)
            except self._kafka.KafkaException as error:
                self._producer.poll(0)  # says why
                over = stopping.is_set() or time.monotonic() >= deadline_s
                if not error.args[0].retriable() or over or self._errors.text:
                    raise NotNowError(self._why(error.args[0])) from error
            else:
                return

    def _call(self, name: str, *arguments: Any) -> None:
        """Make a call of the producer. Raises KafkaException, and NotNowError when it hangs: then there is no producer.

        No local variable holds the producer, so that a traceback does not keep it.
        """
        try:
            self._calls.make(name, partial(getattr(self._producer, name), *arguments), STUCK_S)
        except StuckCallError as error:
            self._producer = None  # the call's thread has it
            self._committed.clear()
            raise self._hangs(error) from error

    def _bounded(self, what: str, call: Callable[[], Any], limit_s: float) -> Any:
        """Make a call that does not use the producer. Raises NotNowError when it hangs, and what it raises."""
        try:
            return self._calls.make(what, call, limit_s)
        except StuckCallError as error:
            raise self._hangs(error) from error

    def _hangs(self, error: StuckCallError) -> NotNowError:
        return NotNowError(
            f"Kafka's client library hangs: {error}; it is tried again with another client. Check that all brokers "
            f"run. Calls of this sink that hang: {self.stuck} (at {MOST_STUCK} the worker ends, to be started again)"
        )

    def _fill(
        self,
        frames: Iterator[tuple[FrameId, pa.RecordBatch]],
        messages: Messages,
        refuse: Callable[[Target], str],
        outcome: _TransactionOutcome,
        shapes: dict[Row, tuple[Target, int]],
        refusals: Refusals,
        stopping: threading.Event,
    ) -> Counter[str]:
        """Send the messages; some may have failed already. Return how many each topic gets."""
        topics: Counter[str] = Counter()
        for frame, batch in frames:
            for row, message in enumerate(messages(batch, frame)):
                place = (frame.number, row)
                if isinstance(message, str):
                    refusals.excluded[place] = message
                elif place not in refusals.excluded and not _known_to_fail(message, place, refusals):
                    target, payload, headers = message
                    if reason := refuse(target):
                        raise NotNowError(reason)
                    if place in refusals.suspects:
                        shapes[place] = target, len(payload)
                    self._produce(place, target, payload, headers, outcome, refusals, stopping)
                    topics[target.topic] += place not in refusals.excluded
                if outcome.failed:
                    return topics
        return topics

    def _produce(
        self,
        place: Row,
        target: Target,
        payload: bytes,
        headers: Headers,
        outcome: _TransactionOutcome,
        refusals: Refusals,
        stopping: threading.Event,
    ) -> None:
        alone = place in refusals.suspects
        if alone:
            self._drain(outcome, stopping)
        while True:
            try:
                self._producer.produce(
                    target.topic, payload, target.key, partition=target.partition, headers=headers,
                    on_delivery=partial(outcome.note, place),
                )  # fmt: skip
                break
            except BufferError:  # its queue is full: what is in it goes first
                self._poll(outcome)
                if stopping.is_set():
                    raise NotNowError("the sink ended before it was delivered") from None
            except self._kafka.KafkaException as error:
                if error.args[0].name() not in FOR_GOOD:
                    raise
                refusals.excluded[place] = explained(error.args[0])
                return
        outcome.waiting += 1
        if alone:
            self._drain(outcome, stopping)

    def _drain(self, outcome: _TransactionOutcome, stopping: threading.Event) -> None:
        """Wait until the brokers have answered for all messages. Raises NotNowError when the sink ends before."""
        while outcome.waiting and not outcome.failed:
            self._poll(outcome)
            if stopping.is_set() and outcome.waiting:
                raise NotNowError("the sink ended before it was delivered")

    def _poll(self, outcome: _TransactionOutcome) -> None:
        before = outcome.waiting
        self._producer.poll(POLL_S)
        if outcome.waiting < before:
            self.steps += 1
            self._errors.clear()

    def _require(self, outcome: _TransactionOutcome, shapes: dict[Row, tuple[Target, int]], refusals: Refusals) -> None:
        """Raise NotNowError unless all messages were taken. Those that are refused for good are left out next time."""
        if not outcome.failed:
            return
        for_good = {row: error for row, error in outcome.failed.items() if error.name() in FOR_GOOD}
        reason = self._why(next(iter((for_good or outcome.failed).values())))
        exact = {row: error for row, error in for_good.items() if row in shapes}
        if not exact and len(for_good) > 1:  # a batch is refused as a whole; who is to blame shows one by one
            refusals.suspects |= set(for_good)
        for row, error in (exact or (for_good if len(for_good) == 1 else {})).items():
            refusals.excluded[row] = explained(error)
            target, size = shapes.get(row, (None, 0))
            if target is not None and error.name() in ("MSG_SIZE_TOO_LARGE", "RECORD_LIST_TOO_LARGE"):
                refusals.limits[target.topic] = min(size, refusals.limits.get(target.topic, size))
            elif target is not None and error.name() == "INVALID_RECORD" and target.key is None:
                refusals.keyed.add(target.topic)
        raise NotNowError(reason)

    def _commit(self, group: GroupId, topics: set[str]) -> None:
        """Commit the messages and the marker.

        Raises KafkaException when that is certain not to have happened, else NotNowError.
        """
        epoch, attempt, checkpoint = _checkpoint(group)
        marks = [self._kafka.TopicPartition(one, 0, checkpoint, f"{epoch}.{attempt}.{checkpoint}") for one in topics]
        self._call("send_offsets_to_transaction", marks, self._member(group.log), CALL_S)
        committed = False
        deadline_s = time.monotonic() + ANSWER_S
        while not committed:
            try:
                self._call("commit_transaction", CALL_S)
                committed = True
            except NotNowError:
                self.in_doubt = True
                raise
            except self._kafka.KafkaException as error:
                if error.args[0].txn_requires_abort():  # it is certain that it was not committed
                    raise
                if not error.args[0].retriable() or self._errors.text or time.monotonic() >= deadline_s:
                    self.in_doubt = True
                    raise NotNowError(self._why(error.args[0])) from error

    def _abort(self) -> None:
        """Record that the transaction did not happen."""
        self.aborted += 1
        if self._producer is None:
            return
        try:
            self._call("purge")
            self._call("abort_transaction", CALL_S)
        except (self._kafka.KafkaException, NotNowError):  # the next producer aborts it
            self.give_up()

    def _read_marker(self, log: str) -> Checkpoint:
        """Return the newest group of a log that the brokers have. A marker may be at any topic that there is."""
        with group_reader(self._common, self._group(log), "read_committed", self._where) as client:
            try:
                topics = client.list_topics(timeout=CALL_S).topics
                places = [self._kafka.TopicPartition(topic, 0) for topic in topics]
                found = client.committed(places, timeout=CALL_S)
            except self._kafka.KafkaException as error:
                said = client.poll(0)  # says why, for example that the group may not be used
                if said is not None and said.error() is not None:
                    self._errors.note(said.error())
                raise NotNowError(self._why(error.args[0])) from error
        for one in found:
            if one.error is not None:
                raise NotNowError(self._why(one.error))
        return max((_read_checkpoint(one.metadata) for one in found), default=(0, 0, 0))

    def _member(self, log: str) -> Any:
        """As what the markers of a log are committed."""
        if log not in self._members:
            make = partial(self._make_member, log)
            self._members[log] = self._bounded("making a member of the marker's group", make, STUCK_S)
        return self._members[log]

    def _make_member(self, log: str) -> Any:
        consumer = made(self._kafka.Consumer, self._common | {"group.id": self._group(log)}, self._where)
        metadata = consumer.consumer_group_metadata()
        consumer.close()
        return metadata

    def _group(self, log: str) -> str:
        return f"{self._name}/{log}"

    def _why(self, error: Any) -> str:
        if error.name() in ("_PURGE_QUEUE", "_PURGE_INFLIGHT"):
            return self._errors.text or "the transaction was aborted"
        return self._errors.text if error.name() in WEAK and self._errors.text else explained(error)


def _known_to_fail(message: tuple[Target, bytes, Headers], place: Row, refusals: Refusals) -> bool:
    """Return whether a message like this was refused before; it is excluded then."""
    target, payload, _ = message
    if len(payload) >= refusals.limits.get(target.topic, len(payload) + 1):
        refusals.excluded[place] = f"the message is too large for topic {target.topic} ({len(payload)} bytes)"
    elif target.key is None and target.topic in refusals.keyed:
        refusals.excluded[place] = f"topic {target.topic} refuses messages without a key"
    else:
        return False
    return True


def _checkpoint(group: GroupId) -> Checkpoint:
    return group.epoch, group.attempt, group.checkpoint


def _read_checkpoint(metadata: str | None) -> Checkpoint:
    """Return what a marker says; offsets that other consumers committed under the group are ignored."""
    parts = (metadata or "").split(".")
    if len(parts) != 3 or not all(one.isascii() and one.isdecimal() for one in parts):
        return 0, 0, 0
    epoch, attempt, checkpoint = map(int, parts)
    return epoch, attempt, checkpoint
