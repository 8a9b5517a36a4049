"""Aggregates are those of the stored rows, in whatever order these leave: equal values, nulls, NaN and others.

`list:collect`, in a separate query over the same window that is never fused with it, returns the stored values.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Sequence
from random import Random
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from random_examples import examples

from siddhi.analysis.analyser import analyse
from siddhi.engine.app_runtime import AppRuntime
from siddhi.language.parser import parse
from siddhi.testing import record_batch, restored

SLIDING = [
    "length(1)",
    "length(4)",
    "length(40)",
    "time(30)",
    "time(200)",
    "externalTime(t, 30)",
    "externalTime(t, 200)",
    "timeLength(60, 4)",
    "timeLength(300, 20)",
    "sort(4, v)",
    "sort(4, k, 'desc', v, 'asc')",
    "unique:time(k, 50)",
    "unique:length(k, 2)",
    "unique:ever(v)",
    "frequent(2, k)",
    "lossyFrequent(0.4, 0.1, k)",
    "expression('count() <= 4')",
    "expression('max(v) - min(v) < 5')",
    "delay(30)",
]
BATCHES = [
    "lengthBatch(4)",
    "lengthBatch(4, true)",
    "timeBatch(40)",
    "timeBatch(40, 7, true)",
    "externalTimeBatch(t, 40)",
    "session(20 milliseconds)",
    "session(25 milliseconds, k)",
    "session(25 milliseconds, k, 15 milliseconds)",
    "cron('* * * * * ?')",
    "expressionBatch('count() <= 3')",
    "batch()",
    "unique:lengthBatch(v, 3)",
]
AGGREGATES = {
    "sum(n)": "n", "sum(d)": "d", "avg(d)": "d", "min(n)": "n", "max(n)": "n", "min(v)": "v", "max(v)": "v",
    "min(d)": "d", "max(d)": "d", "min(f)": "f", "max(f)": "f", "count()": "v", "distinctCount(n)": "n",
    "distinctCount(k)": "k", "stdDev(d)": "d", "stdDev(v)": "v", "and(b)": "b", "or(b)": "b",
}  # fmt: skip
COLLECTED = {"d": "convert(d, 'string')", "f": "convert(f, 'string')"}
"""What is collected of a column whose values JSON has not: NaN and infinity."""
STREAM = "define stream S (k string, v int, n long, d double, f float, b bool, t long); "
TYPES = "kvndfbt"


def expected(call: str, held: Sequence[Any]) -> object:
    """Return the aggregate of the stored values."""
    name, known = call[: call.index("(")], [value for value in held if value is not None]
    numbers = [value for value in known if value == value] if name in ("min", "max") else known  # noqa: PLR0124 - NaN
    rules: dict[str, Callable[[], object]] = {
        "count": lambda: len(held),
        "distinctCount": lambda: len(set(held)),
        "and": lambda: bool(held) and all(held),
        "or": lambda: any(held),
        "sum": lambda: as_long(sum(known)) if known else None,
        "avg": lambda: sum(known) / len(known) if known else None,
        "min": lambda: min(numbers, default=known[0] if known else None),
        "max": lambda: max(numbers, default=known[0] if known else None),
        "stdDev": lambda: deviation(known) if known else None,
    }
    return rules[name]()


def as_long(total: float) -> float:
    """Return a whole total as Java's long, which wraps."""
    return (total + 2**63) % 2**64 - 2**63 if isinstance(total, int) else total


def deviation(values: Sequence[float]) -> float:
    """Return the population's standard deviation, 0 for a single value whatever it is."""
    if len(values) == 1:
        return 0.0
    return float(np.std(values)) if all(map(math.isfinite, values)) else math.nan


def alike(found: object, right: object) -> bool:
    if isinstance(found, float) and isinstance(right, float):
        return (math.isnan(found) and math.isnan(right)) or math.isclose(found, right, rel_tol=1e-6, abs_tol=1e-5)
    return found == right


