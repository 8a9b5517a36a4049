"""No part of an annotation is ignored silently: options, values and nested annotations."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from query_plan.examination import examine

STREAM, RESULTS = "define stream S (k string, v int);", "define stream O (k string, v int);"
QUERY = "from S select k, v insert into O;"
HTTP, KAFKA = "type='http', publisher.url='http://h/x'", "type='kafka', bootstrap.servers='h:1'"
RDBMS = "type='rdbms', jdbc.url='jdbc:postgresql://h/d', username='u', password='p'"
SECONDS = "define aggregation A from S select k, sum(v) as s group by k aggregate every sec...hour;"
PLACES = {
    f"◊ {STREAM} {RESULTS} {QUERY}": [
        "@app:name('P')",
        "@app:description('d')",
        "@app:playback(idle.time='1 sec', increment='1 sec')",
        "@app:statistics(enable='true')",
        "@app:statistics('true')",
        "@app:trace('true')",
        "@app:delivery('exactly-once')",
        "@app:host('own')",
        "@app:resources(memory='1 GB')",
        "@app:config(siddhi.persistence.snapshot.time.interval.minutes='5')",
        "@app:transport('kafka')",
        "@app:transportChannelCreationEnabled('false')",
        "@app:enforceOrder('true')",
        "@app:queryLog('true')",
        "@Plan:name('P')",
        "@Plan:statistics('true')",
        "@Plan:trace('true')",
        "@Plan:dist(receiverParallelism='2')",
        "@source(type='inMemory', topic='t')",
        "@source(type='http', @map(type='json', @attributes(k='$.k', v='$.v')))",
        f"@source({KAFKA}, topic.list='t', group.id='g', @map(type='json'))",
        "@source(type='file', file.uri='/tmp/x', @map(type='csv'))",
        "@source(type='inMemory', topic='t', @dist(parallel='2'))",
        "@Import('A:1.0.0')",
        "@OnError(action='STREAM')",
        "@async(buffer.size='64', workers='2', batch.size.max='10')",
        "@config(async='true')",
    ],
    f"{STREAM} ◊ {RESULTS} {QUERY}": [
        "@Export('B:1.0.0')",
        "@sink(type='log')",
        "@sink(type='inMemory', topic='t')",
        f"@sink({HTTP}, @map(type='json', @payload('{{{{k}}}}')))",
        f"@sink({KAFKA}, topic='t', @map(type='json'))",
        "@sink(type='rdbms', url='sqlite:///x', table.name='t')",
        "@sink(type='log', @distribution(strategy='roundRobin', @destination(prefix='a'), @destination(prefix='b')))",
    ],
    f"{STREAM} {RESULTS} ◊ define table T (k string, v int); {QUERY} from S insert into T;": [
        "@PrimaryKey('k')",
        "@Index('k')",
        f"@store({RDBMS})",
        f"@store({RDBMS}, @cache(size='10', cache.policy='FIFO', retention.period='5 min', purge.interval='1 min'))",
        "@From(eventtable='rdbms', jdbc.url='jdbc:postgresql://h/d', username='u', password='p', table.name='t')",
        "@dist(parallel='2')",
        "@purge(enable='true')",
    ],
    f"{STREAM} {RESULTS} ◊ define window W (k string, v int) length(3); {QUERY} from S insert into W;": [
        "@dist(parallel='2')",
        "@index('k')",
    ],
    f"{STREAM} {RESULTS} ◊ define trigger T at every 5 sec; {QUERY}": ["@info(name='x')"],
    f"{STREAM} ◊ {SECONDS}": [
        f"@store({RDBMS})",
        "@purge(enable='true', interval='10 sec', @retentionPeriod(sec='120 sec', min='24 hours'))",
        "@PartitionById(enable='true')",
        "@index('k')",
    ],
    f"{STREAM} {RESULTS} ◊ {QUERY}": [
        "@info(name='q1')",
        "@name('x')",
        "@dist(execGroup='g', parallel='2')",
        "@synchronized('true')",
        "@purge(enable='true')",
    ],
    f"{STREAM} {RESULTS} ◊ partition with (k of S) begin {QUERY} end;": [
        "@info(name='q1')",
        "@dist(parallel='2')",
        "@purge(enable='true', interval='10 sec', idle.period='1 hour')",
    ],
}
WRITTEN = [(place, annotation) for place, annotations in PLACES.items() for annotation in annotations]
STRANGE = ("bogus.option='1'", "'bogus value'", "@bogus(x='1')", "@bogus")


def strange_ones(annotation: str) -> Iterator[str]:
    """Yield the annotation with each unknown part added, at its end and at the end of each nested one."""
    quoted = False
    for place, sign in enumerate(annotation):
        quoted ^= sign == "'"
        if sign == ")" and not quoted:
            yield from (f"{annotation[:place]}, {strange}{annotation[place:]}" for strange in STRANGE)


@pytest.mark.parametrize(("place", "annotation"), WRITTEN, ids=[annotation for _, annotation in WRITTEN])
def test_what_no_one_knows_in_an_annotation_is_told_at_its_place(place: str, annotation: str) -> None:
    for written in strange_ones(annotation):
        text = place.replace("◊", written)
        told = [one.problem.span for one in examine(text).findings if one.problem.span]
        starts = text.index("bogus") - 1
        # The contents of an annotation without effect are not reported separately.
        whole = (text.index("◊") if "◊" in text else place.index("◊")) - 1
        assert any(
            whole <= span.start <= starts + 10 and span.end > starts and span.end <= place.index("◊") + len(written)
            for span in told
        ), written


def test_each_destination_with_a_wrong_option_is_found_at_its_place() -> None:
    text = (
        "@Plan:name('P') @source(type='http', @map(type='json')) define stream A (k string);\n"
        "@sink(type='kafka', bootstrap.servers='b:9092', topic='t', @map(type='json'), @distribution("
        "strategy='roundRobin', @destination(partition.no='one'), @destination(partition.no='one')))\n"
        "define stream B (k string); from A select * insert into B;"
    )
    spans = [one.problem.span for one in examine(text).findings]
    first = text.index("partition.no=")
    assert [one and one.start for one in spans] == [first, text.index("partition.no=", first + 1)]


def pointed_at(distribution: str) -> list[str]:
    """Return the parts of a plan that findings point at when its sink has this distribution."""
    text = (
        "@Plan:name('P') @source(type='http', @map(type='json')) define stream A (k string);\n"
        f"@sink(type='kafka', bootstrap.servers='b:9092', topic='t', @map(type='json'), {distribution})\n"
        "define stream B (k string); from A select * insert into B;"
    )
    spans = [one.problem.span for one in examine(text).findings]
    return [text[one.start : one.end] for one in spans if one]


def test_an_option_of_a_distribution_is_found_in_any_letter_case() -> None:
    found = pointed_at("@distribution(Strategy='partitioned', PartitionKey='x', @destination(partition.no='1'))")
    assert found == ["PartitionKey='x'"]


def test_a_second_distribution_of_a_sink_is_reported_and_the_first_is_judged() -> None:
    first = "@distribution(strategy='broadcast', @destination(partition.no='one'), @destination(partition.no='1'))"
    second = "@distribution(strategy='roundRobin', @destination(partition.no='2'))"
    found = pointed_at(f"{first}, {second}")
    assert sorted(found) == sorted([second, "partition.no='one'"])


def test_a_ref_in_a_destination_that_takes_turns_is_reported() -> None:
    each = "@destination(partition.no='1'), @destination(ref='second')"
    assert pointed_at(f"@distribution(strategy='roundRobin', {each})") == ["ref='second'"]
    assert pointed_at(f"@distribution(strategy='broadcast', {each})") == []
