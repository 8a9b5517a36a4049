"""Events and answers in topics of three brokers: plans, feeders, a reader, and faults of brokers and topics."""

from __future__ import annotations

import json
import random
import threading
import time
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any
from zlib import crc32

from chaos_faults import HANG_S, Fault
from chaos_feeder import EVENTS_EACH, PAUSE_S, Feeder
from chaos_ledger import KeyOrder
from chaos_plans import WINDOW, ChaosPlan, Row, sums
from chaos_system import ChaosSystem
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewPartitions, NewTopic
from kafka_broker import Broker

EVENTS = "ledger"
PARTITIONS, MOST_PARTITIONS = 2, 12
"""Of the topic of events at first, and at most, however often one is added."""
RESULT_PARTITIONS = 3
DOWN_S = 5.0
STOLEN_S = 6.0
DELIVERED_S = 60.0
ADMIN_S = 30.0
LOOK_S = 0.1

_EDGES = f"""@source(type='kafka', topic.list='{EVENTS}', group.id='group-NAME', bootstrap.servers='SERVERS',
  @map(type='json'))
define stream Ticks (key string, number long);
@sink(type='kafka', topic='results-NAME', key='{{{{key}}}}', bootstrap.servers='SERVERS', @map(type='json'))
define stream Answers (key string, number long, total long);
"""
_SUMMING = f"""@dist(execGroup='summing', parallel='2') partition with (key of READ) begin
@info(name='summing') from READ#window.length({WINDOW}) select key, number, sum(number) as total insert into Answers;
end;
"""
_CHECKING = """@info(name='checking') @dist(execGroup='checking', parallel='2')
from Ticks[number > 0] select key, number insert into Checked;
"""


def kafka_plans(servers: str) -> tuple[ChaosPlan, ...]:
    """From topic to topic: one group, and two groups that a topic connects."""

    def plan(name: str, text: str, before: int = 0) -> ChaosPlan:
        whole = text.replace("NAME", name).replace("SERVERS", servers)
        return ChaosPlan(name, whole, answer=lambda row: row["total"], answers=sums, before=before)

    return (
        plan("Direct", _EDGES + _SUMMING.replace("READ", "Ticks")),
        plan("Chained", f"@Plan:transport('kafka') {_EDGES}{_CHECKING}{_SUMMING.replace('READ', 'Checked')}", before=1),
    )


class Cluster:
    """The brokers, and the topics of the ledger."""

    def __init__(self, brokers: Sequence[Broker]) -> None:
        self.brokers = brokers
        self.servers = ",".join(one.servers for one in brokers)
        self.partitions = PARTITIONS
        self.feeders: list[KafkaFeeder] = []
        self._admin = AdminClient({"bootstrap.servers": self.servers, "log_level": 0})

    def settings(self) -> dict[str, dict[str, str]]:
        """What processes of a system need to know of the brokers, by role."""
        urls = json.dumps([f"kafka://{one.servers}" for one in self.brokers])
        return {
            "manager": {"CEP_MANAGER__KAFKA__SERVERS": self.servers, "CEP_MANAGER__KAFKA__REPLICATION": "3"},
            "worker": {"CEP_WORKER__SOURCES__URLS": urls, "CEP_WORKER__SINKS__URLS": urls},
        }

    def create_topics(self, plans: Sequence[ChaosPlan]) -> None:
        """The topics of events and results are there."""
        new = [NewTopic(EVENTS, PARTITIONS, len(self.brokers))]
        new += [NewTopic(f"results-{one.name}", RESULT_PARTITIONS, len(self.brokers)) for one in plans]
        for made in self._admin.create_topics(new).values():
            made.result(ADMIN_S)

    def kill_broker(self, _: ChaosSystem, chance: random.Random) -> str:
        """One broker dies, and is started again after a while."""
        number = chance.randrange(len(self.brokers))
        self.brokers[number].kill()
        time.sleep(DOWN_S)
        self.brokers[number].start()
        return f"broker {number + 1}"

    def hang_broker(self, _: ChaosSystem, chance: random.Random) -> str:
        """One broker does not answer for a while."""
        number = chance.randrange(len(self.brokers))
        with self.brokers[number].hung():
            time.sleep(HANG_S)
        return f"broker {number + 1}"

    def steal_group(self, _: ChaosSystem, chance: random.Random) -> str:
        """Somebody else reads and commits as the consumer group of a plan."""
        plan = chance.choice(("Direct", "Chained"))
        consumer = Consumer({"bootstrap.servers": self.servers, "group.id": f"group-{plan}", "log_level": 0})
        consumer.subscribe([EVENTS])
        taken = 0
        end_s = time.monotonic() + STOLEN_S
        while time.monotonic() < end_s:
            message = consumer.poll(0.1)
            if message is not None and message.error() is None:
                taken += 1
                consumer.commit(message)
        consumer.close()
        return f"the group of {plan}, which lost {taken} messages"

    def add_partition(self, _system: ChaosSystem, _chance: random.Random) -> str:
        """The topic of events has one more partition, which events with new keys use."""
        if self.partitions >= MOST_PARTITIONS:
            return "nothing, there are enough"
        try:
            self._admin.create_partitions([NewPartitions(EVENTS, self.partitions + 1)])[EVENTS].result(ADMIN_S)
        except KafkaException as error:
            return f"nothing: {error.args[0].str()}"
        self.partitions += 1
        for feeder in self.feeders:
            feeder.spread_over(self.partitions)
        return f"partition {self.partitions - 1}"

    def faults(self) -> tuple[Fault, ...]:
        """What can happen to brokers and topics."""
        return (
            Fault("broker killed", self.kill_broker),
            Fault("broker hung", self.hang_broker),
            Fault("consumer group stolen", self.steal_group),
            Fault("partition added", self.add_partition),
        )


