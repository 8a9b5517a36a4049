"""Many queries over one stream give the same results with the index over their conditions as without it."""

from __future__ import annotations

import random
from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from siddhi.analysis.analyser import analyse
from siddhi.engine.app_runtime import AppRuntime
from siddhi.engine.shared_queries import rule_set
from siddhi.language.parser import parse

ATTRIBUTES = "(key string, whole int, large long, part double, single float, flag bool)"
STREAM = f"define stream S {ATTRIBUTES}; define stream T {ATTRIBUTES};"
KEYS = ["a", "b", "c", "d", "", "é", None]
TESTS = (
    "key == 'a'", "key == 'b'", "'c' == key", "key != 'a'", "whole == 3", "whole > 4", "2 < whole", "whole != 3",
    "large >= 5L", "large == 9007199254740993L", "part > 2.5", "part <= 7", "single < 3.5f", "whole > 2.5",
    "part > 2 and part < 6", "whole >= 2 and whole <= 3", "flag", "not (key == 'd')", "part * 2 > whole",
    "(key == 'a' or key == 'b')", "key == 'é'", "part != 5.0",
)  # fmt: skip


def _filters(rng: random.Random) -> str:
    tests = rng.sample(TESTS, rng.randint(1, 3))
    return "".join(f"[{test}]" for test in tests) if rng.random() < 0.3 else f"[{' and '.join(tests)}]"


def _rule(rng: random.Random, number: int) -> str:
    target = rng.choice(["Out", "Out", "Out", "Other"])
    form = rng.randrange(8)
    first, then = _filters(rng), _filters(rng)
    if form <= 2:
        body = f"from S{first} select key, whole, 'r{number}' as rule"
    elif form == 3:
        body = f"from S{first} select key, whole, 'all' as rule"
    elif form == 4:
        body = f"from S{first}#window.length(3) select key, count() as n, 'w' as rule group by key"
        body = body.replace("count() as n", "max(whole) as whole")
    elif form == 5:
        body = f"from S{first}#window.time(20 milliseconds) select key, max(whole) as whole, 't' as rule"
    else:
        every = rng.choice(["every ", ""])
        within = rng.choice(["", " within 15 milliseconds"])
        link = rng.choice(["", "[key == e1.key]", "[whole > e1.whole]", "[key == e1.key and part > 1]"])
        body = (
            f"from {every}e1=S{first} -> e2=S{link or then}{then if rng.random() < 0.3 else ''}{within}"
            f" select e2.key as key, e1.whole as whole, 'p{number}' as rule"
        )
    return f"@info(name='r{number}') {body} insert into {target};"


def _pattern(rng: random.Random, number: int, every: str, link: str, within: str) -> str:
    first, then = _filters(rng), _filters(rng)
    if "key == e1.key" in link:
        first = f"[key == '{rng.choice('abc')}']{first}"
        then = ""
    return (
        f"@info(name='r{number}') from {every}e1=S{first} -> e2=S{then}{link}{within}"
        f" select e2.key as key, e1.whole as whole, 'p{number}' as rule insert into Out;"
    )


def _patterns(rng: random.Random, count: int) -> str:
    """Patterns of two shapes, and other rules."""
    shapes = [
        (
            rng.choice(["every ", "every ", ""]),
            rng.choice(["", "[key == e1.key]", "[part >= e1.part]"]),
            rng.choice([" within 15 milliseconds", ""]),
        )
        for _ in range(2)
    ]
    rules = [
        _rule(rng, number) if rng.random() < 0.2 else _pattern(rng, number, *rng.choice(shapes))
        for number in range(count)
    ]
    return f"@app:playback {STREAM} " + " ".join(rules) + " from Out[whole > 2] select key insert into Behind;"


def _app(rng: random.Random, count: int) -> str:
    rules = [_rule(rng, number) for number in range(count)]
    rules.insert(rng.randrange(count), "@info(name='plain') from S select key, whole, 'plain' as rule insert into Out;")
    return f"@app:playback {STREAM} " + " ".join(rules) + " from Out[whole > 2] select key insert into Behind;"


