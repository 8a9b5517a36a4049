"""Windows with due timers while no event passes the preceding stream functions."""

from __future__ import annotations

import pytest

from siddhi.testing import Case, run_case

DEFINITIONS = "@app:playback define stream S (theta double, rho double, t long); define stream R (v int);"


def differences(query: str, rows: list[list[object]]) -> tuple[str, ...]:
    """Return the differences between `rows` and the output of `query`, given an event at 1000 that becomes x = 2.0."""
    document = {
        "listen": {"streams": ["O"]},
        "events": [
            {"stream": "R", "timestamp": 999, "data": [7]},
            {"stream": "S", "timestamp": 1000, "data": [0.0, 2.0, 1000]},
            {"advance_time": 60_000},
        ],
        "expect": {"streams": {"O": rows}},
    }
    return run_case(Case("added", "added", f"{DEFINITIONS} {query}", document)).differences


@pytest.mark.parametrize(
    ("window", "time"),
    [
        ("time(1 sec)", 2000),
        ("timeLength(1 sec, 5)", 2000),
        ("timeBatch(1 sec)", 3000),
        ("session(1 sec)", 1000),
        ("unique:time(t, 1 sec)", 2000),
    ],
)
@pytest.mark.parametrize("start", ["", "[rho > 1.0]"])
@pytest.mark.parametrize("partitioned", [False, True])
def test_a_row_expires_with_what_a_stream_function_added(
    window: str, time: int, start: str, *, partitioned: bool
) -> None:
    query = f"from S{start}#pol2Cart(theta, rho)#window.{window} select x insert expired events into O;"
    query = f"partition with (t of S) begin {query} end;" if partitioned else query
    assert differences(query, [[time, [2.0]]]) == ()


def test_a_batch_ends_with_what_a_stream_function_added() -> None:
    query = "from S#pol2Cart(theta, rho)#window.externalTimeBatch(t, 1 sec, 0, 1 sec) select sum(x) as s insert into O;"
    assert differences(query, [[1000, [2.0]]]) == ()


def test_a_delayed_row_has_what_a_stream_function_added() -> None:
    assert differences("from S#pol2Cart(theta, rho)#window.delay(1 sec) select x insert into O;", [[2000, [2.0]]]) == ()


def test_a_row_leaves_a_join_with_what_a_stream_function_added() -> None:
    query = (
        "from S#pol2Cart(theta, rho)#window.time(1 sec) join R#window.length(1) "
        "select x, v insert expired events into O;"
    )
    assert differences(query, [[2000, [2.0, 7]]]) == ()
