"""The clock of an engine, which advances its time and fires its timers."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import pyarrow as pa

from topology.events.frames import shifted
from topology.time.origins import TimedEngine

BEHIND_MS = 5_000
"""The lead of an engine's time over the time of day from which it was set by a wrong clock."""
FAR_MS = 400 * 86_400_000
"""The length of an interruption from which an engine does not process the time second by second."""


class ShiftedEngine:
    """An engine whose time is the time of day plus `shift_ms`.

    The time of an engine never goes back, and its state is full of times. One that was fed by a clock ten hours ahead
    would wait for ten hours after that is right again, and so would each that is restored from its checkpoint. Instead
    its time continues from where it is, at the pace of the time of day, and everything outside sees the time of day.
    """

    def __init__(self, engine: TimedEngine) -> None:
        self._engine = engine
        self.shift_ms = 0

    def align(self, now_ms: int) -> int:
        """Shift the engine's time if `now_ms` and that cannot both be right; return by how much it was wrong."""
        if not self._engine.clock_ms:
            return 0
        ahead_ms = self._engine.clock_ms - self.shift_ms - now_ms
        if -FAR_MS <= ahead_ms <= BEHIND_MS:
            return 0
        self.shift_ms += ahead_ms
        return ahead_ms

    @property
    def clock_ms(self) -> int:
        clock_ms = self._engine.clock_ms
        return clock_ms - self.shift_ms if clock_ms else 0

    def next_deadline_ms(self) -> int | None:
        deadline_ms = self._engine.next_deadline_ms()
        return None if deadline_ms is None else deadline_ms - self.shift_ms

    def advance_time(self, now_ms: int) -> None:
        self._engine.advance_time(now_ms + self.shift_ms)

    def send(self, stream: str, batch: pa.RecordBatch, now_ms: int) -> None:
        self._engine.send(stream, shifted(batch, self.shift_ms), now_ms + self.shift_ms)

    def send_merged(
        self,
        rows: Sequence[tuple[str, pa.RecordBatch]],
        sources: np.ndarray[tuple[int], np.dtype[np.int64]],
        now_ms: int,
    ) -> None:
        moved = [(stream, shifted(batch, self.shift_ms)) for stream, batch in rows]
        self._engine.send_merged(moved, sources, now_ms + self.shift_ms)


class EngineClock:
    """Advances the time of an engine.

    `at` is called with the processing time of what the engine makes next. With `each_time`, timers of different times
    fire in calls of their own, so that results of one call all have the same time.
    """

    def __init__(self, engine: TimedEngine, at: Callable[[int], None], *, each_time: bool) -> None:
        self.engine = ShiftedEngine(engine)
        self.time_ms = 0
        """The present time of the engine."""
        self._at = at
        self._each_time = each_time

    def move(self, time_ms: int) -> None:
        """Advance to `time_ms`, the time of the next call of the engine; never back."""
        self.time_ms = max(self.time_ms, time_ms)
        self._at(self.time_ms)

    def pass_time(self, time_ms: int) -> None:
        """Advance to `time_ms` and fire the timers that are due until then."""
        before = None
        while self._each_time and (due := self.engine.next_deadline_ms()) is not None and before != due < time_ms:
            before = due
            self.move(due)
            self.engine.advance_time(self.time_ms)
        self.move(time_ms)
        self.engine.advance_time(time_ms)
