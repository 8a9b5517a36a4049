"""Results of functions over the values of a row are cached between batches, without changing them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest

from siddhi.analysis.analyser import analyse
from siddhi.engine.app_runtime import AppRuntime
from siddhi.engine.operators.functions import rows as rows_module
from siddhi.language.parser import parse

TEXT = """@app:playback
@OnError(action='STREAM') define stream S (text string, number double);
from S select str:upper(text) as u, str:concat(text, '-', number) as c, str:charAt(text, 1) as k,
    str:contains(text, 'b') as b, str:length(text) as n insert into Out;
"""


def _play(sizes: list[int], texts: list[str | None], *, compacts: bool = False) -> list[Any]:
    runtime = AppRuntime(analyse(parse(TEXT)))
    found: list[Any] = []
    for stream in ("Out", "!S"):
        runtime.add_stream_callback(stream, lambda batch, stream=stream: found.append((stream, batch.to_pylist())))  # type: ignore[misc]
    runtime.start(0)
    start = 0
    for size in sizes:
        piece = texts[start : start + size]
        numbers = [None if place % 7 == 3 else float(place % 3) for place in range(start, start + len(piece))]
        records = {"_timestamp": list(range(1 + start, 1 + start + len(piece))), "text": piece, "number": numbers}
        runtime.send("S", pa.record_batch({**records, "text": pa.array(piece, pa.utf8()),
                                           "number": pa.array(numbers, pa.float64())}))  # fmt: skip
        start += size
        if compacts:
            runtime.compact()
    return [(stream, row) for stream, batch in sorted(found, key=lambda one: one[0]) for row in batch]


@pytest.mark.parametrize("most", [3, 16_384])
def test_remembered_results_are_those_of_a_call_for_each_row(most: int, monkeypatch: pytest.MonkeyPatch) -> None:
    texts = [["ab", "b", None, "xyz", "", "ab", "é1", "ab"][place * place % 8] for place in range(120)]
    expected = _play([1] * 120, texts)
    monkeypatch.setattr(rows_module, "MAX_REMEMBERED_RESULTS", most)
    assert _play([1] * 120, texts, compacts=True) == expected
    assert _play([40, 1, 1, 30, 48], texts) == expected
    assert _play([3] * 40, texts, compacts=True) == expected


def test_a_function_is_called_once_for_the_same_values(monkeypatch: pytest.MonkeyPatch) -> None:
    calls = []
    make = rows_module.RowFunction.__init__

    def counting(self: Any, *arguments: Any, compute: Callable[..., object], **options: Any) -> None:
        def counted(*given: object) -> object:
            calls.append((self.name, given))
            return compute(*given)

        make(self, *arguments, compute=counted, **options)

    monkeypatch.setattr(rows_module.RowFunction, "__init__", counting)
    _play([1] * 60, ["ab", "cd", "abc"] * 20)
    assert len([given for name, given in calls if name == "upper"]) == 3


def test_a_function_that_gets_ever_new_values_does_not_remember_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rows_module, "MAX_REMEMBERED_RESULTS", 10)
    texts = [f"b{place}" for place in range(100)]
    rows = [row["u"] for stream, row in _play([1] * 50 + [50], texts) if stream == "Out"]
    assert rows == [text.upper() for text in texts]


def test_a_script_is_called_again_for_each_batch() -> None:
    """A script may use random numbers or a clock, so its results are not cached forever."""
    script = "define function f[javascript] return double { return Math.random(); };"
    text = f"@app:playback {script} define stream S (a int); from S select f(a) as b insert into Out;"
    runtime = AppRuntime(analyse(parse(text)))
    found: list[float] = []
    runtime.add_stream_callback("Out", lambda batch: found.extend(batch.column("b").to_pylist()))
    runtime.start(0)
    for size in (1, 40, 1, 40):
        times = pa.array([len(found) + 1] * size, pa.int64())
        runtime.send("S", pa.record_batch({"_timestamp": times, "a": pa.array([1] * size, pa.int32())}))
    assert len({found[0], found[1], found[41], found[42]}) == 4
