"""The topic of a log on real brokers. One partition counts; the topic is created when there is none.

Each side has a thread that waits for the client and wakes the task's loop when messages arrive.
"""

from __future__ import annotations

import queue
import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

from cep_common.errors import ConfigError
from topology.errors import TopologyError
from topology.kafka_client import Errors, common_settings, explained, library, made
from topology.sync_log.reader import LOST
from topology.sync_log.settings import SyncLogSettings

WHERE = "stages.sync_log"
PARTITION = 0
POLL_S = 0.2
CREATE_S = 10.0
CLOSE_S = 2 * POLL_S
"""How long the task's loop waits for the thread of a topic; one that asks silent brokers ends later, by itself."""
FLUSH_S = 1.0
READ_AHEAD = 2_000
"""How many messages are read before the task takes them."""
RETENTION_MS = 24 * 3_600_000
"""What no checkpoint has deleted goes after a day: no run reads what an earlier one has written."""
REFUSED = "sync-log-refused"


class KafkaWrittenTopic:
    """Writes to the topic with an idempotent producer, so that its order is that of `append`."""

    def __init__(self, name: str, settings: SyncLogSettings, wake: Callable[[], None]) -> None:
        """Begin to connect to the brokers. Raises ConfigError for settings that the client refuses."""
        self._name, self._copies, self._wake = name, settings.copies, wake
        self._kafka = library()
        self._errors = Errors()
        common = common_settings(settings.connection(), f"cep-sync-log/{name}") | {"error_cb": self._errors.note}
        # Nothing times out: what cannot be written waits, and so do the workers that have sent it.
        own = {"acks": "all", "enable.idempotence": True, "linger.ms": 0, "message.timeout.ms": 0}
        self._producer = made(self._kafka.Producer, common | own | {"compression.type": "lz4"}, WHERE)
        self._admin = made(_admin_module().AdminClient, common, WHERE)
        self._waiting: deque[tuple[int, bool, bool, bytes]] = deque()
        self._first: dict[int, int] = {}
        self._written: queue.SimpleQueue[tuple[int, int]] = queue.SimpleQueue()
        self._failure: TopologyError | None = None
        self._exists = False
        self._closed = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"writes {name}", daemon=True)
        self._thread.start()

    def append(self, ticket: int, records: Sequence[bytes]) -> None:
        """Write the records in this order, behind those of earlier calls."""
        last = len(records) - 1
        self._waiting.extend((ticket, part == 0, part == last, record) for part, record in enumerate(records))
        self._produce()

    def written(self) -> Iterator[tuple[int, int]]:
        """Yield the tickets that the brokers have, with their offsets. Raise TopologyError when they refuse some."""
        self._produce()
        while not self._written.empty():
            yield self._written.get()
        if self._failure is not None:
            raise self._failure

    def forget(self, before: int) -> None:
        """Delete the records before an offset, in the background."""
        self._admin.delete_records([self._kafka.TopicPartition(self._name, PARTITION, before)])

    def problem(self) -> str:
        """Return why nothing is written now."""
        return self._errors.text

    def close(self) -> None:
        """Write nothing more and close the connection, in the background while a broker is silent."""
        self._closed.set()
        self._producer.purge()
        self._thread.join(CLOSE_S)

    def _produce(self) -> None:
        while self._exists and self._waiting:
            ticket, first, last, record = self._waiting[0]
            delivered = partial(self._delivered, ticket, first, last)
            try:
                self._producer.produce(self._name, record, partition=PARTITION, on_delivery=delivered)
            except BufferError:
                return  # so much is under way already
            except self._kafka.KafkaException as error:
                self._fail(error.args[0])
                return
            self._waiting.popleft()

    def _delivered(self, ticket: int, first: bool, last: bool, error: Any, message: Any) -> None:
        if error is not None:
            self._fail(error)
            return
        self._errors.clear()
        if first:
            self._first[ticket] = message.offset()
        if last:
            self._written.put((ticket, self._first.pop(ticket)))
            self._wake()

    def _fail(self, error: Any) -> None:
        if self._failure is None and not self._closed.is_set():
            self._failure = TopologyError(REFUSED, f"topic {self._name} accepts no records: {explained(error)}")
        self._wake()

    def _run(self) -> None:
        try:
            while not self._exists and not self._closed.is_set():
                self._exists = self._create()
            self._wake()
            while not self._closed.is_set():
                self._producer.poll(POLL_S)
        except Exception as error:  # noqa: BLE001 - the border of this thread: without it, events would wait forever
            self._failure = self._failure or TopologyError(REFUSED, f"topic {self._name} accepts no records: {error!r}")
            self._wake()
        self._closed.wait()
        # Reports of what was purged hold this object, and so the client with its threads, until they are delivered.
        self._producer.flush(FLUSH_S)

    def _create(self) -> bool:
        """Create the topic; return whether it exists, or only writing can show why not."""
        try:
            brokers = self._producer.list_topics(timeout=CREATE_S).brokers
            new = _admin_module().NewTopic(
                self._name,
                num_partitions=1,
                replication_factor=min(self._copies, max(1, len(brokers))),
                config={"cleanup.policy": "delete", "retention.ms": str(RETENTION_MS)},
            )
            made_topics = self._admin.create_topics([new], operation_timeout=CREATE_S, request_timeout=CREATE_S)
            made_topics[self._name].result(2 * CREATE_S)
        except TimeoutError:
            self._errors.text = f"no broker has created topic {self._name} in time: check that they run"
            return self._closed.wait(POLL_S)
        except self._kafka.KafkaException as error:
            name = error.args[0].name()
            if name in ("TOPIC_ALREADY_EXISTS", "TOPIC_AUTHORIZATION_FAILED", "CLUSTER_AUTHORIZATION_FAILED"):
                return True
            self._errors.note(error.args[0])
            return self._closed.wait(POLL_S)
        return True


