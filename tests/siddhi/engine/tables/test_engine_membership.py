"""`condition in table` wherever a condition is allowed."""

from __future__ import annotations

from typing import Any

import pytest

from siddhi.analysis.analyser import analyse
from siddhi.engine.app_runtime import AppRuntime
from siddhi.language.parser import parse
from siddhi.testing import record_batch

DEFINITIONS = """
define stream Known (k string); define stream S (k string, v int); define stream Ask (k string);
define table Vip (k string); define table Rows (k string, v int);
define table Plain (k string);
@PrimaryKey('k') define table Keyed (k string); @Index('k') define table Indexed (k string);
from Known select k insert into Vip;
"""


def outputs(queries: str) -> list[Any]:
    """Return the output of `O` when a and c are inserted, then S gets rows, then Ask inserts b."""
    app = analyse(parse(DEFINITIONS + queries))
    runtime = AppRuntime(app)
    rows: list[Any] = []
    runtime.add_stream_callback("O", lambda batch: rows.extend(zip(*batch.to_pydict().values(), strict=True)))
    runtime.start(0)
    for stream, data in (
        ("Known", [["a"], ["c"]]),
        ("S", [["a", 1], ["b", 2], ["a", 3], ["c", 4]]),
        ("Ask", [["b"]]),
    ):
        events = [{"timestamp": 1, "data": row} for row in data]
        runtime.send(stream, record_batch(app.streams[stream].schema, events), 1)
    return [row[2:] for row in rows]


@pytest.mark.parametrize(
    ("queries", "expected"),
    [
        ("from S[(Vip.k == k) in Vip] select k, v insert into O;", [("a", 1), ("a", 3), ("c", 4)]),
        ("from S select v, (Vip.k == k) in Vip as vip insert into O;", [(1, True), (2, False), (3, True), (4, True)]),
        ("from S select k, v having not ((Vip.k == k) in Vip) insert into O;", [("b", 2)]),
        (
            (
                "partition with ((Vip.k == k) in Vip as 'vip' or v < 3 as 'small' of S) begin "
                "from S select k, count() as c insert into O; end;"
            ),
            [("a", 1), ("a", 1), ("b", 2), ("a", 2), ("c", 3)],
        ),
        (
            "partition with (k of S) begin from S[count() > 1 and (Vip.k == k) in Vip] select k, v insert into O; end;",
            [("a", 3)],
        ),
        (
            (
                "from S select k, v insert into Rows; from Ask delete Rows on not ((Vip.k == Rows.k) in Vip);"
                "from Ask join Rows select Rows.k as k, Rows.v as v insert into O;"
            ),
            [("a", 1), ("a", 3), ("c", 4)],
        ),
        (
            (
                "from S select k, v insert into Rows;"
                "from Ask select k update Rows set Rows.v = 0 on (Vip.k == Rows.k) in Vip;"
                "from Ask join Rows select Rows.k as k, Rows.v as v insert into O;"
            ),
            [("a", 0), ("b", 2), ("a", 0), ("c", 0)],
        ),
    ],
)
def test_a_table_is_looked_into_wherever_a_condition_stands(queries: str, expected: list[Any]) -> None:
    assert outputs(queries) == expected


@pytest.mark.parametrize(("table", "found"), [("Plain", []), ("Keyed", [(2,)]), ("Indexed", [(2,)])])
def test_of_a_table_with_a_key_or_an_index_no_row_is_wanted_where_the_condition_asks_for_none(
    table: str, found: list[Any]
) -> None:
    assert outputs(f"from S[k == 'b' and (v > 1) in {table}] select v insert into O;") == found
