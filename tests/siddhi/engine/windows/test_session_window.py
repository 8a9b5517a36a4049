"""Sessions of many keys, against a check of all of them at every timer."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from per_event.session import Session, SessionWindow

from siddhi.analysis.analyser import analyse
from siddhi.column_names import TIMESTAMP
from siddhi.engine.app_runtime import AppRuntime
from siddhi.engine.columnar.java_order import hash_map_order
from siddhi.engine.operators.windows.base.row_window import Emission
from siddhi.engine.operators.windows.base.window import WINDOWS
from siddhi.language.parser import parse

Events = list[tuple[int, str, int]]


def answers(window: str, events: Events, size: int, *, restored: bool = False) -> list[dict[str, Any]]:
    """Return the output of `window` for `events` (timestamp, k, v), sent `size` at a time."""
    query = f"from S#window.{window} select k, v insert all events into O;"
    app = analyse(parse(f"@app:playback define stream S (k string, v int); {query}"))
    rows: list[dict[str, Any]] = []

    def begun() -> AppRuntime:
        runtime = AppRuntime(app)
        runtime.add_stream_callback("O", lambda batch: rows.extend(batch.to_pylist()))
        return runtime

    runtime = begun()
    runtime.start(0)
    for first in range(0, len(events), size):
        times, keys, values = zip(*events[first : first + size], strict=True)
        columns = {TIMESTAMP: pa.array(times, pa.int64()), "k": pa.array(keys), "v": pa.array(values, pa.int32())}
        runtime.send("S", pa.record_batch(columns))
        if restored:
            saved = runtime.snapshot()
            runtime = begun()
            runtime.restore(saved)
    runtime.advance_time(100_000)
    return rows


def look_at_all(self: SessionWindow, due: int, out: Emission) -> None:
    """`SessionWindow.fire`, key by key."""
    keys = hash_map_order(self.sessions)
    for key in sorted(keys, key=lambda key: self.sessions[key].current.end):
        if self.sessions[key].current.events and due >= self.sessions[key].current.end:
            self._end_current(key, out)
    for key in sorted(keys, key=lambda key: self.sessions[key].previous.end):
        sessions = self.sessions[key]
        if sessions.previous.events and due >= sessions.previous.alive:
            self._leave(sessions.previous, out)
            sessions.previous = Session()
        if not sessions.current.events and not sessions.previous.events:
            del self.sessions[key]


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize(
    "window",
    [
        "session(20 millisec, k)",
        "session(20 millisec, k, 15 millisec)",
        "session(20 millisec, k, 20 millisec)",
        "session(20 millisec)",
    ],
)
def test_sessions_that_end_leave_as_a_look_at_all_has_them(
    window: str, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    draw = np.random.default_rng(seed)
    time, events = 1000, []
    for number in range(300):
        time += int(draw.integers(0, 3))
        late = int(draw.integers(0, 45)) if draw.random() < 0.2 else 0
        events.append((time - late, f"key{draw.integers(0, 40) ** 2}", number))
    found = [answers(window, events, 300), answers(window, events, 7), answers(window, events, 50, restored=True)]
    monkeypatch.setattr(SessionWindow, "fire", look_at_all)
    monkeypatch.setitem(WINDOWS._members, ("", "session"), SessionWindow)
    expected = answers(window, events, 300)
    assert len(expected) > 400
    assert found == [expected] * 3
