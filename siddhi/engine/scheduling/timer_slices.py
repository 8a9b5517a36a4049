"""Split the rows of a step where timers sent some of them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from siddhi.engine.columnar.batch import EventBatch


def cut_at_timers(inputs: Sequence[EventBatch]) -> Iterator[tuple[tuple[int, int] | None, list[EventBatch]]]:
    """Yield the rows of `inputs` in pieces.

    Each piece has the (order, clock) of the timers that sent the first rows of the next one, None for the last.
    """
    rest = list(inputs)
    for order, clock in sorted({place for batch in inputs for place in _places_of_timers(batch)}):
        counts = [_count_before(batch, order, clock) for batch in rest]
        yield (order, clock), [batch.slice(0, count) for batch, count in zip(rest, counts, strict=True)]
        rest = [batch.slice(count, batch.size) for batch, count in zip(rest, counts, strict=True)]
    yield None, rest


def _places_of_timers(batch: EventBatch) -> set[tuple[int, int]]:
    rows = batch.orders & 1 == 0
    return set(zip(batch.orders[rows].tolist(), batch.clocks[rows].tolist(), strict=True))


def _count_before(batch: EventBatch, order: int, clock: int) -> int:
    return int(((batch.orders < order) | ((batch.orders == order) & (batch.clocks < clock))).sum())
