"""Rates and windows of rows that timers of several partition instances send between two events."""

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
_WINDOW = """@app:playback
define stream T (k string, b bool);
partition with (b of T) begin
from every not T for 100 milliseconds or e2=T within 1 sec select e2.k as k insert into #M;
from #M#window.{} select k, count() as n insert all events into O;
end;"""
_EVENTS = [(1850, "a", True), (2150, "b", True), (2850, "c", False), (2950, "d", False)]


def _answers(app: str, size: int, events: list[tuple[int, str, bool]]) -> list[tuple[int, str | None, int | None]]:
    """Return the results of the events when `size` of them are sent at a time."""
    found: list[tuple[int, str | None, int | None]] = []
    runtime = AppRuntime(analyse(parse(app)))
    runtime.add_stream_callback(
        "O", lambda batch: found.extend((row[TIMESTAMP], row["k"], row.get("n")) for row in batch.to_pylist())
    )
    runtime.start(1000)
    for first in range(0, len(events), size):
        times, keys, flags = zip(*events[first : first + size], strict=True)
        runtime.send("T", pa.record_batch({TIMESTAMP: pa.array(times), "k": pa.array(keys), "b": pa.array(flags)}))
    return found


@pytest.mark.parametrize("rate", ["last", "all", "first", "snapshot"])
def test_silences_of_one_moment_reach_a_rate_together(rate: str) -> None:
    alone = _answers(_APP.format(rate), 1, _EVENTS)
    assert _answers(_APP.format(rate), len(_EVENTS), _EVENTS) == alone
    if rate == "last":
        assert alone == [(time, None, None) for time in (2050, 2250, 2450, 2650, 2850)]


_OF_WINDOWS = {
    "timeBatch(200)": [(1800, True), (2600, True), (2900, False), (3050, False), (3150, False)],
    "timeLength(200, 2)": [(1150, False), (1450, False), (1450, True), (1550, False), (1550, False)],
}


@pytest.mark.parametrize("window", _OF_WINDOWS)
def test_windows_take_silences_of_one_moment_alike_in_batches_and_alone(window: str) -> None:
    events = [(time, "abcde"[place], flag) for place, (time, flag) in enumerate(_OF_WINDOWS[window])]
    app = _WINDOW.format(window)
    alone = _answers(app, 1, events)
    assert alone
    assert _answers(app, len(events), events) == alone
