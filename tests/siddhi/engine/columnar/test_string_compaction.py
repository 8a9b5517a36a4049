"""The string pool of a running app stays in proportion to the strings in use."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from siddhi.analysis.analyser import analyse
from siddhi.engine.app_runtime import AppRuntime
from siddhi.engine.columnar import string_compaction
from siddhi.language.parser import parse

ROWS = 1000
LEAST = 4_096


def test_strings_that_no_row_holds_any_more_are_forgotten_and_answers_stay_right(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(string_compaction, "MIN_NEW_STRINGS", LEAST)
    query = "from S#window.length(10) select k, count() as c group by k insert into O;"
    runtime = AppRuntime(analyse(parse(f"@app:playback define stream S (k string); {query}")))
    rows: list[Any] = []
    runtime.add_stream_callback("O", lambda batch: rows.extend(batch.to_pylist()))
    runtime.start(0)
    sizes = []
    for start in range(0, 40 * ROWS, ROWS):
        keys = [f"key {number}" for number in range(start, start + ROWS)]
        runtime.send("S", pa.record_batch({"_timestamp": np.arange(start, start + ROWS) + 1, "k": keys}))
        sizes.append(runtime.statistics().strings)
    assert max(sizes) < 3 * LEAST
    assert [(row["k"], row["c"]) for row in rows] == [(f"key {number}", 1) for number in range(40 * ROWS)]


def test_a_few_long_strings_that_no_row_holds_any_more_are_forgotten_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(string_compaction, "MIN_NEW_STRING_BYTES", 100_000)
    query = "from S#window.length(10) select k, count() as c group by k insert into O;"
    runtime = AppRuntime(analyse(parse(f"@app:playback define stream S (k string); {query}")))
    runtime.start(0)
    sizes = []
    for number in range(1_000):
        runtime.send("S", pa.record_batch({"_timestamp": [number + 1], "k": [f"{number}" + 1_000 * "x"]}))
        sizes.append(runtime.pool.text_bytes)
    assert max(sizes) < 120_000


def test_a_group_of_nulls_stays_apart_from_strings_that_take_over_its_code() -> None:
    query = "from S#window.lengthBatch(3) select k, count() as c group by k insert into O;"
    runtime = AppRuntime(analyse(parse(f"@app:playback define stream S (k string); {query}")))
    rows: list[Any] = []
    runtime.add_stream_callback("O", lambda batch: rows.extend(batch.to_pylist()))
    runtime.start(0)
    for start, keys in ((1, ["x", None, None]), (4, ["a", "b", None])):
        runtime.send("S", pa.record_batch({"_timestamp": np.arange(start, start + 3), "k": pa.array(keys)}))
        runtime.compact()
    assert [(row["k"], row["c"]) for row in rows] == [("x", 1), (None, 2), ("a", 1), ("b", 1), (None, 1)]
