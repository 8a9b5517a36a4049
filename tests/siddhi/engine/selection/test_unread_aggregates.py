"""Aggregates that are called by row compute no results for rows that are not emitted, without changing others."""

from __future__ import annotations

import itertools
import random
from collections import Counter
from typing import Any

import pyarrow as pa
import pytest

from siddhi.analysis.analyser import analyse
from siddhi.engine.app_runtime import AppRuntime
from siddhi.engine.operators.selection.selector import Selector
from siddhi.extensions.str.group_concat import GroupConcat
from siddhi.language.parser import parse

_AGGREGATES = (
    "str:groupConcat(k)", "str:groupConcat(k, '-', true, 'DESC')", "str:groupConcat(k, '-', false, 'ASC')",
    "math:percentile(v, 50.0)", "list:collect(v)", "list:collect(k, true)", "list:merge(list:create(k, v, 1, true))",
    "map:collect(k, v)", "map:merge(map:create(k, v))", "json:group(k, true)", "unionSet(createSet(k))",
    "list:size(list:collect(v))",
)  # fmt: skip
_WINDOWS = (
    "", "#window.length(3)", "#window.lengthBatch(4)", "#window.lengthBatch(10)", "#window.timeBatch(5)",
    "#window.sort(2, v)",
)  # fmt: skip
_ENDS = ("insert into Out", "insert all events into Out", "insert expired events into Out")


def _play(query: str, size: int) -> list[Any]:
    draw = random.Random(3)  # noqa: S311
    runtime = AppRuntime(analyse(parse(f"@app:playback define stream S (k string, v double, i int); {query}")))
    found: list[Any] = []
    runtime.add_stream_callback("Out", lambda batch: found.extend(batch.to_pylist()))
    runtime.start(0)
    rows = [(draw.choice(("a", "b", "c", None)), draw.choice((1.0, 2.5, None)), place) for place in range(30)]
    for start in range(0, 30, size):
        part = rows[start : start + size]
        columns = dict(zip("kvi", (list(column) for column in zip(*part, strict=True)), strict=True))
        arrays = {"k": pa.array(columns["k"], pa.utf8()), "v": pa.array(columns["v"], pa.float64()),
                  "i": pa.array(columns["i"], pa.int32())}  # fmt: skip
        runtime.send("S", pa.record_batch({"_timestamp": pa.array([row[2] for row in part], pa.int64()), **arrays}))
    return found


@pytest.mark.parametrize("window", _WINDOWS)
def test_results_are_those_of_a_selector_that_reads_all(window: str, monkeypatch: pytest.MonkeyPatch) -> None:
    selections = [
        f"select {', '.join(f'{call} as r{place}' for place, call in enumerate(_AGGREGATES[start:][:6]))}{by}{having}"
        for start, by, having in itertools.product((0, 6), ("", " group by k"), ("", " having r0 != 'a'"))
        if not (start and having)
    ]
    queries = [f"from S{window} {selection} {end};" for selection, end in itertools.product(selections, _ENDS)]
    answers = [_play(query, 30) for query in queries]
    monkeypatch.setattr(Selector, "_left_out", lambda _self, _nodes: False)
    assert answers == [_play(query, 30) for query in queries]


def test_no_result_is_made_for_rows_that_do_not_come_out(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[object] = []
    result = GroupConcat.result

    def counted(self: GroupConcat, group: Counter[str]) -> object:
        made.append(group)
        return result(self, group)

    monkeypatch.setattr(GroupConcat, "result", counted)
    for window, count in (("length(3)", 30), ("lengthBatch(10)", 3)):
        made.clear()
        _play(f"from S#window.{window} select str:groupConcat(k) as r insert into Out;", 30)
        assert len(made) == count
