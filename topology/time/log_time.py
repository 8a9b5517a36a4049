"""The time of a replica whose plan runs under the system clock, which only the log determines.

    log ──a@12──b@12──tick 60──c@75──▶   every replica runs a and b at 12, fires timers until 60, then runs c at 75

The clock of the replica's host plays no part, nor does when a bundle arrives. So replicas that have read the log as far
have equal states.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pyarrow as pa

from topology.events.bundle import Bundle
from topology.events.watermarks import NO_WATERMARK
from topology.time.engine_clock import EngineClock
from topology.time.merger import EventTimeMerger
from topology.time.origins import TimedEngine
from topology.time.system_time import cut_by_clock

TICK_MS = 50
"""The interval of times in a log without events, which is the maximum delay of replicas' timers."""


class LogTime:
    """Feeds `engine` with bundles of a log, in the order in which they come.

    `at` is called with the processing time of what the engine makes next; with `each_time`, results of one call all
    have the same time.
    """

    def __init__(
        self, engine: TimedEngine, merger: EventTimeMerger, at: Callable[[int], None], *, each_time: bool
    ) -> None:
        self.merger = merger
        self._clock = EngineClock(engine, at, each_time=each_time)
        self._engine = self._clock.engine
        self._each_time = each_time
        self.wrong_ms = 0
        """By how much the engine's time was found to be wrong since its owner looked last."""
        self._now_ms = 0
        self._promised: tuple[int, bool] = (NO_WATERMARK, False)

    @property
    def shift_ms(self) -> int:
        """How much later than the log's time the times of what the engine makes are."""
        return self._engine.shift_ms

    @property
    def waits(self) -> bool:
        """Return whether the log is behind the time of day, so that the stage must show consumers that it is alive."""
        return not self._promised[1]

    @property
    def behind_ms(self) -> int:
        """Return the lag of the log's time behind the time of day."""
        return 0 if self._promised[1] or not self._clock.time_ms else max(0, self._now_ms - self._clock.time_ms)

    def awaits(self) -> tuple[str, ...]:
        """Return nothing: the log knows which channels have events that must come first."""
        return ()

    def take(self, bundles: Sequence[Bundle], now_ms: int) -> list[Bundle]:
        """Run bundles of the log through the engine, and return them, to be settled."""
        self._now_ms = now_ms
        for bundle in bundles:
            if bundle.clock_ms > 0:
                self._align(bundle.clock_ms)
            for stream, batch, clock_ms in cut_by_clock(bundle):
                self._send(stream, batch, clock_ms)
            if bundle.clock_ms > self._clock.time_ms:
                self._clock.pass_time(bundle.clock_ms)
            self._promised = (bundle.watermark_ms, bundle.idle)
        return list(bundles)

    def on_time(self, now_ms: int) -> list[Bundle]:
        """Do nothing: time advances with the log."""
        self._now_ms = now_ms
        return []

    def next_deadline_ms(self) -> int | None:
        """Return None: timers fire when the log reaches their time."""
        return None

    def promise(self, said_ms: int) -> tuple[int, bool]:
        """Return the log's processing time for what follows this stage, and whether it is the time of day."""
        watermark_ms, live = self._promised
        return max(said_ms, watermark_ms), live

    def _align(self, time_ms: int) -> None:
        wrong_ms = self._engine.align(time_ms)
        if wrong_ms or not self._clock.time_ms:
            self.wrong_ms += wrong_ms
            self._clock.time_ms = self._engine.clock_ms

    def _send(self, stream: str, batch: pa.RecordBatch, clock_ms: int) -> None:
        if not batch.num_rows:
            return
        if self._each_time and clock_ms > self._clock.time_ms:
            self._clock.pass_time(clock_ms)
        self._clock.move(clock_ms)
        self._engine.send(stream, batch, self._clock.time_ms)
