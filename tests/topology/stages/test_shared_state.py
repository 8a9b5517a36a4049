"""A group with shared state answers as one engine does, in whichever instances its events come in."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Mapping

import msgspec
import pyarrow as pa
import pytest
from in_process_topology import InProcessTopology
from log_topics import MemoryTopics

from query_plan.builder import build
from query_plan.xml import write_xml
from siddhi.analysis.analyser import analyse
from siddhi.language.parser import parse
from topology.errors import TopologyError
from topology.stages.contract import Parts
from topology.stages.settings import StageSettings
from topology.stages.state.restoring import initial_states, wanted
from topology.sync_log.settings import SyncLogSettings
from topology.sync_log.task_logs import LogTopics

HEAD = """@app:name('P') {header}
define stream A (id int, temp double, room string);
define stream B (id int, temp double, room string);
@sink(type='log') define stream Out (x double, y double);
"""
SHARED = "@dist(execGroup='g', parallel='3', state='shared')"
SHARED_BY_KAFKA = "@dist(execGroup='g', parallel='3', state='shared', sync='kafka')"
BODIES = {
    "sequence": "from every e1=A, e2=A[e1.temp + 1 < temp] select e1.temp as x, e2.temp as y insert into Out;",
    "long sequence": "from every e1=A, e2=A[e1.temp < temp]+, e3=A[e3.temp < e1.temp] "
    "select e1.temp as x, e3.temp as y insert into Out;",
    "pattern": "from every e1=A -> e2=B[e1.temp < temp] select e1.temp as x, e2.temp as y insert into Out;",
    "and": "from every (e1=A and e2=B) select e1.temp as x, e2.temp as y insert into Out;",
    "count": "from every e1=A<2:3> -> e2=B select e1[0].temp as x, e2.temp as y insert into Out;",
    "within": "from every e1=A -> e2=B[e1.temp < temp] within 30 millisec "
    "select e1.temp as x, e2.temp as y insert into Out;",
    "absent": "from every e1=A -> not B[temp > e1.temp] for 25 millisec "
    "select e1.temp as x, e1.temp as y insert into Out;",
    "counts": "from A select cast(count(), 'double') as x, avg(temp) as y insert into Out;",
    "groups": "from A select avg(temp) as x, sum(temp) as y group by room insert into Out;",
    "length": "from A#window.length(4) select sum(temp) as x, max(temp) as y insert into Out;",
    "time": "from A#window.time(40 millisec) select sum(temp) as x, min(temp) as y insert into Out;",
    "batch": "from A#window.timeBatch(50 millisec) select sum(temp) as x, min(temp) as y insert into Out;",
    "join": "from A#window.length(3) join B#window.length(3) on A.room == B.room "
    "select A.temp as x, B.temp as y insert into Out;",
    "filter": "from A[temp > 5.0]#window.length(3) select sum(temp) as x, min(temp) as y insert into Out;",
    "rate": "from A select temp as x, temp as y output last every 3 events insert into Out;",
}


def plan_of(body: str, dist: str, header: str) -> str:
    text = HEAD.format(header=header) + f"@info(name='q') {dist} {body}"
    return write_xml(build(analyse(parse(text))))


def batch(rows: list[tuple[int, int, float, str]]) -> pa.RecordBatch:
    times, ids, temps, rooms = zip(*rows, strict=True)
    return pa.record_batch(
        {
            "_timestamp": pa.array(times, pa.int64()),
            "_kind": pa.array([0] * len(rows), pa.int8()),
            "id": pa.array(ids, pa.int32()),
            "temp": pa.array(temps, pa.float64()),
            "room": pa.array(rooms, pa.string()),
        }
    )


Sent = tuple[str, int, list[tuple[int, int, float, str]]]


def events(seed: int) -> list[Sent]:
    chosen, now, made = random.Random(seed), 1_000_000, []  # noqa: S311 - test data
    for number in range(60):
        now += chosen.randrange(0, 12)
        rows = [
            (now, number, float(chosen.randrange(0, 12)), chosen.choice("ab")) for _ in range(chosen.randrange(1, 4))
        ]
        made.append((chosen.choice("AB"), now, rows))
    return made


def run(
    xml: str, seed: int, settings: StageSettings, *, by_clock: bool, topics: LogTopics | None = None
) -> InProcessTopology:
    topology = InProcessTopology(xml, settings, topics)
    feed(topology, events(seed), by_clock=by_clock)
    return topology


def feed(
    topology: InProcessTopology,
    made: list[Sent],
    states: Mapping[str, Parts] = {},
    *,
    by_clock: bool = True,
) -> None:
    topology.open(made[0][1] - 1, states)
    for name, now_ms, rows in made:
        stream = name if name in topology.topology.streams else "A"
        topology.advance(now_ms)
        topology.send(stream, batch(rows), now_ms)
        if not by_clock:
            topology.mark(now_ms + 1)
    topology.advance(made[-1][1] + 1_000)
    if not by_clock:
        topology.mark(made[-1][1] + 1_000)


@pytest.fixture
def settings() -> StageSettings:
    return StageSettings(host="127.0.0.1", first_port=20000, last_port=60000, window_rows=1_000, idle_ms=60_000)


QUICK = (("sequence", ""), ("absent", ""), ("time", "@app:playback"), ("filter", ""), ("join", ""))
"""What every run of the suite tries; the others are thorough."""


def cases() -> list[object]:
    return [
        pytest.param(kind, header, marks=() if (kind, header) in QUICK else pytest.mark.thorough)
        for kind in BODIES
        for header in ("", "@app:playback")
    ]


@pytest.mark.parametrize(("kind", "header"), cases())
def test_three_instances_answer_as_one_engine_and_their_states_are_equal(
    kind: str, header: str, settings: StageSettings
) -> None:
    body = BODIES[kind]
    alone = run(plan_of(body, "@dist(execGroup='g')", header), 1, settings, by_clock=not header)
    shared = run(plan_of(body, SHARED, header), 1, settings, by_clock=not header)
    assert Counter(row[1:] for _, row in shared.out) == Counter(row[1:] for _, row in alone.out)
    assert alone.out
    assert len({state["engine"] for name, state in shared.snapshot().items() if name.startswith("g#")}) == 1


@pytest.mark.parametrize(
    ("kind", "header"),
    [
        ("sequence", ""),
        *(pytest.param(*one, marks=pytest.mark.thorough) for one in (("absent", ""), ("join", "@app:playback"))),
    ],
)
def test_a_log_in_a_topic_gives_what_one_between_stages_gives(kind: str, header: str, settings: StageSettings) -> None:
    """Records come late, and somebody else writes to the topic, too."""
    memory = MemoryTopics(delay=1)
    memory.before_each = lambda records: records.append(b"of somebody else")
    found = [
        run(plan_of(BODIES[kind], dist, header), 1, in_kafka(settings), by_clock=not header, topics=memory.topics())
        for dist in (SHARED, SHARED_BY_KAFKA)
    ]
    assert found[0].out == found[1].out
    assert found[0].givers == found[1].givers
    assert len({state["engine"] for name, state in found[1].snapshot().items() if name.startswith("g#")}) == 1
    assert [sum(one is not None for one in records) > 60 for records in memory.records.values()] == [True]


def test_a_log_in_a_topic_needs_brokers(settings: StageSettings) -> None:
    with pytest.raises(TopologyError, match=r"stages\.sync_log\.kafka") as caught:
        InProcessTopology(plan_of(BODIES["sequence"], SHARED_BY_KAFKA, ""), settings)
    assert caught.value.reason_code == "not-supported"


def in_kafka(settings: StageSettings) -> StageSettings:
    return msgspec.structs.replace(settings, sync_log=SyncLogSettings(kafka={"bootstrap.servers": "127.0.0.1:1"}))


def test_each_result_comes_from_the_instance_that_took_in_its_last_event(settings: StageSettings) -> None:
    body = "from every e1=A, e2=A[e1.temp < temp] select e1.temp as x, cast(e2.id, 'double') as y insert into Out;"
    shared = run(plan_of(body, SHARED, ""), 3, settings, by_clock=True)
    origins = {
        number: origin
        for _, taken in shared.taken["g#0"]
        for number, origin in zip(taken.column("id").to_pylist(), taken.column("_origin").to_pylist(), strict=True)
    }
    owners = [f"g#{origins[int(str(row[2]).split('.')[0])]}" for _, row in shared.out]
    assert shared.givers == owners
    assert set(owners) == {"g#0", "g#1", "g#2"}


@pytest.mark.parametrize(("before", "after"), [(2, 3), (3, 2), (3, 1), (1, 3)])
def test_instances_that_are_added_begin_with_the_state_of_the_others(
    before: int, after: int, settings: StageSettings
) -> None:
    """Half of the events run in `before` instances, the rest in `after` that begin from the state of those."""
    body = BODIES["length"]
    alone = run(plan_of(body, "@dist(execGroup='g')", ""), 5, settings, by_clock=True)
    first = InProcessTopology(plan_of(body, SHARED.replace("3", str(before)), ""), settings)
    then = InProcessTopology(plan_of(body, SHARED.replace("3", str(after)), ""), settings)
    half = len(events(5)) // 2
    feed(first, events(5)[:half])
    states = first.snapshot()
    mine = tuple(then.snapshot_names())
    assert wanted(then.topology, mine, states) <= states.keys()
    begun = initial_states(then.topology, mine, states, settings.scripts)
    assert begun.left == ()
    feed(then, events(5)[half:], begun.states)
    assert [row[1:] for _, row in first.out + then.out] == [row[1:] for _, row in alone.out]


def test_time_that_no_event_moves_goes_on_in_all_instances(settings: StageSettings) -> None:
    """Where event time advances by itself in silence, a batch ends without a further event, once."""
    header = "@app:playback(idle.time='100 millisec', increment='1 sec')"
    found = []
    for dist in ("@dist(execGroup='g')", SHARED):
        topology = InProcessTopology(plan_of(BODIES["batch"], dist, header), settings)
        topology.open(999_000)
        topology.send("A", batch([(1_000_000, 1, 3.0, "a"), (1_000_010, 2, 4.0, "a")]), 1_000_010)
        topology.finish(1_000_020)
        topology.advance(1_001_000)
        found.append([row[1:] for _, row in topology.out])
    assert found == [[(7.0, 3.0)], [(7.0, 3.0)]]


def test_an_event_of_another_instance_between_two_breaks_a_sequence_and_no_pattern(settings: StageSettings) -> None:
    events = [(1_000_000, 1, 1.0, "a"), (1_000_001, 2, 1.0, "filler"), (1_000_002, 3, 5.0, "a")]
    found = []
    for link in (",", "->"):
        body = f"from every e1=A[room == 'a'] {link} e2=A[room == 'a' and e1.temp + 1 < temp] select "
        body += "e1.temp as x, e2.temp as y insert into Out;"
        topology = InProcessTopology(plan_of(body, SHARED, ""), settings)
        feed(topology, [("A", time_ms, [(time_ms, *rest)]) for time_ms, *rest in events])
        found.append([row[1:] for _, row in topology.out])
    assert found == [[], [(1.0, 5.0)]]
