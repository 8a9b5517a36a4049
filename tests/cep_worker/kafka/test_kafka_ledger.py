"""A ledger over Kafka: a worker delivers exactly once to a real broker while processes are killed and stopped.

`make kafka-ledger` runs 200 faults; `CEP_KAFKA_FAULTS` and `CEP_KAFKA_SEED` set their number and the seed.
"""

from __future__ import annotations

import json
import os
import random
import signal
import threading
from collections.abc import Iterator
from itertools import pairwise

import msgspec
import pytest
from kafka_broker import Broker
from kafka_topics import Topic
from worker_process import Killable, send
from worker_world import KEY, World, until

from cep_common.protocol.registry import CheckpointSpan, PlanCheckpoints
from topology.links.sender import LinkState

pytestmark = pytest.mark.cluster
FAULTS = int(os.environ.get("CEP_KAFKA_FAULTS", "3"))
SEED = int(os.environ.get("CEP_KAFKA_SEED", "31"))
WAIT_MS = 120_000


@pytest.fixture
def worker(world: World) -> Iterator[Killable]:
    made = Killable(world)
    yield made
    made.kill()


def wrong(found: list[int]) -> str:
    """What is wrong with results that are all there, once and in order, up to the last one."""
    missing = sorted(set(range(1, len(found) + 1)) - set(found))
    jumps = [(before, after) for before, after in pairwise([0, *found]) if after != before + 1]
    return f"{len(found)} found, missing {missing[:3]}… ({len(missing)}), jumps {jumps[:5]}" if jumps else ""


def test_results_come_once_whatever_is_killed(world: World, worker: Killable, kafka: Broker) -> None:
    """A reader of committed messages sees every result once and in order, whenever the worker was killed or stopped and
    whenever the broker hung."""
    chance = random.Random(SEED)  # noqa: S311 - faults, no secrets
    pause = threading.Event()
    topic = Topic(kafka, partitions=3)
    plan = msgspec.structs.replace(topic.sink(partition_no="0"), delivery="exactly-once")
    world.manager.plans = (plan,)
    world.manager.start()

    def numbers() -> list[int]:
        return [json.loads(one.value())["event"]["late"] for one in topic.committed_messages()]

    sent = checkpoint = 0
    publisher = worker.start(position=0)
    for number in range(FAULTS):
        for _ in range(chance.randint(1, 3)):
            count = 50 * chance.randint(1, 40)
            checkpoint += 1
            send(publisher, sent + 1, sent + count, checkpoint)
            sent += count
            world.manager.checkpoints = (PlanCheckpoints(KEY, (CheckpointSpan(7, 0, checkpoint),)),)
        fault = ("kill", "broker", "kill", "hang")[number % 4]
        pause.wait(chance.uniform(0, 0.4))
        if fault == "broker":
            with kafka.hung():
                pause.wait(chance.uniform(0.5, 2))
        elif fault == "hang":
            worker.signal(signal.SIGSTOP)
            pause.wait(chance.uniform(0.5, 2))
            worker.signal(signal.SIGCONT)
        else:
            worker.kill()
            until(lambda link=publisher.link: link.state is LinkState.LOST, publisher)  # type: ignore[misc]
            publisher = worker.start(position=sent)
        assert wrong(numbers()) == "", f"seed {SEED}, fault {number} ({fault}), {sent} sent"
    until(lambda: len(numbers()) >= sent, publisher, deadline_ms=WAIT_MS)
    assert wrong(numbers()) == ""
