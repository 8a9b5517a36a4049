"""Run expressions and queries of the extension packs on the engine."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from siddhi.analysis.analyser import analyse
from siddhi.engine.app_runtime import AppRuntime
from siddhi.language.parser import parse
from siddhi.testing import record_batch

DROPPED = "dropped"
"""Stands for the result of a row that failed."""


def results(expression: str, attributes: str, rows: Sequence[Sequence[Any]]) -> list[Any]:
    """Return the results of `expression` for each of `rows`, which have values of `attributes` (as in a stream
    definition)."""
    columns = f"row_number int, {attributes}" if attributes else "row_number int"
    text = f"define stream In ({columns}); from In select row_number, {expression} as answer insert into Out;"
    app = analyse(parse(text))
    runtime = AppRuntime(app)
    answers: list[Any] = [DROPPED] * len(rows)

    def receive(batch: pa.RecordBatch) -> None:
        for number, answer in zip(batch["row_number"].to_pylist(), batch["answer"].to_pylist(), strict=True):
            answers[number] = json.loads(answer) if isinstance(answer, bytes) else answer

    runtime.add_stream_callback("Out", receive)
    runtime.start(0)
    events = [{"timestamp": 0, "data": [number, *row]} for number, row in enumerate(rows)]
    runtime.send("In", record_batch(app.streams["In"].schema, events))
    return answers


def result_type(expression: str, attributes: str) -> str:
    """Return the type that analysis finds for `expression`."""
    text = f"define stream In ({attributes}); from In select {expression} as answer insert into Out;"
    ((_, type_),) = analyse(parse(text)).streams["Out"].schema.attributes
    return type_.value


class Run:
    """A running app with the stream `In`; `emitted` collects the output of query `q`.

    Each entry is `(kind, timestamp, values)` with kind "+" for current and "-" for expired rows.
    """

    def __init__(self, text: str, start_ms: int = 0) -> None:
        self.app = analyse(parse(text))
        self.start_ms = start_ms
        self.runtime = self._built()
        self.emitted: list[tuple[str, int, list[Any]]] = []
        self.runtime.start(start_ms)

    def _built(self) -> AppRuntime:
        runtime = AppRuntime(self.app)
        runtime.add_query_callback("q", self._receive)
        return runtime

    def _receive(self, batch: pa.RecordBatch) -> None:
        for row in batch.to_pylist():
            stamp, kind = row.pop("_timestamp"), row.pop("_kind")
            self.emitted.append(("+" if kind == 0 else "-", stamp, list(row.values())))

    def send(self, *rows: tuple[int, list[Any]]) -> None:
        """Send `(timestamp, values)` rows in one batch, with the clock at the last of them."""
        events = [{"timestamp": stamp, "data": data} for stamp, data in rows]
        self.runtime.send("In", record_batch(self.app.streams["In"].schema, events), rows[-1][0])

    def advance(self, now_ms: int) -> None:
        self.runtime.advance_time(now_ms)

    def restart(self) -> None:
        """Continue from a snapshot of the app."""
        state = self.runtime.snapshot()
        self.runtime = self._built()
        self.runtime.restore(state)

    def taken(self) -> list[str]:
        """Return the output since the last call, each row as `+value,value`."""
        written = [
            kind + ",".join("null" if value is None else str(value) for value in row) for kind, _, row in self.emitted
        ]
        self.emitted.clear()
        return written
