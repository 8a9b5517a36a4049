"""`@App:transport('kafka')`: the streams that topics carry. The cases are those of WSO2 SP's topology tests."""

from __future__ import annotations

import pytest

from query_plan.examination import Compiled, examine
from query_plan.planning.carried_streams import CarriedStream, topic_name
from query_plan.xml import read_xml

HEADER = "@App:name('App') @App:transport('kafka') "
TEMP = "define stream T (device string, room string, temp double); "
HTTP = "@source(type='http', @map(type='json')) "
MADE = "@dist(execGroup='g1') from T[temp > 0] select device, room, temp insert into TI; "


def compiled(text: str) -> Compiled:
    found = examine(text)
    assert found.compiled is not None, [one.problem.message for one in found.findings]
    return found.compiled


def carried(text: str) -> dict[str, CarriedStream]:
    return {one.stream: one for one in compiled(HEADER + text).carried}


def feeders(text: str, stream: str) -> dict[str, list[str]]:
    """Return the stages that feed each stage with the stream."""
    found: dict[str, list[str]] = {}
    for link in compiled(HEADER + text).plan.links():
        if link.stream == stream:
            found.setdefault(link.consumer, []).append(link.producer)
    return found


def partition(group: str, parallel: int, key: str, query: str) -> str:
    return f"@dist(execGroup='{group}', parallel='{parallel}') partition with ({key} of TI) begin {query} end; "


FILTER = "@dist(execGroup='g2', parallel='3') from TI[temp > 1] select device, temp insert into Out;"
MAX = "from TI#window.lengthBatch(2) select device, max(temp) as most insert into Out;"
JOIN = "from TI#window.length(9) join R on TI.room == R.room select TI.device, TI.temp insert into Out;"


@pytest.mark.parametrize(
    ("text", "topic", "key", "partitions"),
    [
        pytest.param(FILTER, "App.TI", "", 3, id="round robin: as many partitions as instances"),
        pytest.param(
            FILTER.replace("parallel='3'", "parallel='auto', min='2', max='6'"),
            "App.TI", "", 6, id="as many partitions as there may be instances",
        ),
        pytest.param(partition("g2", 2, "device", MAX), "App.TI.device", "device", 2, id="partition with a window"),
        pytest.param(
            partition("g2", 2, "device", "from every e1=TI, e2=TI[temp > e1.temp] select e1.device insert into Out;"),
            "App.TI.device", "device", 2, id="partition with a sequence",
        ),
        pytest.param(
            partition("g2", 2, "device", MAX)
            + "@dist(execGroup='g2', parallel='2') from TI[temp > 1] select temp insert into O2;",
            "App.TI.device", "device", 2, id="a filter in the group of a partition",
        ),
        pytest.param(
            partition("g2", 2, "device", MAX)
            + partition("g3", 3, "device", MAX.replace("Out", "O3")),
            "App.TI.device", "device", 3, id="the same key in two groups: the larger number",
        ),
        pytest.param(
            partition("g2", 2, "device", MAX) + partition("g3", 3, "room", MAX.replace("Out", "O3")),
            "App.TI", "", 1, id="two keys: one partition keeps the order by both",
        ),
        pytest.param(
            "@dist(execGroup='g2') from TI#window.length(3) select avg(temp) as a insert into Out;",
            "App.TI", "", 1, id="a window over all: one partition",
        ),
        pytest.param(
            partition("g2", 2, "device", MAX)
            + "@dist(execGroup='g3') from TI#window.length(3) select avg(temp) as a insert into O3;",
            "App.TI", "", 1, id="a window over all beside a partition",
        ),
    ],
)  # fmt: skip
def test_a_topic_has_the_key_and_the_partitions_that_its_readers_need(
    text: str, topic: str, key: str, partitions: int
) -> None:
    found = carried(TEMP + MADE + text)["TI"]
    assert found == CarriedStream("TI", topic, "between", key, partitions)


def test_of_a_join_the_partitioned_side_has_the_key_and_the_other_one_partition() -> None:
    made = "@dist(execGroup='g1') from T[temp > 9] select room insert into R; "
    found = carried(TEMP + MADE + made + partition("g2", 2, "device", JOIN))
    assert (found["TI"].key, found["TI"].partitions) == ("device", 2)
    assert (found["R"].key, found["R"].partitions) == ("", 1)


