"""Rows within bounds that events set are the ones found by testing every pair."""
# ruff: noqa: S608 - SiddhiQL, no SQL

from __future__ import annotations

import itertools
import random
import re
from typing import Any

import pyarrow as pa
import pytest

from siddhi.analysis.analyser import analyse
from siddhi.engine.app_runtime import AppRuntime
from siddhi.engine.operators.tables import ranges
from siddhi.language.parser import parse

_ROWS, _EVENTS = 90, 60
_CONDITIONS = (
    "T.d < S.d", "S.d >= T.d and T.d > S.d - 2.0", "T.f < S.d and T.f >= S.l", "T.l > S.d",
    "T.l <= S.l and T.l > S.l - 3L",
    "T.f > 0.3", "T.d > S.d and T.d < S.d", "T.l < S.l and T.d < S.d and T.k == S.k", "S.l + 1L > T.l and T.k != S.k",
    "T.d < S.d or T.l < S.l", "T.l < S.f and not (T.d < 1.0)", "T.d < T.f and T.l > S.l",
)  # fmt: skip


def _columns(count: int, seed: int) -> dict[str, pa.Array]:
    draw = random.Random(seed)  # noqa: S311

    def values(among: tuple[Any, ...], type_: pa.DataType) -> pa.Array:
        return pa.array([draw.choice(among) for _ in range(count)], type_)

    numbers = (0.0, -0.0, 0.3, 1.5, 2.0, 3.25, -4.0, float("nan"), float("inf"), None)
    return {
        "k": values(("a", "b", None), pa.utf8()),
        "d": values((*numbers, 0.1), pa.float64()),
        "f": values(numbers, pa.float32()),
        "l": values((0, 1, 2, 3, -5, 2**53 + 1, 2**53, None), pa.int64()),
    }


def _play(query: str) -> list[list[tuple[str, ...]]]:
    attributes = "(k string, d double, f float, l long)"
    app = (
        f"@app:playback define stream S {attributes}; define stream Put {attributes}; define table T {attributes}; "
        f"define stream Look (a int); from Put select k, d, f, l insert into T; {query} "
        "from Look join T select T.k as k, T.d as d, T.l as l insert into Left;"
    )
    runtime = AppRuntime(analyse(parse(app)))
    found: dict[str, list[tuple[str, ...]]] = {name: [] for name in re.findall("into (\\w+)", query)} | {"Left": []}
    for stream, rows in found.items():
        runtime.add_stream_callback(
            stream, lambda batch, rows=rows: rows.extend(tuple(map(str, row.values())) for row in batch.to_pylist())
        )  # type: ignore[misc]
    runtime.start(0)
    for time, stream, columns in (
        (1, "Put", _columns(_ROWS, 1)),
        (2, "S", _columns(_EVENTS, 2)),
        (3, "Look", {"a": pa.array([1], pa.int32())}),
    ):
        size = len(next(iter(columns.values())))
        runtime.send(stream, pa.record_batch({"_timestamp": pa.array([time] * size, pa.int64()), **columns}))
    return list(found.values())


@pytest.mark.parametrize("condition", _CONDITIONS)
def test_pairs_within_bounds_are_those_of_all_pairs(condition: str, monkeypatch: pytest.MonkeyPatch) -> None:
    of_event = condition.replace("S.", "")
    queries = (
        (
            f"from S join T on {condition} select S.l as s, T.k as k, T.d as d, T.l as l insert into Inner;"
            f"from S left outer join T on {condition} select S.l as s, T.k as k, T.d as d insert into Outer;"
            f"from S[({of_event}) in T] select d, l insert into Within;"
        ),
        f"from S select k, d, f, l update T set T.l = l on {of_event};",
    )
    monkeypatch.setattr(ranges, "MIN_INDEXED_PAIRS", 1)
    answers = [_play(query) for query in queries]
    monkeypatch.setattr(ranges, "MAX_PAIRS_AT_ONCE", 7)
    assert [_play(query) for query in queries[:1]] == answers[:1]
    monkeypatch.setattr(ranges, "MIN_RANGE_PROBES", _EVENTS + 1)
    assert [_play(query) for query in queries] == answers


def test_few_pairs_are_compared_where_events_set_bounds(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = []
    blocks = ranges.RowRanges._blocks
    monkeypatch.setattr(
        ranges.RowRanges, "_blocks", staticmethod(lambda *given: (seen.append(one) or one for one in blocks(*given)))
    )
    monkeypatch.setattr(ranges, "MIN_INDEXED_PAIRS", 1)
    _play("from S join T on T.l > S.l and T.l <= S.l + 1L select S.l as s, T.k as k insert into Out;")
    pairs = sum(len(one.probes) for one in itertools.chain(seen))
    assert 0 < pairs < _ROWS * _EVENTS // 4