class KafkaFeeder(Feeder):
    """Sends to the topic until `close`. The client sends until the brokers have a message, once: none is uncertain."""

    def __init__(self, name: str, servers: str) -> None:
        super().__init__(name, "", "")
        settings = {"acks": "all", "enable.idempotence": True, "message.timeout.ms": 0, "linger.ms": 5, "log_level": 0}
        self._producer = Producer({"bootstrap.servers": servers, **settings})
        self._partitions = PARTITIONS

    def spread_over(self, partitions: int) -> None:
        """Use so many partitions, for new keys: events of one key keep their partition, and so their order.

        Raises TimeoutError when the brokers do not show them: the client refuses partitions that it does not know.
        """
        deadline_s = time.monotonic() + ADMIN_S
        while len(self._producer.list_topics(EVENTS, timeout=ADMIN_S).topics[EVENTS].partitions) < partitions:
            if time.monotonic() > deadline_s:
                raise TimeoutError(f"the topic {EVENTS} does not have {partitions} partitions within {ADMIN_S:.0f} s")
            time.sleep(LOOK_S)
        self._partitions = partitions
        self._generation += 1

    def run(self) -> None:
        places: dict[str, int] = {}
        while not self._closing.wait(PAUSE_S):
            events = self._next()
            place = places.setdefault(events[0]["key"], crc32(events[0]["key"].encode()) % self._partitions)
            for event in events:
                self._produce(event, place)
            self._producer.poll(0)
        if left := self._producer.flush(DELIVERED_S):
            self.problem = f"{left} messages were not taken"

    def _produce(self, event: Mapping[str, Any], place: int) -> None:
        def delivered(error: Any, _message: Any) -> None:
            if error is not None:
                self.problem = str(error)
                self.ticks.uncertain[event["key"]].add(event["number"])
                return
            self.ticks.accepted[event["key"]].append(event["number"])
            if event["number"] % EVENTS_EACH:
                return
            with self._lock:
                at = bisect_left(self._numbers, event["number"])
                self._numbers.insert(at, event["number"])
                self._times_s.insert(at, time.monotonic())

        self._producer.produce(EVENTS, json.dumps(event), event["key"], partition=place, on_delivery=delivered)


class Results(threading.Thread):
    """Reads what has been committed to the topics of results, as it comes."""

    def __init__(self, servers: str, plans: Sequence[ChaosPlan]) -> None:
        super().__init__(name="reader of results", daemon=True)
        self.rows: dict[str, list[Row]] = {one.name: [] for one in plans}
        self.order = KeyOrder()
        self._newest: dict[tuple[str, str], int] = defaultdict(int)
        self._closing = threading.Event()
        settings = {"isolation.level": "read_committed", "enable.auto.commit": False, "log_level": 0}
        self._consumer = Consumer({"bootstrap.servers": servers, "group.id": "ledger-reader", **settings})
        topics = [f"results-{one.name}" for one in plans]
        self._consumer.assign([TopicPartition(one, n, 0) for one in topics for n in range(RESULT_PARTITIONS)])

    def run(self) -> None:
        while not self._closing.is_set():
            for message in self._consumer.consume(1_000, timeout=0.2):
                if message.error() is None:
                    self._note(message.topic().removeprefix("results-"), json.loads(message.value())["event"])
        self._consumer.close()

    def close(self) -> None:
        """Nothing more is read."""
        self._closing.set()
        self.join()

    def newest(self, plan: str, feeder: str) -> int:
        """The newest number of `feeder` that `plan` has answered; 0 when there is none."""
        return self._newest[plan, feeder]

    def look(self) -> None:
        """Do nothing: its thread looks."""

    def _note(self, plan: str, row: Row) -> None:
        self.rows[plan].append(row)
        key, number = row["key"], row["number"]
        self.order.note(plan, key, number)
        answered = plan, key.partition("/")[0]
        self._newest[answered] = max(self._newest[answered], number)


NAMES = tuple(f"feeder-{number}" for number in (1, 2))