def _events(rng: random.Random, count: int, *, late: bool) -> pa.RecordBatch:
    times, now = [], 1_000
    for _ in range(count):
        now += rng.choice([0, 1, 1, 3, 9])
        times.append(now - (rng.choice([0, 0, 5, 30]) if late else 0))
    some = [None, *range(8)]
    return pa.record_batch(
        {
            "_timestamp": pa.array(times, pa.int64()),
            "key": pa.array([rng.choice(KEYS) for _ in times], pa.utf8()),
            "whole": pa.array([rng.choice(some) for _ in times], pa.int32()),
            "large": pa.array([rng.choice([*some, 2**53, 2**53 + 1]) for _ in times], pa.int64()),
            "part": pa.array([rng.choice([*some, float("nan"), float("inf")]) for _ in times], pa.float64()),
            "single": pa.array([rng.choice(some) for _ in times], pa.float32()),
            "flag": pa.array([rng.choice([None, True, False]) for _ in times], pa.bool_()),
        }
    )


def _cuts(rng: random.Random, rows: int) -> Iterator[tuple[int, int]]:
    start = 0
    while start < rows:
        stop = min(rows, start + rng.choice([1, 1, 2, 7, 40, 200]))
        yield start, stop
        start = stop


class _Heard:
    """The output of the streams and one query, in order of notification."""

    def __init__(self, runtime: AppRuntime) -> None:
        self.rows: list[Any] = []
        self.listen(runtime)

    def listen(self, runtime: AppRuntime) -> None:
        for stream in ("Out", "Other", "Behind"):
            if stream in runtime.app.streams:
                runtime.add_stream_callback(stream, partial(self.take, stream))

    def take(self, stream: str, batch: pa.RecordBatch) -> None:
        # NaN equals itself here
        self.rows.append((stream, repr(batch.to_pydict())))

    def by_stream(self) -> dict[str, list[str]]:
        """Return the rows of each stream, independent of batches."""
        found: dict[str, list[str]] = {}
        for stream, text in self.rows:
            columns = eval(text, {"nan": "nan", "inf": "inf"})  # noqa: S307 - what was just written
            found.setdefault(stream, []).extend(map(repr, zip(*columns.values(), strict=True)))
        return found


def _runtime(text: str) -> AppRuntime:
    runtime = AppRuntime(analyse(parse(text)))
    runtime.start(0)
    return runtime


