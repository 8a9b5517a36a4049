"""Floats are written with the shortest text that reads back as the same float."""

from __future__ import annotations

import json

import numpy as np
import pyarrow as pa
import pytest

from siddhi.analysis.analyser import analyse
from siddhi.engine.app_runtime import AppRuntime
from siddhi.float_values import written, written_batch, written_list
from siddhi.language.parser import parse


def test_any_float_reads_back_from_what_is_written() -> None:
    floats = np.random.default_rng(28).integers(0, 2**32, 100_000, dtype=np.uint32).view(np.float32)
    back = np.array(written(pa.array(floats)).to_pylist(), dtype=np.float64).astype(np.float32)
    assert ((back == floats) | np.isnan(floats)).all()


@pytest.mark.parametrize("text", ["0.1", "16777216.0", "3.4028235e+38", "1e-45", "-0.0", "123456.79"])
def test_the_text_is_the_shortest(text: str) -> None:
    assert json.dumps(written(pa.array([np.float32(text)])).to_pylist()) == f"[{text}]"


def test_what_is_no_float_stays_as_it_is() -> None:
    batch = pa.record_batch({"d": [0.1, None], "s": ["a", None]})
    assert written_batch(batch) is batch
    floats = pa.record_batch({"f": pa.array([0.1, None], pa.float32()), "s": ["a", None]})
    assert written_batch(floats).to_pylist() == [{"f": 0.1, "s": "a"}, {"f": None, "s": None}]
    assert written_list([float(np.float32(0.1)), None, "a", 7]) == [0.1, None, "a", 7]


@pytest.mark.parametrize(
    ("call", "object_"),
    [
        ("map:create('f', f)", {"f": 0.1}),
        ("list:create(f)", [0.1]),
        ("createSet(f)", [0.1]),
        ("list:collect(f)", [0.1]),
    ],
)
def test_objects_hold_floats_as_they_are_written(call: str, object_: object) -> None:
    runtime = AppRuntime(analyse(parse(f"define stream S (f float); from S select {call} as o insert into O;")))
    found: list[object] = []
    runtime.add_stream_callback("O", lambda batch: found.extend(batch.column("o").to_pylist()))
    runtime.start(0)
    runtime.send("S", pa.record_batch({"f": pa.array([0.1], pa.float32())}))
    assert [json.loads(one) for one in found if isinstance(one, bytes)] == [object_]
