"""Coordinators of groups and transactions that change meanwhile: the process goes on, and nothing waits for ever."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pyarrow as pa
import pytest
from mock_brokers import (
    COORDINATOR_NOT_AVAILABLE,
    END_TXN,
    FIND_COORDINATOR,
    GROUP_AUTHORIZATION_FAILED,
    INIT_PRODUCER_ID,
    NOT_COORDINATOR,
    OFFSET_FETCH,
    MockBrokers,
    mock_brokers,
)
from worker_world import until

from cep_common.ids import SUPER_TENANT, PlanKey
from cep_manager.config import KafkaConfig
from cep_manager.errors import KafkaUnavailableError
from cep_manager.topics.cluster import KafkaCluster
from cep_worker.kafka import transactions
from cep_worker.kafka.client import Errors, library
from cep_worker.kafka.targets import Target
from cep_worker.kafka.transactions import NotNowError, Refusals, Transactions
from cep_worker.outflows.consumers import FrameId, GroupId

GROUP = GroupId(PlanKey(SUPER_TENANT, "P"), "publisher#0", 7, 0, 1, "log")
MOVED = [NOT_COORDINATOR, COORDINATOR_NOT_AVAILABLE]


@pytest.fixture
def brokers() -> Iterator[MockBrokers]:
    with mock_brokers() as running:
        yield running


def sink(brokers: MockBrokers) -> Transactions:
    common = {"bootstrap.servers": brokers.servers, "log_level": 0}
    errors = Errors()
    return Transactions(library(), "cep/test", common, common | {"error_cb": errors.note}, errors, "sink")


@pytest.mark.parametrize("error", MOVED)
def test_a_sink_reads_its_markers_again_when_their_coordinator_has_moved(brokers: MockBrokers, error: int) -> None:
    tried = sink(brokers)
    brokers.fail(OFFSET_FETCH, error)
    with pytest.raises(NotNowError, match="oordinator"):
        tried.has(GROUP, threading.Event())
    assert not tried.has(GROUP, threading.Event())


def test_a_sink_says_that_it_may_not_use_its_group(brokers: MockBrokers, monkeypatch: pytest.MonkeyPatch) -> None:
    tried = sink(brokers)
    monkeypatch.setattr(transactions, "CALL_S", 2.0)
    tried._begin(threading.Event())
    brokers.fail(FIND_COORDINATOR, GROUP_AUTHORIZATION_FAILED, times=100)
    with pytest.raises(NotNowError, match="the user may not join the consumer group"):
        tried.has(GROUP, threading.Event())


@pytest.mark.parametrize("error", MOVED)
def test_the_manager_counts_unread_messages_again_when_the_coordinator_has_moved(
    brokers: MockBrokers, error: int
) -> None:
    cluster = KafkaCluster(KafkaConfig(brokers.servers))
    brokers.fail(OFFSET_FETCH, error)
    with pytest.raises(KafkaUnavailableError, match=r"cannot read the offsets of group cep\.events: .*oordinator"):
        cluster.unread("events", 1, "cep.events")
    assert cluster.unread("events", 1, "cep.events") == 0


def deliver(tried: Transactions) -> None:
    frames = iter([(FrameId(GROUP, 1), pa.record_batch({"late": [1]}))])
    tried.deliver(
        GROUP, frames, lambda _batch, _frame: iter([(Target("events", -1, None), b"1", [])]), lambda _: "", Refusals(),
        threading.Event(),
    )  # fmt: skip


def test_a_sink_goes_on_when_the_library_hangs_after_a_coordinator_has_gone(
    brokers: MockBrokers, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The library waits without end for the broker that it knows as the coordinator of the marker's group.

    A library that keeps its time limit raises here instead: then this test may go.
    """
    brokers.coordinate("transaction", "cep/test", 1)
    brokers.coordinate("group", "cep/test/log", 2)
    tried = sink(brokers)
    assert not tried.has(GROUP, threading.Event())
    brokers.stop(2)
    monkeypatch.setattr(transactions, "CALL_S", 0.5)
    monkeypatch.setattr(transactions, "STUCK_S", 2.0)
    with pytest.raises(NotNowError, match=r"hangs: send_offsets_to_transaction has not returned within 2 s; "):
        deliver(tried)
    assert (tried.in_doubt, tried.producer, tried.stuck, tried.aborted) == (False, None, 1, 1)
    with pytest.raises(NotNowError):  # the marker is read first: no other producer hangs while the broker is away
        tried.has(GROUP, threading.Event())
    assert tried.stuck == 1
    brokers.coordinate("group", "cep/test/log", 3)
    monkeypatch.undo()
    until(lambda: goes_on(tried))
    assert (tried.committed, tried.in_doubt) == (1, False)
    assert tried.has(GROUP, threading.Event())


def goes_on(tried: Transactions) -> bool:
    try:
        if not tried.has(GROUP, threading.Event()):
            deliver(tried)
    except NotNowError:
        return False
    return True


def test_a_commit_without_answer_is_in_doubt(brokers: MockBrokers, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transactions, "CALL_S", 1.0)
    tried = sink(brokers)
    assert not tried.has(GROUP, threading.Event())
    monkeypatch.setattr(transactions, "ANSWER_S", 0.0)
    brokers.fail(END_TXN, NOT_COORDINATOR, times=1_000)
    with pytest.raises(NotNowError):
        deliver(tried)
    assert (tried.in_doubt, tried.producer) == (True, None)


def test_a_producer_that_cannot_begin_is_given_up(brokers: MockBrokers, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transactions, "CALL_S", 1.0)
    monkeypatch.setattr(transactions, "ANSWER_S", 0.0)
    tried = sink(brokers)
    brokers.fail(INIT_PRODUCER_ID, COORDINATOR_NOT_AVAILABLE, times=1_000)
    with pytest.raises(NotNowError):
        tried.has(GROUP, threading.Event())
    assert tried.producer is None
