"""Joins with an aggregation read each period once for all events of a batch with that period."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from siddhi.analysis.analyser import analyse
from siddhi.engine.app_runtime import AppRuntime
from siddhi.language.parser import parse

DEFINITIONS = """@app:playback define stream T (k string, v int, ts long);
    define stream S (k string, v int, first long, stop long, per string);
    define aggregation A from T select k, sum(v) as total, count() as n group by k
    aggregate by ts every sec ... hour;"""
JOINS = (
    "S as s join A as a on s.k == a.k within s.first, s.stop per s.per",
    "S as s left outer join A as a on s.k == a.k and s.v < a.total within s.first, s.stop per 'seconds'",
    "S as s join A as a on s.v < a.total within 0L, s.stop per s.per",
    "S as s join A as a within '1970-01-01 **:**:**' per s.per",
    "S as s join A as a on count() > 3L within s.first, s.stop per s.per",
    "S#window.length(2) as s join A as a on s.k == a.k within s.first, s.stop per 'minutes'",
)


@pytest.mark.parametrize("join", JOINS)
def test_a_batch_gives_what_single_events_give(join: str) -> None:
    text = f"{DEFINITIONS} from {join} select s.k as k, s.v as v, a.total as total, a.n as n insert into O;"
    app = analyse(parse(text))
    draw = np.random.default_rng(5)
    times = np.sort(draw.integers(1_000, 200_000, 80))
    fed = pa.record_batch(
        {
            "_timestamp": times,
            "k": [f"k{number}" for number in draw.integers(0, 30, 80)],
            "v": pa.array(draw.integers(0, 9, 80), pa.int32()),
            "ts": times,
        }
    )
    count = 300
    keys = [None if number == 30 else f"k{number}" for number in draw.integers(0, 31, count)]
    firsts = draw.integers(0, 20, count) * 7_900 + draw.integers(0, 3, count)
    asked = pa.record_batch(
        {
            "_timestamp": np.arange(200_000, 200_000 + count),
            "k": pa.array(keys, pa.utf8()),
            "v": pa.array(draw.integers(0, 9, count), pa.int32()),
            "first": firsts,
            "stop": firsts + draw.choice([0, 5, 1_000, 60_000, 200_000], count),
            "per": draw.choice(["sec", "minutes", "hours", "days", "ages"], count, p=[0.3, 0.3, 0.3, 0.05, 0.05]),
        }
    )

    def answers(size: int) -> list[Any]:
        runtime = AppRuntime(app)
        rows: list[Any] = []
        lost: list[int] = []
        runtime.add_failure_listener(lambda failed: lost.append(failed.events))
        runtime.add_stream_callback("O", lambda batch: rows.extend(batch.to_pylist()))
        runtime.start(0)
        runtime.send("T", fed)
        for start in range(0, count, size):
            if start == 150:
                runtime.send("T", fed)
            runtime.send("S", asked.slice(start, size))
        return [rows, sum(lost)]

    alone = answers(1)
    assert alone[0]
    assert answers(150) == answers(50) == alone
