"""What windows let out where an answer is easily lost."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from siddhi.analysis.analyser import analyse
from siddhi.engine.batch import TIMESTAMP
from siddhi.engine.runtime import AppRuntime
from siddhi.language.parser import parse


def answers(query: str, *events: tuple[int, int]) -> list[tuple[Any, ...]]:
    """What `query` inserts into O, given events (timestamp, v) of S."""
    runtime = AppRuntime(analyse(parse(f"@app:playback define stream S (v int); {query}")))
    runtime.start(0)
    rows: list[dict[str, Any]] = []
    runtime.add_stream_callback("O", lambda batch: rows.extend(batch.to_pylist()))
    times, values = zip(*events, strict=True)
    columns = {TIMESTAMP: pa.array(times, pa.int64()), "v": pa.array(values, pa.int32())}
    runtime.send("S", pa.RecordBatch.from_pydict(columns))
    return [tuple(value for name, value in row.items() if not name.startswith("_")) for row in rows]


@pytest.mark.parametrize("window", ["frequent(2)", "lossyFrequent(0.3, 0.05)"])
def test_without_key_and_plain_attribute_all_events_of_a_frequency_window_have_one_key(window: str) -> None:
    found = answers(f"from S#window.{window} select sum(v) as s insert into O;", (1, 5), (2, 7), (3, 1))
    assert found == [(5,), (12,), (13,)]


@pytest.mark.parametrize("together", [True, False])
@pytest.mark.parametrize("bad", ["count( <= 2", "nothing > 1", "v + 1"])
def test_an_event_whose_text_is_no_expression_fails_alone(bad: str, together: bool) -> None:
    text = "define stream S (e string, v int); from S#window.expression(e) select v, count() as n insert into Out;"
    runtime = AppRuntime(analyse(parse(text)))
    rows: list[tuple[int, int]] = []
    runtime.add_stream_callback("Out", lambda batch: rows.extend((row["v"], row["n"]) for row in batch.to_pylist()))
    runtime.start(0)
    events = pa.record_batch(
        {
            "e": ["count() <= 2", bad, "count() <= 2", "count() <= 2"],
            "v": pa.array([1, 2, 3, 4], pa.int32()),
        }
    )
    for batch in [events] if together else [events.slice(place, 1) for place in range(4)]:
        runtime.send("S", batch, 10)
    assert rows == [(1, 1), (3, 2), (4, 2)]
    assert runtime.statistics().failures["S"] == 1
