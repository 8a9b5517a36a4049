"""A result with too much text for a column is lost, and the query continues, on both paths."""

from __future__ import annotations

import pyarrow as pa
import pytest

from siddhi.analysis.analyser import analyse
from siddhi.engine.app_runtime import AppRuntime
from siddhi.language.parser import parse

LARGE = "x" * 3_000_000
"""A thousand of these are too much text for a column."""
TEXTS = "".join(f"define stream {stream} (s string, u string, l long);" for stream in "ST")
JOINING = "from S#window.length(5) as x join T#window.length(1000) as y on x.s == y.s select x.u as u, y.l as l"
MATCHING = "from every e1=S -> e2=S[l == 7] select e1.u as a, e2.u as u, e1.l as l"


@pytest.mark.parametrize(("query", "filled"), [(JOINING, "T"), (MATCHING, "S")])
def test_results_with_too_much_text_are_lost_and_the_query_goes_on(query: str, filled: str) -> None:
    told: list[list[object]] = []
    for listened in ("", "ST"):
        runtime = AppRuntime(analyse(parse(f"@app:playback {TEXTS} {query} insert into Out;")))
        for stream in listened:
            runtime.add_stream_callback(stream, lambda _: None)
        told.append(_around_the_loss(runtime, filled))
    assert told[0] == told[1]
    assert told[0][0] == "OverflowError"


def _around_the_loss(runtime: AppRuntime, filled: str) -> list[object]:
    """Return the outcome of an event with a thousand long results, and of the events after it."""
    outcome: list[object] = []
    told: list[tuple[object, ...]] = []

    def take(records: pa.RecordBatch) -> None:
        rows = records.to_pylist()
        told.extend(tuple("large" if value == LARGE else value for value in row.values()) for row in rows)

    runtime.add_stream_callback("Out", take)
    runtime.start(1)
    runtime.send("S", _texts(1, "first", 0))
    for _ in range(4):
        runtime.send(filled, _texts(250, "w", 1))
    for text, number in ((LARGE, 7), ("next", 5), ("last", 7)):
        told.clear()
        try:
            runtime.send("S", _texts(1, text, number))
        except OverflowError as error:
            outcome.append(type(error).__name__)
        else:
            outcome.append(list(told))
    statistics = runtime.statistics()
    held = [part.size.rows for part in statistics.state]
    return [*outcome, statistics.events, runtime.saved().clock, held]


def _texts(rows: int, text: str, number: int) -> pa.RecordBatch:
    times = pa.array(range(2, 2 + rows), pa.int64())
    numbers = pa.array([number] * rows, pa.int64())
    return pa.record_batch({"_timestamp": times, "s": ["a"] * rows, "u": [text] * rows, "l": numbers})
