"""Results of functions that an app defines itself."""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa

from siddhi.analysis.analyser import analyse
from siddhi.engine.app_runtime import AppRuntime
from siddhi.language.parser import parse
from siddhi.testing import record_batch

FAILED = "failed"


def script_answers(language: str, body: str, result: str, attributes: str, *rows: list[Any]) -> list[Any]:
    """Return the results of `f[language] {body}` for `rows` with values of `attributes`.

    FAILED for rows in the fault stream.
    """
    arguments = ", ".join(attribute.split()[0] for attribute in attributes.split(", "))
    app = analyse(
        parse(
            f"@OnError(action='STREAM') define stream S (number int, {attributes});"
            f"define function f[{language}] return {result} {{{body}}};"
            f"from S select number, f({arguments}) as answer insert into Out;"
            "from !S select number insert into Failed;"
        )
    )
    runtime = AppRuntime(app)
    found: list[Any] = [None] * len(rows)

    def receive(batch: pa.RecordBatch) -> None:
        for row in batch.to_pylist():
            answer = row["answer"]
            found[row["number"]] = json.loads(answer) if isinstance(answer, bytes) else answer

    def book(batch: pa.RecordBatch) -> None:
        for number in batch["number"].to_pylist():
            found[number] = FAILED

    runtime.add_stream_callback("Out", receive)
    runtime.add_stream_callback("Failed", book)
    runtime.start(0)
    events = [{"timestamp": 1, "data": [number, *row]} for number, row in enumerate(rows)]
    runtime.send("S", record_batch(app.streams["S"].schema, events), 1)
    return found
