"""Bundles, which component instances exchange: the batches from one piece of input, numbered by a ticket."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import pyarrow as pa

from topology.acks import Ack
from topology.events.watermarks import NO_WATERMARK

NO_TICKET = -1


@dataclass(frozen=True, slots=True)
class Bundle:
    """Batches of one or several streams in the order of their creation; possibly none.

    `origin` numbered the `ticket`s, from 0 without gaps: instances of a stateless parallel stage pass both on, so that
    their consumer can put everything back into the origin's order. `channel` names whose promise `watermark_ms` is
    (later rows of the channel have timestamps of at least that; `idle`: do not wait for it) and `streams` the streams
    that it may carry; both are empty when the bundle is only there to account for its ticket.

    Under the system clock the watermark is one of processing time, and `idle` says that the channel has nothing older
    than the present. Every row has the processing time `clock_ms`, unless its batch has one for each row: its last
    column, `topology.events.frames.CLOCK`.

    With a `checkpoint` it is the marker that `source` sends for it, and nothing else. With a `position` its rows are in
    the topic of a log (`topology.sync_log`), from that offset on. `full`: the window of the channel's sender is full,
    and it sends nothing until rows are settled; of a stage with event time: its time waits for such a channel.
    """

    source: str
    origin: str
    ticket: int
    channel: str = ""
    streams: tuple[str, ...] = ()
    watermark_ms: int = NO_WATERMARK
    idle: bool = False
    batches: tuple[tuple[str, pa.RecordBatch], ...] = ()
    receipt: Ack | None = field(default=None, compare=False)
    checkpoint: int = 0
    clock_ms: int = NO_WATERMARK
    position: int = -1
    full: bool = False

    def with_batches(self, batches: tuple[tuple[str, pa.RecordBatch], ...]) -> Bundle:
        """Return the same bundle with other contents."""
        return replace(self, batches=batches)

    def rows(self) -> int:
        return sum(batch.num_rows for _, batch in self.batches)

    @classmethod
    def marker(cls, source: str, checkpoint: int) -> Bundle:
        """Return the marker that `source` sends for `checkpoint`; it has no separate ticket."""
        return cls(source, source, NO_TICKET, checkpoint=checkpoint)

    def hold(self) -> None:
        """Expect one more holder to settle the bundle."""
        if self.receipt is not None:
            self.receipt.announce(1)

    def settle(self) -> None:
        """Release this holder's claim on the bundle."""
        if self.receipt is not None:
            self.receipt.settle()