def test_a_carried_stream_leaves_by_the_publisher_and_comes_by_the_receiver() -> None:
    text = HTTP + TEMP + MADE + FILTER
    assert feeders(text, "TI") == {"g2": ["EventReceiver"], "EventPublisher": ["g1"]}
    assert feeders(text, "T") == {"g1": ["EventReceiver"]}
    plan = compiled(HEADER + text).plan
    assert plan.carried == ("TI",)
    assert read_xml(compiled(HEADER + text).xml) == plan


def test_a_stream_of_one_group_stays_inside_and_others_read_the_topic() -> None:
    text = TEMP + MADE + "@dist(execGroup='g1') from TI[temp > 5] select temp insert into Hot; " + FILTER
    assert feeders(text, "TI") == {"g2": ["EventReceiver"], "EventPublisher": ["g1"]}


def test_streams_that_nobody_feeds_or_takes_have_a_source_or_sink_made_for_them() -> None:
    found = carried(TEMP + MADE + FILTER)
    assert {name: (one.topic, one.use) for name, one in found.items()} == {
        "T": ("App.T", "in"),
        "TI": ("App.TI", "between"),
        "Out": ("App.Out", "out"),
    }


def test_streams_with_a_source_or_sink_of_the_users_own_have_none_made() -> None:
    sink = "@sink(type='log') define stream Out (device string, temp double); "
    assert list(carried(HTTP + TEMP + sink + MADE + FILTER)) == ["TI"]


def test_a_sink_of_the_users_own_stays_beside_the_topic() -> None:
    text = (
        HTTP + TEMP + "@sink(type='log') define stream TI (device string, room string, temp double); " + MADE + FILTER
    )
    assert carried(text)["TI"].use == "between"
    assert feeders(text, "TI") == {"g2": ["EventReceiver"], "EventPublisher": ["g1"]}


def test_without_the_annotation_groups_are_linked_directly() -> None:
    text = "@App:name('App') " + TEMP + MADE + FILTER
    assert compiled(text).carried == ()
    assert [(one.producer, one.consumer) for one in compiled(text).plan.links() if one.stream == "TI"] == [("g1", "g2")]
    assert compiled(text.replace("@App:name", "@App:transport('zeromq') @App:name")).carried == ()


def test_what_a_topic_could_not_tell_apart_stays_direct_with_a_warning() -> None:
    definition = HTTP + "@sink(type='log') define stream TI (device string, room string, temp double); "
    found = examine(HEADER + HTTP + TEMP + definition + MADE + FILTER)
    assert "stream-stays-direct" in [one.problem.code for one in found.findings]
    assert found.compiled is not None
    assert [one.stream for one in found.compiled.carried] == ["Out"]


def test_triggers_are_not_carried() -> None:
    text = "define trigger Tick at every 1 sec; @dist(execGroup='a') from Tick select * insert into Out;"
    assert list(carried(text)) == ["Out"]


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("@App:name('A') @App:transport('jms') ", "transport-unknown"),
        ("@App:name('A') @App:transport('kafka') @App:transport('zeromq') ", "transport-unknown"),
        (f"@App:name('A') @App:transport('kafka') define stream {'S' * 250} (a int); ", "topic-name-too-long"),
    ],
)
def test_what_cannot_be_is_refused(text: str, code: str) -> None:
    stream = "S" * 250 if "S" * 250 in text else "T"
    text += TEMP if stream == "T" else ""
    found = examine(f"{text} from {stream} select * insert into Out;")
    assert code in [one.problem.code for one in found.findings]
    assert found.compiled is None


def test_a_topic_takes_no_letters_that_kafka_refuses() -> None:
    assert topic_name("My plan", "Größe", "key") == "My_plan.Gr__e.key"


def test_sources_with_dist_say_how_many_receivers_there_are() -> None:
    source = "@source(type='inMemory', topic='a', @dist(parallel='{}')) "
    both = source.format(2) + source.format(3)
    text = "@App:name('App') {}" + both + TEMP + "from T select * insert into Out;"
    assert compiled(text.format("")).plan.receiver.parallel == 3
    assert compiled(text.format("@App:dist(receiverParallelism='4') ")).plan.receiver.parallel == 4
    assert "parallel-not-positive" in [
        one.problem.code for one in examine(text.format("").replace("'3'", "'x'")).findings
    ]
