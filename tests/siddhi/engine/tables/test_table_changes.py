"""Changes of a table whose effect depends on several rows."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from siddhi.analysis.analyser import analyse
from siddhi.analysis.query.on_demand import analyse_on_demand_query
from siddhi.engine.app_runtime import AppRuntime
from siddhi.errors import SiddhiAnalysisError
from siddhi.language.parser import parse, parse_on_demand_query
from siddhi.testing import record_batch

STREAMS = "@app:playback define stream Put (k string, x int, y int); define stream Change (k string, x int, y int);"


def started(table: str, change: str = "") -> AppRuntime:
    runtime = AppRuntime(analyse(parse(f"{STREAMS} {table}; from Put insert into T; {change}")))
    runtime.start(0)
    return runtime


def send(runtime: AppRuntime, stream: str, *rows: tuple[Any, ...]) -> None:
    events = [{"timestamp": 1, "data": list(row)} for row in rows]
    runtime.send(stream, record_batch(runtime.app.streams[stream].schema, events))


def asked(runtime: AppRuntime, question: str, names: tuple[str, ...] = ("k", "x", "y")) -> list[tuple[Any, ...]] | None:
    found: pa.RecordBatch | None = runtime.query(analyse_on_demand_query(parse_on_demand_query(question), runtime.app))
    return None if found is None else [tuple(row[name] for name in names) for row in found.to_pylist()]


@pytest.mark.parametrize("key", ["", "@PrimaryKey('k')"])
def test_names_that_no_select_gives_are_null_in_a_change_from_outside(key: str) -> None:
    runtime = started(f"{key} define table T (k string, x int, y int)")
    send(runtime, "Put", ("a", 1, 2), ("b", 3, 4))
    runtime.query(analyse_on_demand_query(parse_on_demand_query("delete T on k == 'a'"), runtime.app))
    assert asked(runtime, "from T") == [("a", 1, 2), ("b", 3, 4)]
    runtime.query(analyse_on_demand_query(parse_on_demand_query("update T set T.x = y + 1 on T.k == 'b'"), runtime.app))
    assert asked(runtime, "from T") == [("a", 1, 2), ("b", None, 4)]


@pytest.mark.parametrize("key", ["", "@PrimaryKey('k')", "@Index('x')"])
@pytest.mark.parametrize(
    ("condition", "keys"),
    [
        ("sum(x) > 2", "bcd"),
        ("count() > 1 and x == 2", "bd"),
        ("x == 2 and count() > 1", "d"),
        ("x == 1 or count() > 1", "acd"),
    ],
)
def test_an_aggregate_in_on_counts_up_to_each_row(key: str, condition: str, keys: str) -> None:
    runtime = started(f"{key} define table T (k string, x int, y int)")
    send(runtime, "Put", ("a", 1, 0), ("b", 2, 0), ("c", 1, 0), ("d", 2, 0))
    assert asked(runtime, f"from T on {condition} select k", ("k",)) == [(k,) for k in keys]


@pytest.mark.parametrize(
    ("clauses", "rows"),
    [
        ("select k having x > 1", [("b",), ("c",)]),
        ("select k order by y desc, T.x", [("b",), ("a",), ("c",)]),
        ("select k, y as x having x == 6", [("a",), ("c",)]),
        ("select k, sum(x) as s group by y having x == 3", [("c",)]),
    ],
)
def test_having_and_order_by_may_name_what_a_question_does_not_select(
    clauses: str, rows: list[tuple[Any, ...]]
) -> None:
    runtime = started("define table T (k string, x int, y int)")
    send(runtime, "Put", ("a", 1, 6), ("b", 2, 7), ("c", 3, 6))
    assert asked(runtime, f"from T {clauses}", ("k",)) == rows


def test_a_row_of_a_table_is_not_null() -> None:
    runtime = started("define table T (k string, x int, y int)")
    send(runtime, "Put", ("a", 1, 2))
    assert asked(runtime, "from T on not (T is null) select T is null as k", ("k",)) == [(False,)]


def test_an_upsert_from_outside_needs_something_to_insert() -> None:
    runtime = started("define table T (k string, x int, y int)")
    with pytest.raises(SiddhiAnalysisError, match="`select` is missing"):
        analyse_on_demand_query(parse_on_demand_query("update or insert into T on T.k == 'a'"), runtime.app)


@pytest.mark.parametrize(
    ("assignments", "row"),
    [
        ("set T.y = T.x, T.x = T.y", ("a", 2, 2)),
        ("set T.x = T.y, T.y = T.x", ("a", 2, 2)),
        ("set T.x = T.x + 1, T.x = T.x + 10", ("a", 11, 2)),
    ],
)
def test_attributes_are_set_in_the_order_of_the_table_and_each_once(assignments: str, row: tuple[Any, ...]) -> None:
    change = f"from Change update T {assignments} on T.k == k;"
    runtime = started("define table T (k string, x int, y int)", change)
    send(runtime, "Put", ("a", 1, 2))
    send(runtime, "Change", ("a", 0, 0))
    assert asked(runtime, "from T") == [row]


def test_a_change_that_gives_a_key_in_use_changes_no_row() -> None:
    change = "from Change update T set T.k = k, T.y = y on T.x == x;"
    runtime = started("@PrimaryKey('k') define table T (k string, x int, y int)", change)
    send(runtime, "Put", ("a", 1, 2), ("b", 1, 2), ("c", 2, 2))
    send(runtime, "Change", ("z", 1, 9))  # one key for two rows
    send(runtime, "Change", ("b", 1, 8))  # that of one of them
    send(runtime, "Change", ("a", 2, 7))  # that of another row
    assert asked(runtime, "from T") == [("a", 1, 2), ("b", 1, 2), ("c", 2, 2)]
    send(runtime, "Change", ("d", 2, 6))
    assert asked(runtime, "from T") == [("a", 1, 2), ("b", 1, 2), ("d", 2, 6)]


@pytest.mark.parametrize(
    "condition", ["set T.x = x on T.k == 'a'", "on 'nothing' == T.k", "on T.k == str:concat(k, 'x')"]
)
def test_an_upsert_by_the_primary_key_replaces_the_row_with_the_key_of_the_event(condition: str) -> None:
    change = f"from Change update or insert into T {condition};"
    runtime = started("@PrimaryKey('k') define table T (k string, x int, y int)", change)
    send(runtime, "Put", ("a", 1, 2), ("b", 3, 4))
    send(runtime, "Change", ("b", 5, 6), ("c", 7, 8))
    assert asked(runtime, "from T") == [("a", 1, 2), ("b", 5, 6), ("c", 7, 8)]


@pytest.mark.parametrize(
    ("key", "condition", "found"),
    [
        ("@PrimaryKey('k')", "T.k == c.k", [1, 2]),
        ("@PrimaryKey('k', 'x')", "T.k == c.k and c.x == T.x", [1, 2]),
        ("@PrimaryKey('k')", "T.k == c.k and T.y > 0", [2]),
        ("@Index('k')", "T.k == c.k", [2]),
        ("", "T.k == c.k", [2]),
    ],
)
def test_null_meets_null_in_a_join_by_the_primary_key_alone(key: str, condition: str, found: list[int]) -> None:
    join = f"from Change as c join T on {condition} select T.y as y insert into O;"
    runtime = started(f"{key} define table T (k string, x int, y int)", join)
    met: list[int] = []
    runtime.add_stream_callback("O", lambda records: met.extend(records.column("y").to_pylist()))
    send(runtime, "Put", (None, 1, 1), ("a", 2, 2))
    send(runtime, "Change", (None, 1, 0), ("a", 2, 0))
    assert met == found


@pytest.mark.parametrize(
    ("key", "order"),
    [("", [5, -1, 9, 3]), ("@PrimaryKey('x')", [-1, 3, 5, 9]), ("@PrimaryKey('x', 'y')", [5, -1, 9, 3])],
)
def test_rows_keyed_by_one_number_are_met_in_its_order(key: str, order: list[int]) -> None:
    told: list[int] = []
    for condition in ("", "on T.y == Change.y", "on T.y >= Change.y"):
        runtime = started(
            f"{key} define table T (k string, x int, y int)",
            f"from Change join T {condition} select T.x as x insert into Out;",
        )
        runtime.add_stream_callback("Out", lambda batch: told.extend(batch["x"].to_pylist()))
        send(runtime, "Put", *(("a", x, 1) for x in (5, -1, 9, 3)))
        told.clear()
        send(runtime, "Change", ("b", 0, 1), ("b", 0, 1))
        assert told == 2 * order, condition
        assert [x for _, x, _ in asked(runtime, "from T") or []] == order
        assert [x for _, x, _ in asked(runtime, "from T on y == 1 select * limit 2") or []] == order[:2]
        runtime.query(analyse_on_demand_query(parse_on_demand_query("update T set T.x = 4 on T.x == 9"), runtime.app))
        changed = [4 if x == 9 else x for x in order]
        assert [x for _, x, _ in asked(runtime, "from T") or []] == (
            sorted(changed) if key == "@PrimaryKey('x')" else changed
        )
        restored = AppRuntime(runtime.app)
        restored.restore(runtime.snapshot())
        assert asked(restored, "from T") == asked(runtime, "from T")


@pytest.mark.parametrize(
    ("key", "rows"),
    [
        ("@From(eventtable='analytics.table', primary.keys='k, x')", [("a", 1, 4), ("b", 1, 6), ("a", 2, 5)]),
        ("@IndexBy('k')", [("a", 2, 5), ("b", 1, 6)]),
        ("@From(eventtable='rdbms') @IndexBy('k')", [("a", 1, 2), ("b", 1, 3), ("a", 1, 4), ("a", 2, 5), ("b", 1, 6)]),
    ],
)
def test_an_insert_into_a_table_of_an_execution_plan_replaces_the_row_with_its_key(
    key: str, rows: list[tuple[Any, ...]]
) -> None:
    table = f"{key} define table T (k string, x int, y int); define stream Put (k string, x int, y int);"
    runtime = AppRuntime(analyse(parse(f"@Plan:playback {table} from Put insert into T;")))
    runtime.start(0)
    send(runtime, "Put", ("a", 1, 2), ("b", 1, 3), ("a", 1, 4))
    send(runtime, "Put", ("a", 2, 5), ("b", 1, 6))
    assert asked(runtime, "from T") == rows
