"""Output rates of rows that timers of several partition instances bring between two events."""

from __future__ import annotations

import pyarrow as pa
import pytest

from siddhi.analysis.analyser import analyse
from siddhi.column_names import TIMESTAMP
from siddhi.engine.app_runtime import AppRuntime
from siddhi.language.parser import parse

_APP = """@app:playback
define stream T (k string, b bool);
partition with (b of T) begin
from every not T for 100 milliseconds or e2=T within 1 sec select e2.k as k
output {} every 200 milliseconds insert into O;
end;"""
_EVENTS = [(1850, "a", True), (2150, "b", True), (2850, "c", False), (2950, "d", False)]


def _answers(rate: str, size: int) -> list[tuple[int, str | None]]:
    """Return the results of the events when `size` of them are sent at a time."""
    found: list[tuple[int, str | None]] = []
    runtime = AppRuntime(analyse(parse(_APP.format(rate))))
    runtime.add_stream_callback(
        "O", lambda batch: found.extend((row[TIMESTAMP], row["k"]) for row in batch.to_pylist())
    )
    runtime.start(1000)
    for first in range(0, len(_EVENTS), size):
        times, keys, flags = zip(*_EVENTS[first : first + size], strict=True)
        runtime.send("T", pa.record_batch({TIMESTAMP: pa.array(times), "k": pa.array(keys), "b": pa.array(flags)}))
    return found


@pytest.mark.parametrize("rate", ["last", "all", "first", "snapshot"])
def test_silences_of_one_moment_reach_a_rate_together(rate: str) -> None:
    alone = _answers(rate, 1)
    assert _answers(rate, len(_EVENTS)) == alone
    if rate == "last":
        assert alone == [(time, None) for time in (2050, 2250, 2450, 2650, 2850)]
