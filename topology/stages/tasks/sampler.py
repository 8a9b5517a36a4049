"""Samples of the events of a running topology, and their reports.

Samples are limited independently of the event rate: some events a second of each stream of an instance, cut to a
maximum length, and a maximum size in each registration. While nothing is sampled, a stage only checks a flag.
"""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Literal

import pyarrow as pa

from cep_common.protocol.tasks import SampledEvent, SampleOrder
from topology.events.bundle import Bundle
from topology.events.frames import event_rows

Direction = Literal["in", "out"]

EVENTS_A_SECOND = 10
"""The maximum number of events of each stream of an instance and direction."""
SECOND_MS = 1_000
LONGEST_EVENT = 2_000
"""The length to which events are cut."""
MOST_KEPT = 400
"""The maximum number of events that wait for a registration; the oldest are dropped first."""
MOST_BYTES = 32_768
"""The maximum size of samples in one registration; the rest is sent with the next."""
_AROUND = 100
"""The approximate bytes of a sampled event in addition to its text."""


@dataclass(slots=True)
class _SampledStream:
    """An input or output stream of an instance: its credit in hundredths of an event, and this second's count."""

    owed: float = 0.0
    second: int = -1
    reported: int = 0


@dataclass(slots=True)
class _Order:
    percent: float
    until_ms: int
    streams: dict[tuple[str, str, str], _SampledStream] = field(default_factory=dict)


class Sampler:
    """Samples the events of instances.

    `note` belongs to the task's loop, `follow` and `take` to its control thread. Times are monotonic, except that of
    an event.
    """

    def __init__(self) -> None:
        self.on = False
        """Whether `note` must be called."""
        self._orders: dict[str, _Order] = {}
        self._kept: deque[SampledEvent] = deque(maxlen=MOST_KEPT)

    def follow(self, orders: Iterable[SampleOrder], monotonic_ms: int) -> None:
        """Replace the orders; the state of continuing ones is kept."""
        before = self._orders
        now: dict[str, _Order] = {}
        for order in orders:
            former = before.get(order.component)
            streams = former.streams if former is not None and former.percent == order.percent else {}
            now[order.component] = _Order(order.percent, monotonic_ms + order.left_ms, streams)
        self._orders = now
        self.on = bool(now)

    def note(self, instance: str, direction: Direction, bundle: Bundle, now_ms: int, monotonic_ms: int) -> None:
        """Sample some of the bundle's events if the instance is being sampled; `now_ms` is the time of day."""
        order = self._orders.get(instance.rpartition("#")[0])
        if order is None or monotonic_ms >= order.until_ms:
            return
        for stream, batch in bundle.batches:
            sampled = order.streams.setdefault((instance, direction, stream), _SampledStream())
            wanted, sampled.owed = divmod(sampled.owed + batch.num_rows * order.percent, 100)
            if monotonic_ms // SECOND_MS != sampled.second:
                sampled.second, sampled.reported = monotonic_ms // SECOND_MS, 0
            count = min(int(wanted), EVENTS_A_SECOND - sampled.reported)
            if count > 0:
                sampled.reported += count
                self._kept.extend(
                    SampledEvent(instance, direction, stream, now_ms, one) for one in _texts(batch, count)
                )

    def take(self) -> tuple[SampledEvent, ...]:
        """Remove and return the oldest events, up to the maximum size of one registration."""
        taken: list[SampledEvent] = []
        left = MOST_BYTES
        while self._kept and left > 0:
            taken.append(self._kept.popleft())
            left -= len(taken[-1].event.encode()) + _AROUND
        return tuple(taken)


def _texts(batch: pa.RecordBatch, count: int) -> list[str]:
    """Return `count` events spread over `batch`, as JSON."""
    places = pa.array([place * batch.num_rows // count for place in range(count)], pa.int64())
    rows = event_rows(batch.take(places))
    return [_cut(json.dumps(row, ensure_ascii=False, default=_as_text)) for row in rows]


def _as_text(value: object) -> str:
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)


def _cut(text: str) -> str:
    return text if len(text) <= LONGEST_EVENT else f"{text[:LONGEST_EVENT]}…"