def random_app(draw: Random, calls: Sequence[str]) -> str:
    window, kind = draw.choice(SLIDING + BATCHES), draw.choice(["window", "window", "named", "join", "chain"])
    expired, group = draw.choice(["", "", "all events", "expired events"]), draw.choice(["", "group by k"])
    columns = dict.fromkeys(AGGREGATES[call] for call in calls)
    plain = ", ".join(f"{call} as a{place}" for place, call in enumerate(calls))
    lists = ", ".join(f"list:collect({COLLECTED.get(column, column)}) as l{column}" for column in columns)
    source, before = f"S#window.{window}", ""
    if kind == "named":
        source, before = "W", f"define window W (k string, v int, n long, d double, f float, b bool, t long) {window};"
        before += " from S insert into W;"
    elif kind == "join":
        left, right = draw.choice(SLIDING[:12]), draw.choice(SLIDING[:9])
        source = f"S#window.{left} as a join S#window.{right} as o on a.k == o.k"
        plain, lists = (re.sub(r"\((convert\()?(\w)", r"(\1a.\2", text) for text in (plain, lists))
        group = group.replace("k", "a.k")
    elif kind == "chain":
        before = f"from S#window.{draw.choice(SLIDING[:8])} select * insert all events into M;"
        source = f"M#window.{window}"
    queries = "".join(
        f"@info(name='q{o}') from {source} select {selected} {group} insert {expired} into {o}; "
        for o, selected in (("O", plain), ("L", lists))
    )
    # In a partition an aggregate in the text of a window is one for all keys.
    if kind != "named" and not window.startswith("expression") and draw.random() < 0.4:
        inner = before.replace("into M", "into #M")
        queries = queries.replace("from M#", "from #M#")
        return f"@app:playback {STREAM} partition with (k of S) begin {inner} {queries} end;"
    return f"@app:playback {STREAM}{before} {queries}"


def random_rows(draw: Random, *, late: bool) -> list[dict[str, Any]]:
    rows, now = [], 1_000
    strange = draw.random() < 0.5
    for _ in range(draw.randint(5, 120)):
        now += draw.choice([0, 0, 1, 3, 10, 30])
        time = now
        if late and draw.random() < 0.3:
            time = max(now + draw.choice([-200, -40, -15, -3, 25]), 1)
        v = draw.choice([None, *range(6)] if strange else range(draw.choice([3, 3, 40])))
        d = draw.choice([None, -0.0, 0.0, 1.5, -2.25, math.inf, math.nan] if strange else [0.5, 1.0, 2.5, -3.0])
        k, b = draw.choice("aab"), draw.choice([True, True, False])
        n = draw.choice([v, 2**62 + draw.randint(0, 2), -(2**62)]) if strange else v
        rows.append({"timestamp": time, "data": [k, v, n, d, d, b, time]})
    return rows


def run(text: str, rows: Sequence[dict[str, Any]], draw: Random) -> dict[str, list[dict[str, Any]]]:
    found: dict[str, list[dict[str, Any]]] = {"O": [], "L": []}
    runtime = AppRuntime(analyse(parse(text)))

    def listen() -> None:
        for stream, taken in found.items():

            def take(batch: pa.RecordBatch, taken: list[dict[str, Any]] = taken) -> None:
                taken.extend(batch.to_pylist())

            runtime.add_stream_callback(stream, take)

    listen()
    runtime.start(0)
    schema = runtime.app.streams["S"].schema
    place, longest = 0, draw.choice([1, 3, 200])
    while place < len(rows):
        end = place + draw.randint(1, longest)
        runtime.send("S", record_batch(schema, rows[place:end]))
        place = end
        if draw.random() < 0.1:
            runtime = restored(runtime)
            listen()
    runtime.advance_time(1_000_000)
    return found


def check(seed: int) -> None:
    draw = Random(seed)  # noqa: S311 - repeatable, not secret
    calls = draw.sample(sorted(AGGREGATES), draw.randint(1, 4))
    rows = random_rows(draw, late=draw.random() < 0.4)
    text = random_app(draw, calls)
    found = run(text, rows, draw)
    assert len(found["O"]) == len(found["L"])
    for number, (row, held) in enumerate(zip(found["O"], found["L"], strict=True)):
        for place, call in enumerate(calls):
            values = json.loads(held[f"l{AGGREGATES[call]}"] or b"[]")
            if AGGREGATES[call] in COLLECTED:
                values = [None if value is None else float(value) for value in values]
            right = expected(call, values)
            assert alike(row[f"a{place}"], right), (seed, text, number, call, row, values)


@pytest.mark.thorough
@pytest.mark.parametrize("seed", range(examples(40)))
def test_aggregates_are_those_of_the_rows_held(seed: int) -> None:
    check(seed)
