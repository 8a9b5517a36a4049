"""The assignment of events to partition instances."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from siddhi.analysis.analyser import analyse
from siddhi.engine.app_runtime import AppRuntime
from siddhi.language.parser import parse


def counting(streams: str, keys: str, query: str = "from S select n, count() as c insert into O;") -> AppRuntime:
    """Return an app that runs `query` in a partition with `keys`."""
    runtime = AppRuntime(analyse(parse(f"@app:playback {streams} partition with ({keys}) begin {query} end;")))
    runtime.start(0)
    return runtime


def counts(runtime: AppRuntime, *batches: tuple[str, dict[str, Any]]) -> list[int]:
    """Return `c` of each output row when the batches are sent one after the other."""
    found: list[int] = []
    runtime.add_stream_callback("O", lambda batch: found.extend(batch.column("c").to_pylist()))
    for number, (stream, columns) in enumerate(batches):
        size = len(columns["k"])
        numbers = {"_timestamp": np.full(size, number + 1), "n": pa.array(range(size), pa.int32())}
        runtime.send(stream, pa.record_batch({**numbers, **columns}))
    return found


@pytest.mark.parametrize(("type_", "arrow"), [("double", pa.float64()), ("float", pa.float32())])
def test_keys_are_told_apart_as_java_writes_them(type_: str, arrow: pa.DataType) -> None:
    runtime = counting(f"define stream S (k {type_}, n int);", "k of S")
    first = pa.array([0.0, -0.0, 0.0, 0.1, float("nan")], arrow)
    again = pa.array([-0.0, 0.1, None, -float("nan")], arrow)
    assert counts(runtime, ("S", {"k": first}), ("S", {"k": again})) == [1, 1, 2, 1, 1, 2, 2, 2]


def test_equal_texts_of_different_types_are_one_key() -> None:
    streams = "define stream S (k int, n int); define stream T (k string, n int); define stream U (k bool, n int);"
    query = (
        "from S select n, 1 as one insert into #I; from T select n, 1 as one insert into #I;"
        " from U select n, 1 as one insert into #I; from #I select n, count() as c insert into O;"
    )
    runtime = counting(streams, "k of S, k of T, k of U", query)
    numbers = ("S", {"k": pa.array([7, 8, -7], pa.int32())})
    texts = ("T", {"k": pa.array(["8", "7", "true", None, "07", "-7"])})
    flags = ("U", {"k": pa.array([True, False])})
    assert counts(runtime, numbers, texts, flags, numbers) == [1, 1, 1, 2, 2, 1, 1, 2, 2, 1, 3, 3, 3]


def test_a_key_keeps_its_instance_when_the_string_pool_is_compacted() -> None:
    runtime = counting("define stream S (k string, n int);", "k of S")
    batch = ("S", {"k": pa.array(["a", "b", "a"])})
    assert counts(runtime, batch) == [1, 1, 2]
    runtime.send("S", pa.record_batch({"_timestamp": [2], "k": ["c"], "n": pa.array([1], pa.int32())}))
    runtime.compact()
    assert counts(runtime, ("S", {"k": pa.array(["b", "c", "a", "d"])})) == [2, 2, 3, 1]


def test_a_number_that_comes_back_after_a_purge_does_not_meet_the_state_of_the_one_that_took_its_place() -> None:
    purge = "@purge(enable='true', interval='1 sec', idle.period='2 sec')"
    query = "from S select k, sum(n) as c insert into O;"
    text = f"@app:playback define stream S (k long, n int); {purge} partition with (k of S) begin {query} end;"
    runtime = AppRuntime(analyse(parse(text)))
    runtime.start(0)
    found: list[tuple[int, int]] = []
    runtime.add_stream_callback("O", lambda out: found.extend((row["k"], row["c"]) for row in out.to_pylist()))
    for time, key in ((1, 7), (4_000, 8), (4_001, 7), (4_002, 8)):
        runtime.send("S", pa.record_batch({"_timestamp": [time], "k": [key], "n": pa.array([1], pa.int32())}))
    assert found == [(7, 1), (8, 1), (7, 1), (8, 2)]


def test_many_keys_are_opened_without_an_object_each() -> None:
    runtime = counting("define stream S (k long, n int);", "k of S", "from S[n > 5] select k, n, 1 as c insert into O;")
    keys = np.arange(50_000)
    runtime.send("S", pa.record_batch({"_timestamp": keys + 1, "k": keys, "n": np.zeros(50_000, dtype=np.int32)}))
    (partition,) = [part for part in runtime.statistics().state if part.kind == "partition"]
    assert partition.size.instances == 50_000
    assert partition.size.bytes < 120 * 50_000


def test_a_pattern_finds_the_matches_of_each_of_very_many_keys() -> None:
    query = "from every e1=S[n > 0] -> e2=S[n > e1.n] select e2.k as k, e1.n as n, e2.n as c insert into O;"
    runtime = counting("define stream S (k long, n int);", "k of S", query)
    found: list[tuple[int, int, int]] = []
    runtime.add_stream_callback(
        "O", lambda out: found.extend((row["k"], row["n"], row["c"]) for row in out.to_pylist())
    )
    keys = np.random.default_rng(7).permutation(20_000)
    for number, value in enumerate((keys % 3, keys % 5)):
        columns = {"_timestamp": np.full(len(keys), number + 1), "k": keys, "n": value.astype(np.int32)}
        runtime.send("S", pa.record_batch(columns))
    assert found == [(key, key % 3, key % 5) for key in keys.tolist() if 0 < key % 3 < key % 5]


def test_a_key_begins_with_its_first_event_whichever_stream_of_a_step_brought_it() -> None:
    streams = "define stream S (k string, n int); define stream T (k string, n int);"
    query = "from not S[n > 5] for 100 milliseconds -> e2=T[n > 0] select e2.k as k, e2.n as c insert into O;"
    runtime = counting(streams, "k of S, k of T", query)
    found: list[tuple[str, int]] = []
    runtime.add_stream_callback("O", lambda out: found.extend((row["k"], row["c"]) for row in out.to_pylist()))

    def events(times: list[int], numbers: list[int]) -> pa.RecordBatch:
        columns = {"_timestamp": times, "k": ["a"] * len(times), "n": pa.array(numbers, pa.int32())}
        return pa.record_batch(columns)

    batches = [("S", events([1_050], [0])), ("T", events([1_000, 1_120], [0, 1]))]
    runtime.send_merged(batches, np.array([1, 0, 1]))
    assert found == [("a", 1)]
