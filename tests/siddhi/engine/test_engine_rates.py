"""What output rates let out where an answer is easily lost."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from siddhi.analysis.analyser import analyse
from siddhi.engine.runtime import AppRuntime
from siddhi.language.parser import parse

Chunk = tuple[int, list[tuple[str, int]]]


def let_out(query: str, chunks: list[Chunk], end: int) -> list[tuple[Any, ...]]:
    """What `query` inserts into O, given chunks (clock, rows of S) and the clock at `end`."""
    runtime = AppRuntime(analyse(parse(f"@app:playback define stream S (k string, v int); {query}")))
    runtime.start(0)
    rows: list[dict[str, Any]] = []
    runtime.add_stream_callback("O", lambda batch: rows.extend(batch.to_pylist()))
    for clock, events in chunks:
        keys, values = zip(*events, strict=True)
        columns = {"k": pa.array(keys), "v": pa.array(values, pa.int32())}
        runtime.send("S", pa.RecordBatch.from_pydict(columns), clock, as_chunk=True)
    runtime.advance_time(end)
    return [tuple(value for name, value in row.items() if not name.startswith("_")) for row in rows]


def test_the_first_chunk_of_a_batch_window_begins_with_an_event() -> None:
    query = "from S#window.batch() select k, v output first every 3 events insert into O;"
    chunks = [(1, [("a", 1), ("a", 2)]), (2, [("a", 3)]), (3, [("a", 4)])]
    assert let_out(query, chunks, 5) == [("a", 1), ("a", 3)]


def test_a_row_that_having_kept_out_of_a_snapshot_changes_nothing_as_it_leaves() -> None:
    query = """
        from S#window.length(2) select k, min(v) as low having low > 2 output snapshot every 10 milliseconds
        insert into O;
    """
    chunks = [(1, [("a", 1)]), (2, [("b", 5)]), (3, [("c", 6)]), (4, [("d", 9)])]
    assert let_out(query, chunks, 12) == [("c", 6), ("d", 6)]


def test_a_row_leaves_a_snapshot_by_its_values_whatever_its_group() -> None:
    query = """
        from S#window.sort(1, v) select 'x' as x, v group by k output snapshot every 10 milliseconds insert into O;
    """
    assert let_out(query, [(1, [("a", 5)]), (2, [("b", 5)]), (3, [("c", 4)])], 12) == [("x", 4)]


def test_the_groups_of_a_snapshot_keep_their_places_from_batch_to_batch() -> None:
    query = """
        from S#window.lengthBatch(2) select sum(v) as total group by k output snapshot every 10 milliseconds
        insert into O;
    """
    chunks = [(1, [("a", 1)]), (2, [("b", 2)]), (3, [("b", 3)]), (4, [("a", 4)])]
    assert let_out(query, chunks, 12) == [(4,), (3,)]
