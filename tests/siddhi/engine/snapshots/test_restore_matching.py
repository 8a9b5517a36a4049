"""An edited app continues with the state of its unchanged parts, and reports which these are."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from siddhi.analysis.analyser import analyse
from siddhi.engine.app_runtime import AppRuntime
from siddhi.engine.snapshots.matching import LossReason, RestoreReport
from siddhi.language.parser import parse

HEAD = "@app:playback define stream S (k string, v int);"
TOTAL = "@info(name='total') from S#window.length(3) select k, sum(v) as v group by k insert into Totals;"
TABLE = "define table T (k string, v int);"
FILL = "@info(name='fill') from S insert into T;"
LOOK = "@info(name='look') from S join T on S.k == T.k select T.k as k, T.v as v insert into Found;"


def app(*texts: str) -> AppRuntime:
    return AppRuntime(analyse(parse(" ".join(texts))))


def started(*texts: str) -> AppRuntime:
    runtime = app(*texts)
    runtime.start(0)
    return runtime


def send(runtime: AppRuntime, time_ms: int, k: str | None, v: int) -> None:
    columns = {"_timestamp": pa.array([time_ms], pa.int64()), "k": pa.array([k]), "v": pa.array([v], pa.int32())}
    runtime.send("S", pa.record_batch(columns))


def rows_of(runtime: AppRuntime, stream: str, *names: str) -> list[tuple[Any, ...]]:
    rows: list[tuple[Any, ...]] = []
    runtime.add_stream_callback(
        stream, lambda batch: rows.extend(tuple(row[name] for name in names) for row in batch.to_pylist())
    )
    return rows


def edited(old: AppRuntime, *texts: str) -> tuple[AppRuntime, RestoreReport]:
    runtime = app(*texts)
    return runtime, runtime.restore_matching(old.snapshot())


def left(report: RestoreReport) -> dict[str, LossReason]:
    return {str(part.part): part.reason for part in report.left}


def test_the_same_app_takes_everything_whatever_its_layout_and_annotations() -> None:
    old = started(HEAD, TABLE, TOTAL, FILL)
    send(old, 1, "a", 1)
    new, report = edited(
        old, HEAD, "\n\n@sink(type='log')", TABLE, TOTAL.replace("@info", "@dist(parallel='2') @info"), FILL
    )
    assert report.complete
    assert {str(part) for part in report.taken} == {"table T", "query total", "query fill"}
    rows = rows_of(new, "Totals", "k", "v")
    send(new, 2, "a", 2)
    assert rows == [("a", 3)]


def test_an_edited_query_begins_anew_and_the_others_go_on_with_their_strings() -> None:
    other = "@info(name='other') from S#window.length({}) select k, v insert expired events into Old;"
    old = started(HEAD, TABLE, other.format(1), TOTAL, FILL)
    for time, key in enumerate(["gone", "b", "a", "b"], start=1):
        send(old, time, key, time)
    new, report = edited(old, HEAD, TABLE, "@info(name='new') from S select k insert into N;", TOTAL, other.format(2))
    assert left(report) == {"query other": LossReason.CHANGED}, "a query that holds nothing has nothing to lose"
    assert [str(part) for part in report.begun] == ["query new", "query other"]
    totals, gone = rows_of(new, "Totals", "k", "v"), rows_of(new, "Old", "k")
    for time, key in enumerate(["b", "c", "c"], start=5):
        send(new, time, key, time)
    assert totals == [("b", 4 + 5), ("c", 6), ("c", 6 + 7)]
    assert gone == [("b",)]


def test_a_table_keeps_its_rows_while_its_attributes_and_keys_are_the_same() -> None:
    old = started(HEAD, TABLE, FILL)
    send(old, 1, "a", 1)
    kept, report = edited(old, HEAD, TABLE, FILL, LOOK)
    assert left(report) == {}
    rows = rows_of(kept, "Found", "k", "v")
    send(kept, 2, "a", 2)
    assert ("a", 1) in rows
    for table in ("define table T (k string, v int, w int);", "@primaryKey('k') define table T (k string, v int);"):
        _, report = edited(old, HEAD, table)
        assert left(report)["table T"] is LossReason.CHANGED


@pytest.mark.parametrize(
    "after", ["from S select convert(v, 'long') as v insert into M;", "from S select v, k insert into M;"]
)
def test_a_query_begins_anew_when_what_it_reads_is_defined_otherwise(after: str) -> None:
    query = "@info(name='q') from M#window.length(5) select {} as c insert into O;"
    old = started(HEAD, "from S select v insert into M;", query.format("sum(v)"))
    _, report = edited(old, HEAD, after, query.format("sum(v)"))
    changed = "convert" in after
    assert left(report).get("query q") is (LossReason.NOT_HELD if changed else None)
    old = started(HEAD, "from S select v insert into M;", query.format("count()"))
    _, report = edited(old, HEAD, after, query.format("count()"))
    assert "query q" not in left(report), "it reads nothing of that"


def test_a_query_follows_the_scripts_windows_and_clock_that_it_depends_on() -> None:
    window = "define window W (k string, v int) length({}); @info(name='in') from S insert into W;"
    join = "@info(name='q') from S join W on S.k == W.k select W.v as v insert into O;"
    old = started(HEAD, window.format(2), join)
    _, report = edited(old, HEAD, window.format(3), join)
    changed = {"window W": LossReason.CHANGED, "query q": LossReason.DEPENDENCIES_CHANGED}
    assert left(report) == changed
    _, report = edited(old, HEAD.replace("@app:playback", ""), window.format(2), join)
    assert set(left(report).values()) == {LossReason.DEPENDENCIES_CHANGED}


PARTITION = "@info(name='p') {purge} partition with ({keys}) begin {queries} end;"
COUNT = "@info(name='count') from S#window.length(2) select k, sum(v) as v insert into Sums;"
AFTER = "@info(name='after') from e1=S[v > 0] -> e2=S[v < 0] select e1.k as k, e1.v as v insert into Falls;"


def partitioned(*queries: str, keys: str = "k of S", purge: str = "") -> str:
    return HEAD + PARTITION.format(keys=keys, queries=" ".join(queries), purge=purge)


def test_queries_of_a_partition_are_taken_one_by_one_and_new_ones_know_its_instances() -> None:
    old = started(partitioned(COUNT))
    send(old, 1, "a", 1)
    send(old, 2, "b", 2)
    new, report = edited(old, partitioned(AFTER, COUNT))
    assert left(report) == {}
    sums, falls = rows_of(new, "Sums", "k", "v"), rows_of(new, "Falls", "k", "v")
    for time, (key, value) in enumerate([("b", 5), ("a", 4), ("c", 7), ("b", -1), ("a", -2), ("c", -3)], start=3):
        send(new, time, key, value)
    assert sums == [("b", 7), ("a", 5), ("c", 7), ("b", 4), ("a", 2), ("c", 4)]
    assert falls == [("b", 5), ("a", 4), ("c", 7)]


def test_a_partition_by_another_key_begins_anew_with_all_its_queries() -> None:
    old = started(partitioned(COUNT, AFTER))
    send(old, 1, "a", 1)
    new, report = edited(old, partitioned(COUNT, AFTER, keys="v of S"))
    assert left(report) == {
        "partition p": LossReason.CHANGED,
        "query count": LossReason.PARTITION_LEFT,
        "query after": LossReason.PARTITION_LEFT,
    }
    sums = rows_of(new, "Sums", "k", "v")
    send(new, 2, "a", 1)
    assert sums == [("a", 1)]


def test_a_partition_that_is_told_to_purge_counts_its_instances_as_seen_now() -> None:
    old = started(partitioned(COUNT))
    send(old, 1_000, "a", 1)
    new, report = edited(old, partitioned(COUNT, purge="@purge(enable='true', interval='1 sec', idle.period='5 sec')"))
    assert report.complete
    (held,) = [part for part in new.statistics().state if part.kind == "partition"]
    assert held.size.instances == 1
    new.advance_time(5_500)
    assert [part.size.instances for part in new.statistics().state if part.kind == "partition"] == [1]
    new.advance_time(7_500)
    assert [part.size.instances for part in new.statistics().state if part.kind == "partition"] == [0]


def test_timers_go_on_and_new_ones_count_from_the_clock_of_the_snapshot() -> None:
    trigger = "define trigger {} at every 10 sec;"
    query = "@info(name='{0}') from {0} select {1} as n insert into O;"
    old = started(trigger.format("Old"), query.format("Old", 1))
    old.advance_time(25_000)
    new, report = edited(
        old, trigger.format("New"), trigger.format("Old"), query.format("New", 2), query.format("Old", 1)
    )
    assert [str(part) for part in report.begun] == ["query New", "trigger New"]
    rows = rows_of(new, "O", "_timestamp", "n")
    new.advance_time(40_000)
    assert sorted(rows) == [(30_000, 1), (35_000, 2), (40_000, 1)]


def test_an_aggregation_keeps_its_buckets_while_its_text_is_the_same() -> None:
    text = "define aggregation A from S select k, sum(v) as v group by k aggregate every sec...{};"
    old = started(HEAD, text.format("hour"))
    send(old, 1_000, "a", 1)
    _, report = edited(old, HEAD, text.format("hour"), TOTAL)
    assert [str(part) for part in report.taken] == ["aggregation A"]
    _, report = edited(old, HEAD, text.format("day"), TOTAL)
    assert left(report) == {"aggregation A": LossReason.CHANGED}


def test_a_report_says_in_words_what_was_left() -> None:
    old = started(HEAD, TOTAL)
    _, report = edited(old, HEAD)
    assert [str(part) for part in report.left] == ["query total: the app has nothing with that name"]
