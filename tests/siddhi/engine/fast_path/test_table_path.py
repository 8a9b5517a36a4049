"""Events go one by one through all queries that use a table, in one loop: with the same results, the same rows and the
same refusals as on the general path."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from random_examples import examples

from siddhi.analysis.analyser import analyse
from siddhi.engine.app_runtime import AppRuntime
from siddhi.engine.fast_path.table_path import TablePath
from siddhi.engine.operators.tables.hash_index import HashIndex
from siddhi.engine.scheduling.failed_events import FailedEvents
from siddhi.engine.tuning import MAX_PROGRAM_ROWS
from siddhi.language.parser import parse

ROW = "(s string, i int, l long, f float, d double, b bool)"
STREAM = f"@app:playback define stream S {ROW.replace(')', ', note string)')};"
HEAD = f"{STREAM} {{}} define table K {ROW};"
KEYS = (
    "",
    "@PrimaryKey('s')",
    "@PrimaryKey('l')",
    "@PrimaryKey('s', 'i')",
    "@Index('s')",
    "@PrimaryKey('l') @Index('s')",
)
WRITES = (
    "from S select s, i, l, f, d, b insert into K;",
    "from S[i > 0 and not b] select s, i * 2 as i, l, f, d / 3.0 as d, b insert into K;",
    "from S select 'a' as s, 1 as i, l + 1L as l, 0.5f as f, 2.0 as d, true as b insert into K;",
    "from S select s, i, l, f, d, b update or insert into K set K.d = d, K.f = f, K.b = b on K.s == s;",
    "from S select s, i, l, f, d, b update or insert into K on K.l == l;",
    "from S select s, i, l, f, d, b update or insert into K set K.d = K.d + d on K.s == s and K.i == i;",
    "from S[d > 0.0] select s, f, i update K set K.f = K.f + f, K.b = not (K.b) on K.s == s;",
    "from S select s, d, i update K set K.d = d / i on K.s == s and K.d > d;",
    "from S[b] select s, l % 3L as l delete K on K.l == l;",
    "from S[s == 'b' or i == 2] select s delete K on K.s == s;",
    "from S select d delete K on K.d > d;",
    "from S[not (K.s == s in K)] select s, i, l, f, d, b insert into K;",
    "from S[(K.l == l and K.f < f) in K and i > 0] select s delete K on K.s == s;",
)
READS = (
    "from S[K.s == s in K] select s, i, note insert into Out;",
    "from S[not (K.d > d in K) and l > 0] select s, f, b, note insert into Out;",
    "from S[(K.s == s and K.b) in K] select i + 1 as i, d * 2.0 as d, ifThenElse(b, s, 'none') as s insert into Out;",
    "from S[i > 0] join K on S.s == K.s select S.note as note, K.i as i, K.f as f, K.d as d, K.b as b insert into Out;",
    "from S left outer join K on S.s == K.s select S.s as s, K.s as t, K.i as i, K.f as f, K.b as b insert into Out;",
    "from S left outer join K on S.l == K.l select S.i as j, K.i as i, K.d as d insert into Out;",
    "from S[i > 1] select s, note, i % 2 as i insert into Out;",
)


def records(events: list[tuple[Any, ...]]) -> pa.RecordBatch:
    times = 1_000 + np.cumsum([event[0] for event in events])
    return pa.record_batch(
        {
            "_timestamp": times,
            "s": pa.array([event[1] for event in events], pa.utf8()),
            "i": pa.array([event[2] for event in events], pa.int32()),
            "l": pa.array([event[3] for event in events], pa.int64()),
            "f": pa.array([event[4] for event in events], pa.float32()),
            "d": pa.array([event[5] for event in events], pa.float64()),
            "b": pa.array([event[6] for event in events], pa.bool_()),
            "note": pa.array([event[7] for event in events], pa.utf8()),
        }
    )


def outcome(text: str, rows: pa.RecordBatch, cuts: list[int], *, closed: bool, saved_at: int = -1) -> tuple[Any, int]:
    """What the app sends and refuses and the rows of its table, and how many batches took the path."""
    analysed = analyse(parse(text))
    told: list[Any] = []  # streams are compared with their rows in any order, as batches tell stream by stream
    refused: list[FailedEvents] = []
    taken = 0

    def listen(runtime: AppRuntime) -> AppRuntime:
        for stream in analysed.streams:
            if stream != "S":
                runtime.add_stream_callback(stream, lambda sent: told.extend(sent.to_pylist()))
        runtime.add_failure_listener(refused.append)
        return runtime

    runtime = listen(AppRuntime(analysed))
    runtime.start(500)
    with pytest.MonkeyPatch.context() as patch:
        if closed:
            patch.setattr(TablePath, "is_open", lambda _path, _rows: False)
        run = TablePath.run

        def counted(path: TablePath, *arguments: Any) -> Any:
            nonlocal taken
            passed = run(path, *arguments)
            taken += passed is not None
            return passed

        patch.setattr(TablePath, "run", counted)
        for place, (start, stop) in enumerate(pairwise([0, *sorted(cuts), rows.num_rows])):
            if place == saved_at:
                saved, runtime = runtime.snapshot(), listen(AppRuntime(analysed))
                runtime.restore(saved)
            if stop > start:
                runtime.send("S", rows.slice(start, stop - start))
    table = runtime._environment.tables["K"]
    held = {name: column.to_list() for name, column in table.columns(table.places()).items()}
    return (sorted(map(repr, told)), repr(held), sum(one.events for one in refused)), taken


drawn = st.lists(
    st.tuples(
        st.integers(-1, 2),
        st.sampled_from(["a", "b", "c", None]),
        st.integers(-1, 3),
        st.integers(0, 4),
        st.sampled_from([0.0, 1.5, -2.25]),
        st.sampled_from([0.0, -0.0, 1.5, float("nan")]),
        st.booleans(),
        st.sampled_from(["x", "yy", None]),
    ),
    min_size=1,
    max_size=24,
)


@settings(max_examples=examples(60), deadline=None)
@given(
    key=st.sampled_from(KEYS),
    queries=st.lists(st.sampled_from(WRITES + READS), min_size=1, max_size=4),
    events=drawn,
    cuts=st.lists(st.integers(0, 24), max_size=4),
    saved_at=st.integers(-1, 3),
)
def test_the_loop_gives_what_the_general_path_gives(
    key: str, queries: list[str], events: list[tuple[Any, ...]], cuts: list[int], saved_at: int
) -> None:
    text = HEAD.format(key) + " ".join(query.replace("Out;", f"Out{place};") for place, query in enumerate(queries))
    rows = records(events)
    cuts = [min(cut, rows.num_rows) for cut in cuts]
    wanted, _ = outcome(text, rows, list(range(1, rows.num_rows)), closed=True)
    assert outcome(text, rows, cuts, closed=False, saved_at=saved_at)[0] == wanted


def many(count: int, *, keys: int) -> pa.RecordBatch:
    draw = np.random.default_rng(count)
    steps, names, wholes, longs, parts, flags = (
        draw.integers(low, high, count).tolist()
        for low, high in ((0, 2), (0, keys), (-1, 4), (0, keys), (-2, 3), (0, 2))
    )
    drawn_values = zip(steps, names, wholes, longs, parts, flags, strict=True)
    return records(
        [(step, f"k{name}", i, l, 1.5, float(d), b > 0, "note") for step, name, i, l, d, b in drawn_values]  # noqa: E741
    )


def taken_by_both(text: str, rows: pa.RecordBatch, cuts: list[int]) -> int:
    """Compare the path with the general one; return how many batches took it."""
    found, taken = outcome(text, rows, cuts, closed=False)
    wanted, none = outcome(text, rows, cuts, closed=True)
    assert found == wanted
    assert len(wanted[0]) > 0
    assert none == 0
    return taken


@pytest.mark.parametrize("read", [*READS[:5], READS[6]])
@pytest.mark.parametrize("write", [WRITES[0], WRITES[3], WRITES[6], WRITES[9], WRITES[11]])
def test_batches_take_the_loop_once_the_clock_is_set(write: str, read: str) -> None:
    text = HEAD.format("@PrimaryKey('s')") + WRITES[0] + write + read
    assert taken_by_both(text, many(200, keys=8), [1, 2, 3, 50, 120]) == 5


def test_a_table_may_have_two_indexes() -> None:
    text = HEAD.format("@PrimaryKey('s')") + WRITES[0] + WRITES[6] + WRITES[8] + READS[5]
    assert taken_by_both(text, many(200, keys=8), [1, 50]) == 2


def test_large_batches_run_in_pieces() -> None:
    text = HEAD.format("@PrimaryKey('s')") + WRITES[3] + WRITES[9] + READS[0]
    assert taken_by_both(text, many(3 * MAX_PROGRAM_ROWS + 7, keys=300), [1]) == 1


def test_a_join_may_find_more_rows_than_there_is_room_for() -> None:
    text = HEAD.format("@Index('s')") + WRITES[0] + READS[4]
    assert taken_by_both(text, many(400, keys=3), [1]) == 1


def test_the_first_event_of_a_batch_may_find_more_rows_than_there_is_room_for() -> None:
    text = HEAD.format("@Index('s')") + READS[3] + WRITES[0]
    stored = [(1, "a", 0, 1, 1.0, 1.0, True, "x")] * (MAX_PROGRAM_ROWS + 1)
    rows = records([*stored, (1, "a", 1, 1, 1.0, 1.0, True, "y")])
    assert taken_by_both(text, rows, [len(stored)]) == 1


def test_nulls_of_numbers_take_the_general_path_with_the_table_unchanged() -> None:
    text = HEAD.format("@PrimaryKey('s')") + WRITES[3] + READS[0]
    rows = records([(1, name, 1, 1, 1.0, number, True, "x") for name, number in [("a", 1.0), ("a", None), ("b", 2.0)]])
    found, taken = outcome(text, rows, [1], closed=False)
    assert taken == 0
    assert found == outcome(text, rows, [1, 2], closed=True)[0]


def test_rows_that_the_table_refuses_are_counted() -> None:
    text = HEAD.format("@PrimaryKey('s')") + WRITES[0] + READS[0]
    found, taken = outcome(text, records([(1, "a", 1, 1, 1.0, 1.0, True, "x")] * 5), [1], closed=False)
    assert (found[2], taken) == (4, 1)


def test_rows_that_come_and_go_in_one_step_are_within_every_index(monkeypatch: pytest.MonkeyPatch) -> None:
    remove, removed = HashIndex.remove, []

    def checked(index: HashIndex, places: Any) -> None:
        assert places.max() < len(index.arrays[1])
        removed.append(len(places))
        remove(index, places)

    monkeypatch.setattr(HashIndex, "remove", checked)
    writes = WRITES[0] + "from S delete K on K.s == s; from U delete K on K.l == l;"
    text = HEAD.format("define stream U (l long); @PrimaryKey('s')") + writes
    rows = records([(1, f"k{number}", 1, number, 1.0, 1.0, True, "x") for number in range(60)])
    assert outcome(text, rows, [], closed=True)[0][1] == repr({name: [] for name in ("s", "i", "l", "f", "d", "b")})
    assert removed == [60, 60]
