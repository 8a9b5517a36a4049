"""Random graphs of queries in which events fail.

The results are those of an engine that processes every event alone, depth first from reader to reader. Batches make no
difference, neither to the failed events nor to the reasons. `FAILING_GRAPHS` is the number of graphs, `FAILING_FIRST`
the first one.
"""

from __future__ import annotations

import json
import logging
import os
import random
from typing import Any

import pyarrow as pa
import pytest

from siddhi.analysis.analyser import analyse
from siddhi.engine.app_runtime import AppRuntime
from siddhi.engine.streams.graph import Graph
from siddhi.language.parser import parse
from siddhi.testing import Between, Case, record_batch, restored, run_case

FIRST = int(os.environ.get("FAILING_FIRST", "0"))
GRAPHS = int(os.environ.get("FAILING_GRAPHS", "12"))
ROOTS = ("S", "R")
TEXTS = ("1", "2", "3", "x", "y", "1,x,2", None)
WINDOWS = (
    "#window.length(2)",
    "#window.length(1)",
    "#window.lengthBatch(2)",
    "#window.lengthBatch(2, true)",
    "#window.time(300)",
    "#window.timeBatch(400)",
    "#window.delay(150)",
    "#window.session(200L)",
)


class Drawn:
    """A random app, its listeners, and events for it."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)  # noqa: S311 - no secret
        self.middle = [f"M{number}" for number in range(self.random.randint(1, 3))]
        self.outputs: list[str] = []
        self.parts = ["@app:playback @app:name('x')"]
        self.parts += [f"@OnError(action='STREAM') define stream {root} (k string, b string, n int);" for root in ROOTS]
        failing = [name for name in self.middle if self.random.random() < 0.7]
        for name in self.middle:
            on_error = "@OnError(action='STREAM') " if name in failing else ""
            self.parts.append(f"{on_error}define stream {name} (k string, n int);")
        queries = [self.feeder(place) for place in range(len(self.middle)) for _ in range(self.random.randint(1, 3))]
        queries += [self.reader(f"O{number}") for number in range(self.random.randint(1, 4))]
        if self.random.random() < 0.3:
            self.random.shuffle(queries)
        self.parts += queries
        for name in [*ROOTS, *failing]:
            self.parts.append(f"from !{name} select k, n, _error insert into F{name};")
            self.outputs.append(f"F{name}")
        self.app = "\n".join(self.parts)
        self.events = self.draw_events()

    def window(self) -> str:
        return self.random.choice(("", "", *WINDOWS))

    def feeder(self, place: int) -> str:
        source = self.random.choice([*ROOTS, *self.middle[:place]])
        text = self.random.choice(("k", "b")) if source in ROOTS else "k"
        handler = "#str:tokenize(k, ',')" if self.random.random() < 0.2 else self.window()
        shown = "token" if "tokenize" in handler else text
        kind = self.random.choice(("", "all events ", "expired events ")) if "window" in handler else ""
        condition = self.random.choice(("", "[n > 2]", f"[math:parseInt({text}) > 1]"))
        number = self.random.choice((f"math:parseInt({text})", "n"))
        target = self.middle[place]
        return f"from {source}{condition}{handler} select {shown} as k, {number} as n insert {kind}into {target};"

    def reader(self, name: str) -> str:
        self.outputs.append(name)
        source = self.random.choice(self.middle)
        other = self.random.choice([*self.middle, "S"])
        kind = self.random.randrange(5)
        if kind == 0:
            joined = f"from {source}#window.length(2) as x join {other}#window.length(2) as y on x.k == y.k"
            return f"{joined} select x.k as k, math:parseInt(y.k) as p insert into {name};"
        if kind == 1:
            pattern = f"from every e1={source}[n > 1] -> e2={other}[k != '']"
            return f"{pattern} select e1.k as k, math:parseInt(e2.k) as p insert into {name};"
        if kind == 2:
            inner = f"from {source}{self.window()} select k, math:parseInt(k) as p, count() as c insert into {name};"
            return f"partition with (k of {source}) begin {inner} end;"
        selected = self.random.choice(
            ("k, math:parseInt(k) as p", "k, count() as p, math:parseInt(k) as q", "k, sum(math:parseInt(k)) as p")
        )
        return f"from {source}{self.window()} select {selected} insert all events into {name};"

    def draw_events(self) -> list[dict[str, Any]]:
        clock, events = 1_000, list[dict[str, Any]]()
        for _ in range(self.random.randint(3, 14)):
            clock += self.random.choice((0, 1, 50, 100, 130, 400))
            rows = [self.row(clock) for _ in range(self.random.choice((1, 1, 1, 1, 3)))]
            stream = self.random.choice("SSR")
            events.append({"stream": stream, "batch": rows} if len(rows) > 1 else {"stream": stream, **rows[0]})
        return [*events, {"advance_time": clock + 2_000}]

    def row(self, clock: int) -> dict[str, Any]:
        return {
            "timestamp": clock,
            "data": [self.random.choice(TEXTS), self.random.choice(TEXTS), self.random.randint(0, 4)],
        }


def differences(drawn: Drawn, expected: dict[str, Any], batch_rows: int | None, between: Between | None) -> list[str]:
    """Return the differences between the output and `expected`."""
    document = {
        "events": drawn.events,
        "listen": {"streams": [*drawn.outputs, *drawn.middle], "queries": []},
        "start_time": 1_000,
        "expect": {"streams": expected},
    }
    return list(run_case(Case("graph", "fault", drawn.app, document), batch_rows, between).differences)


def carried_alone(drawn: Drawn) -> dict[str, list[Any]]:
    """Return the output of each stream when every event is processed alone, as `[timestamp, [values]]`."""
    app = analyse(parse(drawn.app))
    runtime = AppRuntime(app)
    found: dict[str, list[Any]] = {}
    for name in [*drawn.outputs, *drawn.middle]:
        found[name] = []

        def receive(batch: pa.RecordBatch, rows: list[Any] = found[name]) -> None:
            for row in batch.to_pylist():
                stamp, _ = row.pop("_timestamp"), row.pop("_kind", None)
                values = [json.loads(value) if isinstance(value, bytes) else value for value in row.values()]
                rows.append([stamp, values])

        runtime.add_stream_callback(name, receive)
    runtime.start(1_000)
    for event in drawn.events:
        if "advance_time" in event:
            runtime.advance_time(event["advance_time"])
            continue
        rows = event.get("batch", [event])
        records = record_batch(app.streams[event["stream"]].schema, rows)
        runtime.send(event["stream"], records, as_chunk=len(rows) > 1)
    return found


@pytest.mark.thorough
@pytest.mark.parametrize("seed", range(FIRST, FIRST + GRAPHS))
def test_the_split_changes_nothing_of_what_fails_and_why(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    drawn = Drawn(seed)
    logging.disable(logging.ERROR)
    try:
        with monkeypatch.context() as alone:
            alone.setattr(Graph, "columnar", lambda *_, **_alone: None)
            expected = carried_alone(drawn)
        for batch_rows, between in ((None, None), (1, restored), (3, None)):
            assert differences(drawn, expected, batch_rows, between) == [], f"seed {seed}:\n{drawn.app}"
    finally:
        logging.disable(logging.NOTSET)
