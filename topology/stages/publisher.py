"""The publisher stage: gives a topology's results to one worker."""

from __future__ import annotations

from collections import deque
from time import perf_counter_ns

import pyarrow as pa
import zmq

from cep_common.ids import Endpoint
from cep_common.messages import Data, OpenLink
from cep_common.security.roles import Door
from topology.bundle import Bundle
from topology.frames import arrow_schema, concatenate, decode_batch, encode_batch
from topology.link import NO_WATERMARK
from topology.link_sender import LinkSender, LinkState
from topology.model import PUBLISHER, Topology
from topology.resequencer import Resequencer
from topology.stages.contract import Statistics

MAXIMUM_FRAME_ROWS = 8_192
"""Waiting batches are put together up to so many rows a frame."""


class Publisher:
    """Keeps one link to a worker. Without one, results wait; `is_full` then tells the task to take in no more."""

    def __init__(
        self,
        name: str,
        topology: Topology,
        context: zmq.Context[zmq.Socket[bytes]],
        queue_rows: int,
        resequencer: Resequencer,
    ) -> None:
        self.name = name
        self.statistics = Statistics(topology.plan.publisher.name, PUBLISHER)
        self.link: LinkSender | None = None
        self.worker = ""
        self._topology = topology
        self._context = context
        self._queue_rows = queue_rows
        self._resequencer = resequencer
        self._waiting: deque[tuple[str, pa.RecordBatch, Bundle | None]] = deque()
        """Batches with the bundle that each came in; none for one that is sent again."""

    def open(self, now_ms: int, state: bytes = b"") -> None:
        """Nothing to prepare: the link is opened when a worker has been assigned."""

    def assign(self, endpoint: Endpoint, worker: str, monotonic_ms: int) -> None:
        """Opens a link to the worker that the manager chose; what its predecessor did not acknowledge is sent again."""
        opening = OpenLink(
            sender=self.name,
            streams=tuple(self._topology.streams[stream.id] for stream in self._topology.plan.publisher.streams),
            key=self._topology.key,
            epoch=self._topology.epoch,
        )
        self.link, self.worker = LinkSender(self._context, Door.OUTFLOW, endpoint, opening, monotonic_ms), worker

    def needs_worker(self) -> bool:
        """True when the manager must be asked for a worker."""
        return self.link is None

    def is_connected(self) -> bool:
        return self.link is not None and self.link.state is LinkState.OPEN

    def is_full(self) -> bool:
        """True when more rows wait than should."""
        return self.statistics.queued_events >= self._queue_rows

    def is_drained(self) -> bool:
        """True when the worker has acknowledged all results that came."""
        return not self._waiting and (self.link is None or not self.link.outbox.pending)

    def on_bundle(self, bundle: Bundle, now_ms: int) -> None:
        started_ns = perf_counter_ns()
        for one in self._resequencer.push(bundle):
            for stream, batch in one.batches:
                if batch.num_rows:
                    self.statistics.received[stream] += batch.num_rows
                    self.statistics.queued_events += batch.num_rows
                    one.hold()
                    self._waiting.append((stream, batch, one))
            one.settle()
        self.pump()
        self.statistics.worked(bundle.rows(), started_ns, perf_counter_ns())

    def on_readable(self, now_ms: int) -> None:
        """Takes in acknowledgements; lets go of a link that was lost or refused."""
        link = self.link
        if link is None:
            return
        started_ns = perf_counter_ns()
        link.handle()
        for refusal in link.refusals:
            self.statistics.error(f"worker {self.worker} refused: {refusal.reason}", now_ms)
        link.refusals.clear()
        if link.state in (LinkState.LOST, LinkState.REFUSED):
            self._let_go(link)
        self.pump()
        self.statistics.worked(0, started_ns, perf_counter_ns())

    def on_time(self, now_ms: int) -> None:
        """Nothing waits for a time of day."""

    def keep_alive(self, monotonic_ms: int) -> None:
        """The link has beaten if that was due; one that does not open in time is lost."""
        if self.link is not None:
            self.link.tick(monotonic_ms)

    def next_deadline_ms(self) -> int | None:
        return None

    def pump(self) -> None:
        """Sends what waits, as far as the worker has room."""
        link = self.link
        while link is not None and self._waiting and link.has_room():
            stream, batch, bundles = self._next_frame()
            link.send(stream, encode_batch(batch), batch.num_rows, NO_WATERMARK)
            self.statistics.emitted[stream] += batch.num_rows
            self.statistics.queued_events -= batch.num_rows
            for bundle in bundles:
                bundle.settle()

    def snapshot(self) -> bytes:
        """A publisher keeps no state of its own: unacknowledged results come again from the stages' checkpoint."""
        return b""

    def close(self) -> None:
        if self.link is not None:
            self.link.close()

    def _next_frame(self) -> tuple[str, pa.RecordBatch, list[Bundle]]:
        stream = self._waiting[0][0]
        batches: list[pa.RecordBatch] = []
        bundles: list[Bundle] = []
        rows = 0
        while self._waiting and self._waiting[0][0] == stream and rows < MAXIMUM_FRAME_ROWS:
            _, batch, bundle = self._waiting.popleft()
            batches.append(batch)
            rows += batch.num_rows
            if bundle is not None:
                bundles.append(bundle)
        return stream, concatenate(batches), bundles

    def _let_go(self, link: LinkSender) -> None:
        """Puts the frames that the worker did not acknowledge back in front of what waits."""
        for frame in reversed(link.unacknowledged()):
            if isinstance(frame.message, Data):
                stream = frame.message.stream
                schema = arrow_schema(self._topology.streams[stream])
                self._waiting.appendleft((stream, decode_batch(frame.bodies[0], schema, frame.rows), None))
                self.statistics.emitted[stream] -= frame.rows
                self.statistics.queued_events += frame.rows
        link.close()
        self.link, self.worker = None, ""
