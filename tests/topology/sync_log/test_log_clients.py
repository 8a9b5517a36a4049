"""The clients of a log where there is no broker, or one that does not do what it should."""

from __future__ import annotations

import gc
import threading
import weakref
from concurrent.futures import Future
from types import SimpleNamespace
from typing import Any

import pytest

from topology.errors import TopologyError
from topology.sync_log import kafka_topic
from topology.sync_log.kafka_topic import REFUSED, KafkaReadTopic, KafkaWrittenTopic
from topology.sync_log.settings import SyncLogSettings

NOWHERE = SyncLogSettings(kafka={"bootstrap.servers": "127.0.0.1:1"})
WITHIN_S = 20.0


class KafkaError(Exception):
    """As the library's exception."""


class FakeClient:
    """A producer, consumer and admin; the first `silent` requests for a topic get no answer."""

    def __init__(self, silent: int = 0, defect: Exception | None = None) -> None:
        self.silent, self.defect = silent, defect
        self.produced: list[bytes] = []

    def list_topics(self, timeout: float) -> Any:
        return SimpleNamespace(brokers={0: "a"})

    def create_topics(self, new: list[Any], **_: float) -> dict[str, Future[None]]:
        answer: Future[None] = Future()
        self.silent -= 1
        if self.silent < 0:
            answer.set_result(None)
        return {"t": answer}

    def produce(self, _name: str, record: bytes, **_: object) -> None:
        self.produced.append(record)

    def poll(self, timeout: float) -> None:
        if self.defect is not None:
            raise self.defect
        threading.Event().wait(0.01)

    def assign(self, _: object) -> None:
        """All is read."""

    def purge(self) -> None:
        """Nothing waits."""

    def flush(self, timeout: float) -> None:
        """Nothing waits."""

    def close(self) -> None:
        """Nothing is open."""


def use(client: FakeClient, monkeypatch: pytest.MonkeyPatch) -> None:
    library = SimpleNamespace(
        Producer="p", Consumer="c", KafkaException=KafkaError, TopicPartition=lambda *parts: parts
    )
    admin = SimpleNamespace(AdminClient="a", NewTopic=lambda name, **_: name)
    monkeypatch.setattr(kafka_topic, "library", lambda: library)
    monkeypatch.setattr(kafka_topic, "_admin_module", lambda: admin)
    monkeypatch.setattr(kafka_topic, "made", lambda *_: client)


def test_a_topic_whose_creation_is_not_answered_is_asked_for_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kafka_topic, "CREATE_S", 0.02)
    client, woken = FakeClient(silent=2), threading.Event()
    use(client, monkeypatch)
    topic = KafkaWrittenTopic("t", NOWHERE, woken.set)
    topic.append(0, [b"0"])
    assert woken.wait(WITHIN_S), "the thread has ended, and events wait for ever"
    assert "has created topic t in time" in topic.problem()
    list(topic.written())
    assert client.produced == [b"0"]
    topic.close()


def test_a_defect_of_a_client_ends_the_run_instead_of_holding_it_up(monkeypatch: pytest.MonkeyPatch) -> None:
    use(FakeClient(defect=RuntimeError("a defect")), monkeypatch)
    for kind in (KafkaWrittenTopic, KafkaReadTopic):
        woken = threading.Semaphore(0)
        topic: Any = kind("t", NOWHERE, woken.release)
        if isinstance(topic, KafkaReadTopic):
            topic.start(0)
        assert woken.acquire(timeout=WITHIN_S)
        with pytest.raises(TopologyError, match="a defect") as caught:
            list(topic.came() if isinstance(topic, KafkaReadTopic) else topic.written())
        assert caught.value.reason_code == REFUSED
        topic.close()
        topic._thread.join(WITHIN_S)
        assert not topic._thread.is_alive()


def test_a_closed_log_leaves_no_client_behind_though_records_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("confluent_kafka")
    monkeypatch.setattr(KafkaWrittenTopic, "_create", lambda _: True)
    woken = threading.Event()
    topic = KafkaWrittenTopic("t", NOWHERE, woken.set)
    assert woken.wait(WITHIN_S)
    topic.append(0, [b"0", b"1"])
    topic.close()
    topic._thread.join(WITHIN_S)
    left = weakref.ref(topic)
    del topic
    gc.collect()
    assert left() is None, "its threads and connections would be left with each restart"


def test_a_task_that_ends_does_not_wait_for_silent_brokers(monkeypatch: pytest.MonkeyPatch) -> None:
    client, answers = FakeClient(), threading.Event()

    def silent(timeout: float) -> None:
        answers.wait(timeout + WITHIN_S)

    client.list_topics = client.flush = silent  # type: ignore[method-assign]
    use(client, monkeypatch)
    topic = KafkaWrittenTopic("t", NOWHERE, lambda: None)
    topic.close()
    assert topic._thread.is_alive(), "the task's loop has waited until the brokers answered"
    answers.set()
    topic._thread.join(WITHIN_S)
    assert not topic._thread.is_alive()
