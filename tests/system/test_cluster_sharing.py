"""How a standalone cluster shares work out: the stages of the first distributed example, and keys among instances."""

from __future__ import annotations

import random
import time
from collections import Counter

import numpy as np
import pyarrow as pa
import pytest
from distributed_runs import DistributedPlan, differences, on_a_cluster, on_one_engine

from cep_cli.plan_commands.plans import wait_until_connected
from cep_cli.system.local_system import LocalSystem
from cep_worker.ingest.event_sender import EventSender, fetch_schema
from topology.links.event_listener import EventListener

pytestmark = [pytest.mark.spark, pytest.mark.cluster]

ROOMS = """\
@App:name('wso2-app')
@app:playback
define stream TempStream (deviceID long, roomNo int, temp double);

@info(name='query1') @dist(execGroup='group1')
from TempStream#window.time(2 min)
select avg(temp) as avgTemp, roomNo, deviceID
insert all events into AvgTempStream;

@info(name='query3') @dist(execGroup='group1')
from every (e1=TempStream) -> e2=TempStream[e1.roomNo == roomNo and (e1.temp + 5) <= temp] within 10 min
select e1.roomNo, e1.temp as initialTemp, e2.temp as finalTemp
insert into AlertStream;

@info(name='query4') @dist(execGroup='group2', parallel='2')
from TempStream[(roomNo >= 100 and roomNo < 110) and temp > 40]
select roomNo, temp
insert into HighTempStream;
"""
READINGS = 2_000

COUNTS = """\
@app:name('counts')
@Plan:dist(workers='4')
define stream Seen (card long);
@dist(parallel='4') partition with (card of Seen) begin
  from Seen select card, count() as times insert into Counts;
end;
"""
KEYS = 100_000
ROUNDS = 2
BATCH = 5_000
RESULT_TIMEOUT_MS = 60_000
TOLD_S = 10.0
POLL_S = 0.2


def test_the_room_example_runs_as_two_groups_in_three_instances_and_answers_as_one_engine(
    cluster_system: LocalSystem,
) -> None:
    random_ = random.Random(4)  # noqa: S311 - the same events in every run
    events = tuple(
        {
            "stream": "TempStream",
            "timestamp": 1_000_000 + 700 * number,
            "data": [number % 7, random_.randrange(95, 115), round(random_.uniform(20, 50), 1)],
        }
        for number in range(READINGS)
    )
    plan = DistributedPlan("rooms", ROOMS, events)
    assert [(stage.name, stage.parallel) for stage in plan.compiled.plan.processors] == [("group1", 1), ("group2", 2)]
    expected = on_one_engine(plan)
    assert all(expected.values())
    instances: dict[str, int] = {}

    found = on_a_cluster(
        plan, cluster_system, expected, lambda: instances.update(_received(cluster_system, "wso2-app", 2 * READINGS))
    )

    assert differences(plan, expected, found, {"HighTempStream": "roomNo", "AvgTempStream": "roomNo"}) == []
    assert sorted(instances) == ["group1#0", "group2#0", "group2#1"]
    assert instances["group1#0"] == READINGS
    assert instances["group2#0"] + instances["group2#1"] == READINGS


def test_each_of_100_000_keys_is_seen_by_exactly_one_instance(cluster_system: LocalSystem) -> None:
    cluster_system.client.deploy(COUNTS, replace=False)
    try:
        wait_until_connected(cluster_system.client, "counts", 60)
        schema = fetch_schema(cluster_system.worker_http, "counts/Seen")
        with EventListener(cluster_system.egress, "counts/Counts") as listener:
            with EventSender(cluster_system.ingress, schema) as sender:
                for batch in _cards(sender.arrow_schema):
                    sender.send(batch)
            found: list[pa.RecordBatch] = []
            while sum(batch.num_rows for batch in found) < KEYS * ROUNDS:
                batch = listener.receive(RESULT_TIMEOUT_MS)
                assert batch is not None, f"only {sum(one.num_rows for one in found)} counts came"
                found.append(batch)
        shares = _received(cluster_system, "counts", KEYS * ROUNDS)
    finally:
        cluster_system.client.undeploy("counts", discard=True)

    counts = pa.Table.from_batches(found).group_by("card").aggregate([("times", "min"), ("times", "max")])
    assert counts.num_rows == KEYS
    assert Counter(counts["times_min"].to_pylist()) == {1: KEYS}
    assert Counter(counts["times_max"].to_pylist()) == {ROUNDS: KEYS}, "another instance would begin with 1 again"
    assert len(shares) == 4
    assert sum(shares.values()) == KEYS * ROUNDS
    assert min(shares.values()) > 0.8 * KEYS * ROUNDS / 4, f"the keys are not shared out evenly: {shares}"


def _cards(schema: pa.Schema) -> list[pa.RecordBatch]:
    """Every key once a round, each round in another order."""
    random_ = np.random.default_rng(5)
    keys = np.concatenate([random_.permutation(KEYS) for _ in range(ROUNDS)])
    times = np.full(len(keys), time.time_ns() // 1_000_000)
    columns = [pa.array(column) for column in (times, np.zeros(len(keys), dtype=np.int8), keys)]
    whole = pa.record_batch(columns, schema=schema)
    return [whole.slice(start, BATCH) for start in range(0, len(keys), BATCH)]


def _received(system: LocalSystem, plan: str, events: int) -> dict[str, int]:
    """How many events each processing instance has got, once `events` in all have been told."""
    deadline = time.monotonic() + TOLD_S
    while True:
        nodes = [node for node in system.client.topology(plan)["nodes"] if node["kind"] == "processor"]
        now = {node["id"]: node["received"] for node in nodes}
        if sum(now.values()) >= events or time.monotonic() > deadline:
            return now
        time.sleep(POLL_S)
