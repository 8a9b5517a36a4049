"""The publisher stage, which sends a topology's results to one worker."""

from __future__ import annotations

import uuid
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from time import perf_counter_ns

import pyarrow as pa
import zmq

from cep_common.ids import Endpoint
from cep_common.protocol.links import RESULTS_MISSING, STALE_ATTEMPT, Data, MarkCheckpoint, OpenLink
from cep_common.security.roles import SocketKind
from cep_common.sockets.multiplexing import SharedConnections
from topology.errors import TopologyError
from topology.events.bundle import Bundle
from topology.events.frames import arrow_schema, concatenate, decode_batch, encode_batch, without_clocks
from topology.events.resequencer import Resequencer
from topology.events.watermarks import NO_WATERMARK
from topology.links.sender import LinkSender, LinkState
from topology.model import PUBLISHER, Topology
from topology.stages.contract import NO_STATE, InstanceStatistics, Parts

MAXIMUM_FRAME_ROWS = 8_192
"""The maximum number of rows in a frame of combined batches."""


MAXIMUM_FRAME_BYTES = 16 * 1024 * 1024
"""… and of bytes, unless a single row has more: the transport limits frames to 64 MiB."""


def _parts(batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    """Split `batch` so that no part of several rows is too large for a frame."""
    if not batch.num_rows:
        return
    if batch.num_rows == 1 or batch.nbytes <= MAXIMUM_FRAME_BYTES:
        yield batch
        return
    half = batch.num_rows // 2
    yield from _parts(batch.slice(0, half))
    yield from _parts(batch.slice(half))


@dataclass(frozen=True, slots=True)
class _Result:
    """A batch that waits to be sent.

    It has the place of its last event among all results of the publisher, and the bundle that it came in; none when
    it is sent again.
    """

    stream: str
    batch: pa.RecordBatch
    position: int
    bundle: Bundle | None


@dataclass(frozen=True, slots=True)
class _Mark:
    """Everything before belongs to `checkpoint` or earlier ones."""

    checkpoint: int


class Publisher:
    """Keeps a link to one worker. Without a link, results wait, and `is_full` makes the task stop accepting events.

    With `exactly_once` the worker gets the positions of checkpoints between results, and keeps results until theirs is
    complete. While a worker may have results that no complete checkpoint contains, further results must go to the same
    worker, which recognises repeated results by their positions, and can still replace undelivered ones. When the
    worker is lost, the topology restarts from its checkpoint: what the worker has of this attempt behind that then
    counts no more. So it does when the worker comes back and has lost some of them, with its machine's power or its
    disk say.
    """

    def __init__(
        self,
        name: str,
        topology: Topology,
        context: zmq.Context[zmq.Socket[bytes]],
        queue_rows: int,
        resequencer: Resequencer,
        lost: Callable[[], None],
        exactly_once: bool = False,
        keeps: bool = False,
        shared: SharedConnections | None = None,
    ) -> None:
        """Create a publisher, whose links go over `shared` connections if there are any.

        `lost` is called when an open link is lost: another worker must be requested at once. With `keeps` the worker
        keeps on its disk what its sinks do not deliver, and acknowledges the marker of a checkpoint when all results
        before it are stored or delivered.
        """
        self.name = name
        self.statistics = InstanceStatistics(topology.plan.publisher.name, PUBLISHER)
        self.link: LinkSender | None = None
        self.worker = ""
        self.flushed: list[int] = []
        """Checkpoints for which all results before the marker are with the worker, until the owner clears them."""
        self._topology = topology
        self._context = context
        self._queue_rows = queue_rows
        self._resequencer = resequencer
        self._lost = lost
        self._shared = shared
        self._exactly_once = exactly_once
        self._tells = exactly_once or keeps
        self._log = uuid.uuid4().hex
        """Identifies this run's results for the worker, whatever the epoch of another run."""
        self.former = ""
        """The worker that it served last."""
        self._position = 0
        self._sent = 0
        """The position of the last sent result; without a link, of the last acknowledged one."""
        self._given = 0
        """The position of the last result that the worker may have."""
        self._standing = 0
        """The position of the last result in a complete checkpoint."""
        self._waiting: deque[_Result | _Mark] = deque()
        self._marks: deque[tuple[int, int, int]] = deque()
        """(frame, checkpoint, place of the last result before it): flushed when the worker has acknowledged all frames
        up to that one."""
        self._flushed_to: dict[int, int] = {}
        """By checkpoint that was flushed and has not ended yet: the place of the last result before its marker."""

    def open(self, now_ms: int, state: Parts = NO_STATE) -> None:
        """Do nothing: the link is opened when a worker has been assigned."""

    def assign(self, endpoint: Endpoint, worker: str, monotonic_ms: int) -> None:
        """Open a link to the worker that the manager chose, unless it is the current one.

        Results that the former worker did not acknowledge are sent again.

        Raises:
            TopologyError: When only the former worker may get them.
        """
        if self.link is not None and (worker, endpoint) == (self.worker, self.link.endpoint):
            return
        if self._exactly_once and self._given > self._standing and worker != self.former:
            reason = f"worker {self.former} is gone and may have results that must not be sent to another one"
            raise TopologyError("worker-lost", reason)
        if self.link is not None:
            self._let_go(self.link)
        topology = self._topology
        streams = tuple(topology.streams[stream.id] for stream in topology.plan.publisher.streams)
        position = self._sent if self._exactly_once and self._sent > self._standing else 0
        opening = OpenLink(
            self.name, streams, topology.key, topology.epoch,
            attempt=topology.attempt, log=self._log, position=position,
        )  # fmt: skip
        self.link = LinkSender(
            self._context, SocketKind.OUTFLOW, endpoint, opening, monotonic_ms, patient=False, shared=self._shared
        )
        self.worker = self.former = worker

    def needs_worker(self) -> bool:
        """Return whether the manager must choose a worker: there is none, or it does not answer; for any thread."""
        link = self.link
        return link is None or (link.state is LinkState.OPEN and link.silent)

    def is_connected(self) -> bool:
        """Return whether the link to a worker is open; for any thread."""
        link = self.link
        return link is not None and link.state is LinkState.OPEN

    def is_full(self) -> bool:
        """Return whether more rows wait than should."""
        return self.statistics.queued_events >= self._queue_rows

    def is_drained(self) -> bool:
        """Return whether the worker has acknowledged all results."""
        return not self._waiting and (self.link is None or not self.link.outbox.pending)

    def on_bundle(self, bundle: Bundle, now_ms: int) -> None:
        started_ns = perf_counter_ns()
        for one in self._resequencer.push(bundle):
            for stream, batch in one.batches:
                for part in _parts(without_clocks(batch)):
                    self.statistics.took(stream, part.num_rows)
                    self.statistics.queued_events += part.num_rows
                    self._position += part.num_rows
                    one.hold()
                    self._waiting.append(_Result(stream, part, self._position, one))
            one.settle()
        self.pump()
        self.statistics.worked(bundle.rows(), started_ns, perf_counter_ns())

    def mark(self, checkpoint: int) -> Parts:
        """Record that all results of `checkpoint` have arrived; `flushed` will contain it when the worker has them."""
        self._waiting.append(_Mark(checkpoint))
        self.pump()
        return NO_STATE

    def complete(self, checkpoint: int) -> None:
        """Record that `checkpoint` is complete.

        Its results then belong to the worker, and any worker may get what follows them.
        """
        self._standing = self._flushed_to.get(checkpoint, self._standing)
        self._flushed_to = {later: place for later, place in self._flushed_to.items() if later > checkpoint}

    def abandon(self, checkpoint: int) -> None:
        """Discard `checkpoint`, which will not be completed: its results wait for a later one."""
        self._flushed_to.pop(checkpoint, None)

    def on_readable(self, now_ms: int) -> None:
        """Process acknowledgements, and close a link that was lost or refused.

        Raises:
            TopologyError: When the worker has lost results that only a checkpoint can restore, or considers this an
                earlier run of the topology.
        """
        link = self.link
        if link is None:
            return
        started_ns = perf_counter_ns()
        link.handle()
        for refusal in link.refusals:
            self.statistics.error(refusal.code, f"worker {self.worker} refused: {refusal.reason}", now_ms)
            if refusal.code == RESULTS_MISSING:
                raise TopologyError(RESULTS_MISSING, f"worker {self.worker} has lost results: {refusal.reason}")
            if refusal.code == STALE_ATTEMPT:  # where epochs are counted again, it may be one of another driver's
                raise TopologyError(STALE_ATTEMPT, f"worker {self.worker} knows a later start: {refusal.reason}")
        link.refusals.clear()
        self._note_flushed()
        if link.state.has_failed:
            self._let_go(link)
            if link.outbox.window_rows is not None:
                self._lost()
        self.pump()
        self.statistics.worked(0, started_ns, perf_counter_ns())

    def on_time(self, now_ms: int) -> None:
        """Do nothing, since nothing waits for a time of day."""

    def keep_alive(self, monotonic_ms: int) -> None:
        """Send the heartbeat of the link if it is due, and drop a link that does not open in time."""
        if self.link is not None:
            self.link.tick(monotonic_ms)

    def next_deadline_ms(self) -> int | None:
        return None

    def pump(self) -> None:
        """Send waiting results while the worker has room."""
        link = self.link
        while self._waiting:
            head = self._waiting[0]
            if isinstance(head, _Mark):
                if not self._pass(head.checkpoint):
                    break
                self._waiting.popleft()
            elif link is not None and link.has_room():
                self._send_frame(link, head.stream)
            else:
                break
        self._note_flushed()

    def snapshot(self) -> Parts:
        """Return no state: results before a marker are with the worker when the checkpoint is complete."""
        return NO_STATE

    def close(self) -> None:
        if self.link is not None:
            self.link.close()

    def _send_frame(self, link: LinkSender, stream: str) -> None:
        batches: list[pa.RecordBatch] = []
        bundles: list[Bundle] = []
        rows = position = 0
        size = 0
        while self._waiting and rows < MAXIMUM_FRAME_ROWS:
            head = self._waiting[0]
            if isinstance(head, _Mark) or head.stream != stream:
                break
            size += head.batch.nbytes
            if batches and size > MAXIMUM_FRAME_BYTES:
                break
            self._waiting.popleft()
            batches.append(head.batch)
            rows += head.batch.num_rows
            position = head.position
            if head.bundle is not None:
                bundles.append(head.bundle)
        place = position if self._exactly_once else 0
        link.send(stream, encode_batch(concatenate(batches)), rows, NO_WATERMARK, place)
        self._sent, self._given = position, max(self._given, position)
        self.statistics.gave(stream, rows)
        self.statistics.queued_events -= rows
        for bundle in bundles:
            bundle.settle()

    def _pass(self, checkpoint: int) -> bool:
        """Fix the position of `checkpoint` among the frames, and report it to the worker if necessary.

        Returns False while that is not possible.
        """
        link = self.link
        if not self._tells or (link is None and not self._exactly_once):
            self._marks.append((link.outbox.next_sequence - 1 if link is not None else 0, checkpoint, self._sent))
            return True
        if link is None or not link.has_room():
            return False
        sequence = link.outbox.next_sequence
        self._marks.append((sequence, checkpoint, self._sent))
        link.send_frame(MarkCheckpoint(sequence, checkpoint), sequence, 0, ())
        return True

    def _note_flushed(self) -> None:
        link = self.link
        while self._marks and (link is None or link.outbox.first_unacknowledged > self._marks[0][0]):
            _, checkpoint, self._flushed_to[checkpoint] = self._marks.popleft()
            self.flushed.append(checkpoint)

    def _let_go(self, link: LinkSender) -> None:
        """Return unacknowledged frames and their marks to the front of the queue."""
        again: list[_Result | _Mark] = []
        for frame in link.unacknowledged():
            if isinstance(frame.message, Data):
                self._sent = min(self._sent, frame.message.position - frame.rows)
                stream = frame.message.stream
                schema = arrow_schema(self._topology.streams[stream])
                batch = decode_batch(frame.bodies[0], schema, frame.rows)
                again.append(_Result(stream, batch, frame.message.position, None))
                self.statistics.gave(stream, -frame.rows)
                self.statistics.queued_events += frame.rows
            again += [_Mark(checkpoint) for sequence, checkpoint, _ in self._marks if sequence == frame.sequence]
        self._marks.clear()
        self._waiting.extendleft(reversed(again))
        link.close()
        self.link, self.worker = None, ""
