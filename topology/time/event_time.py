"""Event time of a stage: streams are merged by watermark, and time advances with them.

Where the plan has `@app:playback(idle.time='…', increment='…')` event time also advances by the increment whenever no
event has arrived for the idle time, once there was a first event. Downstream stages follow their upstream stages.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from query_plan.model import Playback
from topology.events.bundle import Bundle
from topology.events.watermarks import END_OF_TIME, NO_WATERMARK
from topology.time.merger import EventTimeMerger
from topology.time.origins import TimedEngine


class EventTime:
    """Feeds `engine` with what `merger` releases. `upstream` are the instances of processing stages that feed it."""

    def __init__(
        self,
        engine: TimedEngine,
        merger: EventTimeMerger,
        playback: Playback,
        upstream: Collection[str],
        now_ms: int,
    ) -> None:
        self.merger = merger
        self._engine = engine
        self._idle_ms = playback.idle_ms
        self._increment_ms = playback.increment_ms or 0
        self._leads = playback.idle_ms is not None and not upstream
        self._upstream = dict.fromkeys(upstream, NO_WATERMARK)
        self._heard_ms = now_ms
        """When the last event arrived, or time was last incremented."""
        self._begun = engine.clock_ms > 0
        """Whether there was an event. A restored engine had one if its time is not that of its start."""
        self._moved = False
        """Whether time has advanced by increments since the last event."""
        self.behind_ms = 0
        """Event time is not shifted."""
        self.is_choked = False
        """Whether time waits for a channel whose sender has a full window."""

    @property
    def waits(self) -> bool:
        """Return whether time advances only with events, so that the stage must send heartbeats to its consumers."""
        return bool(self.merger.channels.awaited())

    def awaits(self) -> tuple[str, ...]:
        """Return the streams whose first event is awaited, once others have come."""
        return self.merger.channels.awaited() if self.merger.held_rows else ()

    def take(self, bundles: Sequence[Bundle], now_ms: int) -> list[Bundle]:
        """Accept bundles, process those that are due, and return finished ones, to be settled."""
        for bundle in bundles:
            if bundle.origin in self._upstream:
                self._upstream[bundle.origin] = max(self._upstream[bundle.origin], bundle.watermark_ms)
            if bundle.batches and bundle.rows():
                self._heard_ms, self._moved, self._begun = now_ms, False, True
            self.merger.push(bundle, now_ms)
        return self._release(now_ms)

    def on_time(self, now_ms: int) -> list[Bundle]:
        """Stop waiting for silent channels, and process what they held back."""
        self.merger.on_time(now_ms)
        done = self._release(now_ms)
        due_ms = self._increment_due_ms()
        if due_ms is not None and due_ms <= now_ms:
            self._heard_ms, self._moved = now_ms, True
            time_ms = self._engine.clock_ms + self._increment_ms
            self.merger.passed(time_ms)
            self._engine.advance_time(time_ms)
        return done

    def next_deadline_ms(self) -> int | None:
        """Return when `on_time` must be called; the engine's own timers follow the watermark."""
        deadlines = [one for one in (self.merger.next_deadline_ms(), self._increment_due_ms()) if one is not None]
        return min(deadlines, default=None)

    def promise(self, said_ms: int) -> tuple[int, bool]:
        """Return the watermark for what follows this stage, and whether the stage is idle.

        `said_ms` was the last watermark.
        """
        watermark_ms = self.merger.watermark_ms()
        if self._moved:
            return max(self._engine.clock_ms, said_ms), True
        idle = watermark_ms == END_OF_TIME
        return said_ms if idle else watermark_ms, idle

    def _release(self, now_ms: int) -> list[Bundle]:
        step = self.merger.release(now_ms)
        if step is not None:
            self._engine.send_merged(step.batches, step.sources())
        self.is_choked = self.merger.settle_choked()
        watermark_ms = self.merger.watermark_ms()
        if watermark_ms == END_OF_TIME:
            watermark_ms = min(self._upstream.values(), default=NO_WATERMARK) if self._idle_ms else NO_WATERMARK
        if watermark_ms != NO_WATERMARK:
            self._engine.advance_time(watermark_ms)
        return list(step.finished) if step is not None else []

    def _increment_due_ms(self) -> int | None:
        """Return when time advances without events; not before the first event, nor while events wait for others."""
        if not self._leads or self._idle_ms is None or self.merger.held_rows or not self._begun:
            return None
        return self._heard_ms + self._idle_ms
