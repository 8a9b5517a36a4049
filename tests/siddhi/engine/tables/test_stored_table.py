"""Tables of a store: they report changes by queries, and take over the store's rows."""

from __future__ import annotations

import time
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from random_examples import examples

from siddhi.analysis.analyser import analyse
from siddhi.engine.app_runtime import AppRuntime
from siddhi.engine.operators.tables.stored_table import RowChange, StoredTable
from siddhi.language.parser import parse

APP = """
define stream Put (k string, v double);
define stream Add (k string, v double);
define stream Drop (k string, v double);
{key}
define table T (k string, v double);
from Put update or insert into T set T.v = v on T.k == k;
from Add insert into T;
from Drop delete T on T.k == k;
"""
KEYED, PLAIN = "@PrimaryKey('k')", ""
Rows = list[dict[str, Any]]


def app(key: str = KEYED) -> tuple[AppRuntime, StoredTable]:
    runtime = AppRuntime(analyse(parse(APP.format(key=key))), stored=["T"])
    runtime.start()
    return runtime, runtime.stored_tables["T"]


def send(runtime: AppRuntime, stream: str, *rows: tuple[str | None, float | None]) -> None:
    columns = {"k": pa.array([k for k, _ in rows], pa.utf8()), "v": pa.array([v for _, v in rows], pa.float64())}
    runtime.send(stream, pa.record_batch(columns), 1_000)


def told(table: StoredTable) -> list[tuple[Rows, Rows]]:
    return [tuple([] if part is None else part.to_pylist() for part in one) for one in table.take_changes()]  # type: ignore[misc]


def held(table: StoredTable) -> Rows:
    names = list(table.types)
    columns = table.columns(table.places())
    return [dict(zip(names, row, strict=True)) for row in zip(*(columns[n].to_list() for n in names), strict=True)]


def rows(*pairs: tuple[str | None, float | None]) -> Rows:
    return [{"k": k, "v": v} for k, v in pairs]


def batch(table: StoredTable, *pairs: tuple[str | None, float | None]) -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist(rows(*pairs), table.arrow_schema)


def test_each_change_is_told_once_with_the_rows_as_they_were_and_as_they_are() -> None:
    runtime, table = app()
    send(runtime, "Put", ("a", 1.0), ("b", None))
    send(runtime, "Put", ("a", 2.0))
    send(runtime, "Drop", ("b", 0.0))
    assert told(table) == [
        ([], rows(("a", 1.0), ("b", None))),
        (rows(("a", 1.0)), rows(("a", 2.0))),
        (rows(("b", None)), []),
    ]
    assert told(table) == []


def test_what_changes_no_row_is_not_told() -> None:
    runtime, table = app()
    send(runtime, "Add", ("a", 1.0))
    told(table)
    send(runtime, "Put", ("a", 1.0))
    send(runtime, "Add", ("a", 7.0))  # refused: the key is in use
    send(runtime, "Drop", ("c", 0.0))
    assert told(table) == []


@pytest.mark.parametrize("key", [KEYED, PLAIN])
def test_the_rows_of_the_store_take_the_place_of_all_others_and_are_found(key: str) -> None:
    runtime, table = app(key)
    send(runtime, "Add", ("a", 1.0), ("b", 2.0))
    told(table)
    table.take_over(batch(table, ("b", 5.0), ("c", None), ("d", 4.0)))
    assert held(table) == rows(("b", 5.0), ("c", None), ("d", 4.0))
    send(runtime, "Put", ("c", 3.0), ("a", 9.0))
    send(runtime, "Drop", ("d", 0.0))
    assert held(table) == rows(("b", 5.0), ("c", 3.0), ("a", 9.0))
    assert len(told(table)) == 3
    table.take_over(batch(table))
    assert (held(table), told(table)) == ([], [])


def test_of_several_rows_with_one_key_the_first_is_taken_over() -> None:
    _, table = app()
    table.take_over(batch(table, ("a", 1.0), ("a", 2.0), ("b", 3.0)))
    assert held(table) == rows(("a", 1.0), ("b", 3.0))


def test_a_change_is_repeated_on_rows_that_others_have_changed() -> None:
    _, table = app()
    table.take_over(batch(table, ("a", 1.0), ("b", 2.0)))
    table.repeat(
        [
            RowChange(batch(table, ("a", 0.5)), batch(table, ("a", 7.0))),
            RowChange(None, batch(table, ("b", 8.0), ("c", 9.0))),
            RowChange(batch(table, ("x", 1.0)), None),
        ]
    )
    assert sorted(held(table), key=str) == rows(("a", 7.0), ("b", 8.0), ("c", 9.0))
    assert told(table) == []


def test_without_a_key_as_many_equal_rows_go_as_were_told() -> None:
    _, table = app(PLAIN)
    table.take_over(batch(table, ("a", 1.0), ("a", 1.0), ("a", 2.0), (None, None), ("a", 1.0)))
    removed = batch(table, ("a", 1.0), ("a", 1.0), (None, None), ("z", 3.0))
    table.repeat([RowChange(removed, batch(table, ("q", 5.0)))])
    assert held(table) == rows(("a", 2.0), ("a", 1.0), ("q", 5.0))


def test_a_hundred_changes_are_repeated_in_a_big_table_about_as_fast_as_two() -> None:
    _, table = app(PLAIN)
    table.take_over(batch(table, *((f"k{number}", 1.0) for number in range(200_000))))
    changes = [RowChange(batch(table, (f"k{n}", 1.0)), batch(table, (f"k{n}", 2.0))) for n in range(104)]
    took = []
    for part in (changes[:2], changes[2:4], changes[4:]):
        began = time.perf_counter()
        table.repeat(part)
        took.append(time.perf_counter() - began)
    assert took[2] < 10 * took[1]
    assert len(table) == 200_000


STEPS = st.lists(
    st.tuples(
        st.sampled_from(["Put", "Add", "Drop"]),
        st.lists(st.tuples(st.sampled_from("abcd"), st.sampled_from([None, 1.0, 2.0])), min_size=1, max_size=4),
    ),
    max_size=8,
)


@settings(max_examples=examples(60), deadline=None)
@given(st.sampled_from([KEYED, PLAIN]), STEPS, st.integers(0, 8))
def test_changes_repeated_on_earlier_rows_give_the_rows_of_now(key: str, steps: list[Any], after: int) -> None:
    runtime, table = app(key)
    for stream, pairs in steps[:after]:
        send(runtime, stream, *pairs)
    table.take_changes()
    names = list(table.types)
    earlier = pa.record_batch([table.columns(table.places())[n].to_arrow() for n in names], schema=table.arrow_schema)
    for stream, pairs in steps[after:]:
        send(runtime, stream, *pairs)
    changes, now = table.take_changes(), held(table)
    table.take_over(earlier)
    table.repeat(changes)
    assert sorted(held(table), key=str) == sorted(now, key=str)
