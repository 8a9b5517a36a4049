"""The trigger stage, which emits events at given times, once for the whole plan.

It fires by the system clock. Its events are never awaited: it declares from the start, and with each event, that its
channel is idle. Only one that has to catch up, after an interruption, is waited for until it has.
"""

from __future__ import annotations

import logging

import pyarrow as pa

from query_plan.model import TriggerStage
from siddhi.cron import parse_cron
from topology.events.bundle import Bundle
from topology.events.frames import CURRENT, arrow_schema
from topology.model import TRIGGER, stream_schema
from topology.stages.contract import NO_STATE, Emit, InstanceStatistics, Parts

logger = logging.getLogger(__name__)

DUE = "due"
"""The part of the state that says when the trigger fires next."""
NEVER = b"never"
"""The value of the next time if it never fires again."""

CATCH_UP_MS = 3_600_000
"""The period for which a restored trigger makes up for missed times."""
MOST_MISSED = 3_600
"""The maximum number of missed times that a periodic trigger makes up for, since its task is blocked meanwhile. A cron
trigger fires at most once a second."""


class TriggerInstance:
    """Fires at the start, periodically (first one period after the start), or at the times of a cron expression."""

    def __init__(self, name: str, stage: TriggerStage, emit: Emit) -> None:
        self.name = name
        self.statistics = InstanceStatistics(stage.name, TRIGGER)
        self._stream = stage.stream.id
        self._schema = arrow_schema(stream_schema(stage.stream))
        self._period_ms = stage.definition.every.milliseconds if stage.definition.every else None
        self._schedule = parse_cron(stage.definition.cron) if stage.definition.cron is not None else None
        self._emit = emit
        self._next_ticket = 0
        self._due_ms: int | None = None

    def open(self, now_ms: int, state: Parts = NO_STATE) -> None:
        if state:
            self._due_ms = None if state[DUE] == NEVER else self._caught_up(int(state[DUE]), now_ms)
            self.note_time(now_ms)
            missed = self._due_ms is not None and self._due_ms <= now_ms
            self._tell(self._due_ms if missed and self._due_ms is not None else now_ms, (), idle=not missed)
            return
        self._tell(now_ms, ())
        at_start = self._period_ms is None and self._schedule is None
        self._due_ms = now_ms if at_start else self._after(now_ms)

    def on_bundle(self, bundle: Bundle, now_ms: int) -> None:
        raise TypeError(f"trigger {self.name} accepts no events, but got some from {bundle.source}")

    def on_time(self, now_ms: int) -> None:
        """Fire for each time that was due; each event has the time at which it was due."""
        if self._due_ms is not None:
            self._due_ms = self._caught_up(self._due_ms, now_ms)
        while self._due_ms is not None and self._due_ms <= now_ms:
            self._fire(self._due_ms)
            self._due_ms = self._after(self._due_ms)

    def note_time(self, now_ms: int) -> None:
        """Fire no later than the period or the cron text says, whatever the time was when that was decided.

        A clock that was ahead must not delay the trigger.
        """
        due_ms = self._due_ms
        if due_ms is None or due_ms <= now_ms:
            return
        next_ms = self._after(now_ms)
        self._due_ms = due_ms if next_ms is None else min(due_ms, next_ms)

    def _caught_up(self, due_ms: int, now_ms: int) -> int | None:
        """Return the first time from `due_ms` on for which the trigger still fires."""
        back_ms = CATCH_UP_MS if self._period_ms is None else min(CATCH_UP_MS, MOST_MISSED * self._period_ms)
        past_ms = now_ms - back_ms
        if due_ms > past_ms:
            return due_ms
        logger.warning("trigger skips missed times except the last: trigger=%s last_ms=%d", self.name, back_ms)
        if self._period_ms is None:
            return self._after(past_ms)
        return due_ms + ((past_ms - due_ms) // self._period_ms + 1) * self._period_ms

    def _after(self, time_ms: int) -> int | None:
        """Return when the trigger fires next after `time_ms`; None: never again."""
        if self._schedule is not None:
            return self._schedule.next_after(time_ms)
        return None if self._period_ms is None else time_ms + self._period_ms

    def next_deadline_ms(self) -> int | None:
        return self._due_ms

    def snapshot(self) -> Parts:
        return {DUE: NEVER if self._due_ms is None else str(self._due_ms).encode()}

    def mark(self, checkpoint: int) -> Parts:
        self._emit(Bundle.marker(self.name, checkpoint))
        return self.snapshot()

    def close(self) -> None:
        """Do nothing: a trigger holds no resources."""

    def _fire(self, due_ms: int) -> None:
        columns = [pa.array([due_ms]), pa.array([CURRENT], pa.int8()), pa.array([due_ms])]
        batch = pa.record_batch(columns, schema=self._schema)
        self.statistics.gave(self._stream, 1)
        self._tell(due_ms, ((self._stream, batch),))

    def _tell(self, time_ms: int, batches: tuple[tuple[str, pa.RecordBatch], ...], *, idle: bool = True) -> None:
        self._emit(
            Bundle(
                source=self.name,
                origin=self.name,
                ticket=self._next_ticket,
                channel=self.name,
                streams=(self._stream,),
                watermark_ms=time_ms,
                idle=idle,
                batches=batches,
                clock_ms=time_ms,
            )
        )
        self._next_ticket += 1
