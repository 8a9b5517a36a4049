"""Joins with an aggregate in the condition, which adds every tested pair."""

from __future__ import annotations

from typing import Any

import pytest

from siddhi.engine.app_runtime import AppRuntime
from siddhi.testing import Case, restored, run_case

DEFINITIONS = """@app:playback
define stream A (k string, v int);
define stream B (k string, v int);
define table T (k string, v int);
@PrimaryKey('k') define table K (k string, v int);
"""
EVENTS = [("A", 1, 1), ("B", 2, 2), ("A", 3, 3), ("B", 4, 4), ("A", 5, 5), ("B", 6, 6)]


def same(runtime: AppRuntime) -> AppRuntime:
    return runtime


@pytest.mark.parametrize("between", [same, restored])
@pytest.mark.parametrize("batch_rows", [None, 1])
@pytest.mark.parametrize(
    ("query", "rows"),
    [
        (  # each side has its own condition, so each starts its own count
            "from A#window.length(9) join B#window.length(9) on count() > 1 select A.v as a, B.v as b insert into O;",
            [[4, [1, 4]], [4, [3, 4]], [5, [5, 2]], [5, [5, 4]], [6, [1, 6]], [6, [3, 6]], [6, [5, 6]]],
        ),
        (  # expired events are tested as well, and add
            "from A#window.length(1) join B#window.length(9) on sum(A.v) > 4 select A.v as a, B.v as b insert into O;",
            [[5, [5, 2]], [5, [5, 4]], [6, [5, 6]]],
        ),
        (
            "from A join B#window.length(9) on count() > 1 select A.v as a, B.v as b insert into O;",
            [[5, [5, 2]], [5, [5, 4]]],
        ),
        (  # an event without window is tested on arrival and on expiry
            "from A join B#window.length(9) on count() > 1 select A.v as a, B.v as b insert all events into O;",
            [[3, [3, 2]], [5, [5, 2]], [5, [5, 4]], [5, [5, 2]], [5, [5, 4]]],
        ),
        (  # pairs for which the preceding condition is false are not tested
            "from A#window.length(5) as c join A as d on c.v == d.v and count() > 1 select c.v insert into O",
            [[3, [3]], [5, [5]]],
        ),
        (
            "from B insert into T; from A join T on T.v > 2 and count() > 1 select A.v as a, T.v as b insert into O;",
            [],
        ),
        (
            "from B insert into T; from A left outer join T on T.v > 0 and count() > 2 select A.v, T.k insert into O",
            [[1, [1, None]], [3, [3, None]], [5, [5, "d"]]],
        ),
        (  # a condition without rows of a table with a key is tested once for each event
            "from B insert into K; from A join K on K.k == 'b' and count() > 1 select A.v, K.v as b insert into O;",
            [[3, [3, 2]], [5, [5, 2]]],
        ),
    ],
)
def test_an_aggregate_adds_every_pair_that_is_asked_about(
    query: str, rows: list[Any], batch_rows: int | None, between: Any
) -> None:
    keys = "abcdef"
    document = {
        "listen": {"streams": ["O"]},
        "events": [{"stream": stream, "timestamp": at, "data": [keys[at - 1], value]} for stream, at, value in EVENTS],
        "expect": {"streams": {"O": rows}},
    }
    assert run_case(Case("join", "join", DEFINITIONS + query, document), batch_rows, between).differences == ()


def test_each_instance_of_a_partition_counts_for_itself() -> None:
    query = """
        partition with (k of A, k of B) begin
        from A#window.length(9) join B on count() > 1 select A.k as k, B.v as b insert into O;
        end;
    """
    sent = [("A", 1, "x"), ("A", 2, "y"), ("B", 3, "x"), ("B", 4, "y"), ("B", 5, "x"), ("B", 6, "y")]
    document = {
        "listen": {"streams": ["O"]},
        "events": [{"stream": stream, "timestamp": at, "data": [key, at]} for stream, at, key in sent],
        "expect": {"streams": {"O": [[5, ["x", 5]], [6, ["y", 6]]]}},
    }
    assert run_case(Case("join", "join", DEFINITIONS + query, document), 1, restored).differences == ()
