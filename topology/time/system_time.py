"""Processing time of a stage whose plan runs under the system clock: it follows what its channels have been served.

    accepted by worker a   ──1──4──7──▶ caught up: now
    accepted by worker b   ──2──3─ ─ ─  waits since 5: a and the stage's timers go no further than 3

While all channels are caught up events go straight to the engine, and timers fire at the time of day. After an
interruption events are ordered by the time at which they were accepted, and timers fire between them, until no event
waits.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import numpy as np
import pyarrow as pa

from siddhi.column_names import TIMESTAMP
from topology.events.bundle import Bundle
from topology.events.frames import CLOCK, has_clocks, without_clocks
from topology.events.watermarks import END_OF_TIME
from topology.time.engine_clock import BEHIND_MS, FAR_MS, EngineClock
from topology.time.merger import EventTimeMerger, MergedStep
from topology.time.origins import TimedEngine, runs

MOST_ROWS, MOST_PIECES = 1_024, 128
"""Rows of a backlog that one call processes, the second where the engine is called for each time or row. Between calls
the task answers heartbeats of its links: a peer that hears none for 10 s takes the task for lost, and 1,024 rows of a
query that runs row by row take half a second of processor time."""
LATE_MS = 1_000
"""Events older than the clock by this time are reported: the merger stopped waiting for a channel that had more
events."""


class SystemTime:
    """Feeds `engine` in processing time.

    `at` is called with the processing time of what the engine makes next; with `each_time`, results of one call all
    have the same time. With `one_by_one` rows are sent one at a time, so that their results on several streams come
    in the order of the rows.
    """

    def __init__(
        self,
        engine: TimedEngine,
        merger: EventTimeMerger,
        at: Callable[[int], None],
        *,
        each_time: bool,
        one_by_one: bool,
        now_ms: int = 0,
    ) -> None:
        self.merger = merger
        self._clock = EngineClock(engine, at, each_time=each_time)
        self._engine = self._clock.engine
        self._each_time = each_time
        self._one_by_one = one_by_one
        self.wrong_ms = 0
        """By how much the engine's time was found to be wrong since its owner looked last."""
        self._align(now_ms)
        self._now_ms = 0
        self._live = False
        self._more = False
        """Whether rows are held that may be processed, so that `on_time` is due at once."""

    @property
    def shift_ms(self) -> int:
        """How much later than the time of day the times of what the engine makes are."""
        return self._engine.shift_ms

    def _align(self, now_ms: int) -> None:
        if now_ms:
            self.wrong_ms += self._engine.align(now_ms)
        self._clock.time_ms = self._engine.clock_ms

    def _note_time(self, now_ms: int) -> None:
        before_ms, self._now_ms = self._now_ms, now_ms
        if before_ms and not before_ms - BEHIND_MS <= now_ms <= before_ms + FAR_MS:
            self.merger.channels.clock_was_set(now_ms - before_ms)
            self._align(now_ms)

    @property
    def waits(self) -> bool:
        """Return whether time advances only with events, so that the stage must send heartbeats to its consumers."""
        return not self._live

    def awaits(self) -> tuple[str, ...]:
        """Return the channels with events that must be processed before others continue."""
        return self.merger.channels.behind() if self.merger.held_rows else ()

    @property
    def behind_ms(self) -> int:
        """Return the lag of processing time behind the time of day."""
        return 0 if self._live or not self._clock.time_ms else max(0, self._now_ms - self._clock.time_ms)

    def take(self, bundles: Sequence[Bundle], now_ms: int) -> list[Bundle]:
        """Accept bundles, process those that are due, and return finished ones, to be settled."""
        merger, done = self.merger, []
        self._note_time(now_ms)
        for bundle in bundles:
            merger.hear(bundle, now_ms)
            if self._live and self._is_short(bundle) and not merger.held_rows and merger.watermark_ms() == END_OF_TIME:
                for stream, batch in bundle.batches:
                    self._send(stream, batch, bundle.clock_ms)
                done.append(bundle)
            else:
                merger.hold(bundle, now_ms)
        return done + self._release(now_ms)

    def on_time(self, now_ms: int) -> list[Bundle]:
        """Fire due timers, and stop waiting for silent channels."""
        self._note_time(now_ms)
        self.merger.on_time(now_ms)
        done = self._release(now_ms)
        if self._live:
            self._clock.pass_time(now_ms)
        return done

    def next_deadline_ms(self) -> int | None:
        """Return when to call `on_time`: at the engine's next timer, or when waiting for a silent channel ends."""
        timer_ms = self._engine.next_deadline_ms()
        if self._live:
            return timer_ms
        if self._more:
            return self._now_ms
        given_up_ms = self.merger.next_deadline_ms()
        ahead = [one for one in (given_up_ms, self._ahead(timer_ms)) if one is not None]
        return min(ahead, default=None)

    def promise(self, said_ms: int) -> tuple[int, bool]:
        """Return the processing time for what follows this stage, and whether it is the time of day.

        `said_ms` was the last one.
        """
        return (said_ms, True) if self._live else (min(self.merger.watermark_ms(), self._now_ms), False)

    @property
    def _by_pieces(self) -> bool:
        """Whether the engine must be called for each time, or each row."""
        return self._each_time or self._one_by_one

    def _is_short(self, bundle: Bundle) -> bool:
        """Return whether the engine must be called for each time, or each row."""
        return not self._by_pieces or bundle.rows() <= MOST_PIECES

    def _ahead(self, timer_ms: int | None) -> int | None:
        """Return the time of a timer that is not due yet; timers that are due wait for their time."""
        return timer_ms if timer_ms is not None and timer_ms > self._now_ms else None

    def _release(self, now_ms: int) -> list[Bundle]:
        if self._live and not self.merger.held_rows and self.merger.watermark_ms() == END_OF_TIME:
            return []
        timer_ms = self._engine.next_deadline_ms()
        wanted_ms = timer_ms if timer_ms is not None and timer_ms <= now_ms else None
        step = self.merger.release(now_ms, wanted_ms, MOST_PIECES if self._by_pieces else MOST_ROWS)
        if step is not None:
            self._run(step)
        self._more = step is not None and step.more
        bound_ms = step.watermark_ms if step is not None and step.more else self.merger.watermark_ms()
        if bound_ms == END_OF_TIME and not self.merger.held_rows:
            self._go_live(now_ms)
        else:
            self._live = False
            if bound_ms > self._clock.time_ms:
                self._clock.pass_time(min(bound_ms, now_ms))
        return list(step.finished) if step is not None else []

    def _go_live(self, now_ms: int) -> None:
        if not self._live:
            self._live = True
            self._clock.pass_time(now_ms)

    def _send(self, stream: str, batch: pa.RecordBatch, clock_ms: int) -> None:
        """Run the rows of a bundle that nothing holds back through the engine."""
        if has_clocks(batch):
            clocks = np.minimum(batch.column(CLOCK).to_numpy(), self._now_ms)
            rows = without_clocks(batch)
            if not self._by_pieces and _are_in_time(rows, clocks):
                self._note_late(stream, clocks)
                self._clock.move(int(clocks.max()))
                self._engine.send(stream, rows, self._clock.time_ms)
                return
            for start, stop in runs(clocks):
                self._send_at(stream, rows.slice(start, stop - start), int(clocks[start]))
        else:
            self._send_at(stream, batch, min(clock_ms, self._now_ms) if clock_ms > 0 else self._now_ms)

    def _send_at(self, stream: str, batch: pa.RecordBatch, clock_ms: int) -> None:
        if not batch.num_rows:
            return
        self._note_late(stream, np.full(batch.num_rows, clock_ms))
        if self._each_time and clock_ms > self._clock.time_ms:
            self._clock.pass_time(clock_ms)
        self._clock.move(clock_ms)
        for part in _single_rows(batch) if self._one_by_one else (batch,):
            self._engine.send(stream, part, self._clock.time_ms)

    def _note_late(self, stream: str, clocks: np.ndarray[tuple[int], np.dtype[np.int64]]) -> None:
        late = int((clocks < self._clock.time_ms - LATE_MS).sum())
        if late:
            self.merger.late[stream] = self.merger.late.get(stream, 0) + late

    def _run(self, step: MergedStep) -> None:
        """Run the rows of `step` through the engine, each at its time."""
        clocks, sources = step.clocks(), step.sources()
        rows = [(stream, without_clocks(batch)) for stream, batch in step.batches]
        if not self._by_pieces and all(
            _are_in_time(batch, clocks[order]) for (_, batch), order in zip(rows, step.orders, strict=True)
        ):
            for (stream, _), order in zip(rows, step.orders, strict=True):
                self._note_late(stream, clocks[order])
            self._clock.move(int(clocks[-1]))
            self._engine.send_merged(rows, sources, self._clock.time_ms)
            return
        done = [0] * len(rows)
        for start, stop in runs(clocks, sources):
            source, count = int(sources[start]), stop - start
            stream, batch = rows[source]
            self._send_at(stream, batch.slice(done[source], count), int(clocks[start]))
            done[source] += count


def _are_in_time(rows: pa.RecordBatch, clocks: np.ndarray[tuple[int], np.dtype[np.int64]]) -> bool:
    """Return whether no row is later than its processing time.

    The engine then runs each at its own time, and all may be sent in one call.
    """
    return bool((rows.column(TIMESTAMP).to_numpy() <= clocks).all())


def cut_by_clock(bundle: Bundle) -> Iterator[tuple[str, pa.RecordBatch, int]]:
    """Yield the rows of a bundle in pieces of one processing time."""
    for stream, batch in bundle.batches:
        if has_clocks(batch):
            clocks, rows = batch.column(CLOCK).to_numpy(), without_clocks(batch)
            for start, stop in runs(clocks):
                yield stream, rows.slice(start, stop - start), int(clocks[start])
        else:
            yield stream, batch, bundle.clock_ms


def _single_rows(batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    return (batch.slice(row, 1) for row in range(batch.num_rows))