class KafkaReadTopic:
    """Reads the topic from an offset on, outside any consumer group."""

    def __init__(self, name: str, settings: SyncLogSettings, wake: Callable[[], None]) -> None:
        """Create the client. Raises ConfigError for settings that it refuses."""
        self._name, self._wake = name, wake
        self._kafka = library()
        self._errors = Errors()
        own = {
            "group.id": f"cep-sync-log/{name}",
            "enable.auto.commit": False,
            "enable.auto.offset.store": False,
            "auto.offset.reset": "error",
            "fetch.wait.max.ms": 100,
            "fetch.error.backoff.ms": 50,
            "error_cb": self._errors.note,
        }
        self._consumer = made(
            self._kafka.Consumer, common_settings(settings.connection(), f"cep-sync-log/{name}") | own, WHERE
        )
        self._came: queue.Queue[tuple[int, bytes]] = queue.Queue(READ_AHEAD)
        self._failure: TopologyError | None = None
        self._closed = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"reads {name}", daemon=True)

    def start(self, offset: int) -> None:
        """Read from `offset` on."""
        self._consumer.assign([self._kafka.TopicPartition(self._name, PARTITION, offset)])
        self._thread.start()

    def came(self) -> Iterator[tuple[int, bytes]]:
        """Yield what was read since the last call. Raise TopologyError when records are missing."""
        while not self._came.empty():
            yield self._came.get()
        if self._failure is not None:
            raise self._failure

    def problem(self) -> str:
        """Return why nothing is read now."""
        return self._errors.text

    def close(self) -> None:
        """Close the client, in the background while a broker is silent."""
        self._closed.set()
        if self._thread.ident is None:
            self._consumer.close()
        else:
            self._thread.join(CLOSE_S)

    def _run(self) -> None:
        try:
            while not self._closed.is_set() and self._failure is None:
                message = self._consumer.poll(POLL_S)
                if message is not None:
                    for one in (message, *self._consumer.consume(READ_AHEAD, timeout=0)):
                        self._take(one)
                    self._wake()
        except Exception as error:  # noqa: BLE001 - the border of this thread, as for what is written
            self._failure = TopologyError(REFUSED, f"topic {self._name} returns no records: {error!r}")
            self._wake()
        self._closed.wait()
        self._consumer.close()

    def _take(self, message: Any) -> None:
        error = message.error()
        if error is None:
            self._errors.clear()
            self._put((message.offset(), message.value() or b""))
        elif error.name() in ("_AUTO_OFFSET_RESET", "OFFSET_OUT_OF_RANGE"):
            self._failure = TopologyError(
                LOST,
                f"records of topic {self._name} were deleted before every instance had read them; keep its"
                f" retention.ms above the time that an instance may lag ({error.str()})",
            )
        else:
            self._errors.note(error)

    def _put(self, one: tuple[int, bytes]) -> None:
        while not self._closed.is_set():
            try:
                self._came.put(one, timeout=POLL_S)
            except queue.Full:
                self._wake()
            else:
                return


def _admin_module() -> Any:
    try:
        from confluent_kafka import admin  # noqa: PLC0415 - an extra, loaded where a plan has such a log
    except ImportError as error:
        raise ConfigError("sync='kafka' needs the package confluent-kafka on every host") from error
    return admin