@pytest.mark.thorough
@pytest.mark.parametrize("late", [False, True])
@pytest.mark.parametrize("seed", range(4))
def test_the_index_changes_nothing(seed: int, late: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = random.Random(1_000 * late + seed)  # noqa: S311
    text, events = (_app, _patterns)[seed % 2](rng, 24), _events(rng, 400, late=late)
    cuts = list(_cuts(rng, events.num_rows))
    heard = {}
    for least in (8, 10**9):
        monkeypatch.setattr(rule_set, "MIN_SHARED_QUERIES", least)
        runtime = _runtime(text)
        heard[least] = _Heard(runtime)
        for start, stop in cuts:
            runtime.send("S", events.slice(start, stop - start))
        assert bool(runtime._steps._routes._rule_sets) == (least == 8)
    assert heard[8].rows == heard[10**9].rows


@pytest.mark.thorough
@pytest.mark.parametrize("late", [False, True])
@pytest.mark.parametrize("seed", range(4))
def test_cuts_and_snapshots_change_nothing(seed: int, late: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = random.Random(5_000 + 100 * late + seed)  # noqa: S311
    text, events = (_app, _patterns)[seed % 2](rng, 24), _events(rng, 300, late=late)
    monkeypatch.setattr(rule_set, "MIN_SHARED_QUERIES", 10**9)
    runtime = _runtime(text)
    expected = _Heard(runtime)
    runtime.send("S", events)
    monkeypatch.setattr(rule_set, "MIN_SHARED_QUERIES", 8)
    runtime = _runtime(text)
    found = _Heard(runtime)
    for start, stop in _cuts(rng, events.num_rows):
        if rng.random() < 0.3:
            monkeypatch.setattr(rule_set, "MIN_SHARED_QUERIES", rng.choice([8, 8, 10**9]))
            saved, runtime = runtime.snapshot(), _runtime(text)
            runtime.restore(saved)
            found.listen(runtime)
        if rng.random() < 0.1:
            runtime.compact()
        runtime.send("S", events.slice(start, stop - start))
    assert found.by_stream() == expected.by_stream()


def _play(text: str, rng: random.Random, events: pa.RecordBatch, queries: list[str]) -> list[Any]:
    """Return the output of streams and `queries` for batches, chunks and events of another stream.

    Meanwhile the number of listeners to queries grows.
    """
    runtime = _runtime(text)
    heard = _Heard(runtime)
    waiting = list(queries)
    for start, stop in _cuts(rng, events.num_rows):
        piece = events.slice(start, stop - start)
        how = rng.randrange(4)
        if how == 0:
            runtime.send("S", piece, as_chunk=True)
        elif how == 1:
            sources = np.array([rng.randrange(2) for _ in range(piece.num_rows)])
            parts = [piece.filter(pa.array(sources == source)) for source in (0, 1)]
            runtime.send_merged([("S", parts[0]), ("T", parts[1])], sources)
        else:
            runtime.send("S", piece)
        if waiting and rng.random() < 0.3:
            query = waiting.pop()
            runtime.add_query_callback(query, partial(heard.take, query))
        runtime.advance_time(runtime.clock_ms + 2)
    streams = [told for told in heard.rows if told[0] not in queries]
    return [streams, *([told for told in heard.rows if told[0] == query] for query in queries)]


@pytest.mark.parametrize("seed", range(2))
def test_the_index_changes_nothing_for_chunks_listeners_and_streams_inside(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = random.Random(9_000 + seed)  # noqa: S311
    text = (_app, _patterns)[seed % 2](rng, 20).replace("from S", "from Inner").replace("=S", "=Inner")
    text = text.replace(STREAM, f"{STREAM} define stream Inner {ATTRIBUTES};")
    text += " from S select * insert into Inner; from T#window.length(2) select * insert all events into Inner;"
    events, heard = _events(rng, 200, late=seed % 2 == 1), []
    queries = [f"r{number}" for number in rng.sample(range(20), 6)]
    for least in (8, 10**9):
        monkeypatch.setattr(rule_set, "MIN_SHARED_QUERIES", least)
        heard.append(_play(text, random.Random(seed), events, queries))  # noqa: S311
    assert heard[0] == heard[1]


def test_rules_on_the_stream_outside_share_work_while_queries_are_heard(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = random.Random(77)  # noqa: S311
    text = _patterns(rng, 20) + " from T select key insert into Behind;"
    events, heard = _events(rng, 200, late=False), []
    for least in (8, 10**9):
        monkeypatch.setattr(rule_set, "MIN_SHARED_QUERIES", least)
        heard.append(_play(text, random.Random(3), events, [f"r{number}" for number in range(20)]))  # noqa: S311
    assert heard[0] == heard[1]


def test_patterns_of_one_shape_share_an_operator_and_show_what_they_hold() -> None:
    rules = [
        f"@info(name='r{number}') from every e1=S[key == '{key}' and whole > {number}]"
        f" -> e2=S[key == e1.key and part > 5] select e1.key as key, 'p{number}' as rule insert into Out;"
        for number, key in enumerate("abcdabcdab")
    ]
    runtime = _runtime(f"@app:playback {STREAM} {' '.join(rules)}")
    row = {"large": [None], "single": [None], "flag": [None]}
    names = pa.schema([("_timestamp", pa.int64()), *runtime_schema()])
    for stamp, key, whole in ((1, "a", 9), (2, "a", 3), (3, "b", 9), (4, "z", 9)):
        row |= {"_timestamp": [stamp], "key": [key], "whole": [whole], "part": [1.0]}
        runtime.send("S", pa.RecordBatch.from_pydict(row, schema=names))
    assert len(runtime._steps.shared_heads()) == 1
    held = {part.name: part.size.partial_matches for part in runtime.statistics().state if part.kind == "query"}
    assert held == {f"r{number}": {0: 2, 4: 1, 8: 1, 1: 1, 5: 1, 9: 0}.get(number, 0) for number in range(10)}


def runtime_schema() -> list[tuple[str, pa.DataType]]:
    types = (pa.utf8(), pa.int32(), pa.int64(), pa.float64(), pa.float32(), pa.bool_())
    return list(zip(("key", "whole", "large", "part", "single", "flag"), types, strict=True))


@pytest.mark.thorough
@pytest.mark.parametrize("most", [1, 3])
def test_the_limit_of_partial_matches_is_that_of_each_pattern(most: int, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = random.Random(31)  # noqa: S311
    text, events, heard = _patterns(rng, 24), _events(rng, 200, late=False), []
    for least in (8, 10**9):
        monkeypatch.setattr(rule_set, "MIN_SHARED_QUERIES", least)
        runtime = AppRuntime(analyse(parse(text)), max_partial_matches=most)
        runtime.start(0)
        told = _Heard(runtime)
        for row in range(events.num_rows):
            runtime.send("S", events.slice(row, 1))
        heard.append(told.rows)
    assert heard[0] == heard[1]
