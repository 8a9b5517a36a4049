"""Chunks that hold events of several partition keys."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from siddhi.analysis.analyser import analyse
from siddhi.column_names import TIMESTAMP
from siddhi.engine.runtime import AppRuntime
from siddhi.language.parser import parse

Event = tuple[str, int]


def answers(query: str, *chunks: tuple[str, list[Event]]) -> list[tuple[Any, ...]]:
    """What `query`, in a partition by `k`, inserts into O, given chunks (stream, events)."""
    streams = "define stream S (k string, v int); define stream R (k string, v int);"
    runtime = AppRuntime(analyse(parse(f"@app:playback {streams} partition with (k of S, k of R) begin {query} end;")))
    runtime.start(0)
    rows: list[dict[str, Any]] = []
    runtime.add_stream_callback("O", lambda batch: rows.extend(batch.to_pylist()))
    for time, (stream, events) in enumerate(chunks, 1):
        keys, values = zip(*events, strict=True)
        columns = {TIMESTAMP: [time] * len(events), "k": list(keys), "v": pa.array(values, pa.int32())}
        runtime.send(stream, pa.record_batch(columns), as_chunk=True)
    return [tuple(value for name, value in row.items() if not name.startswith("_")) for row in rows]


def test_rates_let_keys_out_in_the_order_in_which_their_events_stand_in_a_chunk() -> None:
    query = "from S select k, v output every 2 events insert into O;"
    chunks = [("S", [("a", 1), ("b", 2)]), ("S", [("b", 3), ("a", 4), ("b", 5)])]
    assert answers(query, *chunks) == [("b", 2), ("b", 3), ("a", 1), ("a", 4)]


def test_joins_take_the_events_of_a_chunk_in_their_order() -> None:
    query = (
        "from S#window.length(2) as s join R#window.length(2) as r select s.k as k, s.v as v, r.v as r insert into O;"
    )
    chunks = [("R", [("a", 1), ("b", 2)]), ("S", [("b", 3), ("a", 4), ("b", 5)])]
    assert answers(query, *chunks) == [("b", 3, 2), ("a", 4, 1), ("b", 5, 2)]
