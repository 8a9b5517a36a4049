"""The outflow service of a plan, which passes results from publisher stages to sinks and listeners.

Results go directly to consumers, except for plans that deliver exactly once. Results that are not accepted or delivered
in time are spilled to disk and acknowledged, so that an unavailable sink blocks neither checkpoints nor other sinks:

    frame ──room──▶ consumers ──delivered──▶ acknowledged
      └──no room, or not delivered for SPILL_MS──▶ log on the disk ──▶ acknowledged
                                                      └──room──▶ consumers ──delivered──▶ deleted
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable
from functools import partial
from typing import Protocol

import msgspec
import pyarrow as pa

from cep_common.errors import ConfigError
from cep_common.ids import Endpoint, PlanKey
from cep_common.monitoring.paced_log import PacedLog
from cep_common.protocol.links import RESULTS_MISSING, STALE_ATTEMPT, Data, MarkCheckpoint, MarkIdle, OpenLink
from cep_common.protocol.registry import DeployedPlan, OutflowReport, Rejected
from cep_common.protocol.worker_reports import PublisherReport
from cep_worker.config import OutflowConfig
from cep_worker.outflows.consumers import Consumers
from cep_worker.outflows.in_flight import InFlightFrames, OfferedFrame
from cep_worker.outflows.receipts import DeliveryReceipt
from cep_worker.outflows.transactional_log.prepared_results import PreparedResults
from cep_worker.plans.event_trace import EventTrace
from cep_worker.plans.stream_counts import StreamCounts
from cep_worker.runtime.event_loop import EventLoop
from cep_worker.runtime.shared_links import SharedLinks
from topology.links.server import FrameArrived, IncomingLink, LinkArrived, LinkGone, LinkServer

logger = logging.getLogger(__name__)
paced_logger = PacedLog(logger)


class ResultLogs(Protocol):
    """The stores of a plan's results on disk."""

    counts: StreamCounts

    def kept(self) -> PreparedResults | None:
        """Return the stored results, or None if none were ever stored."""

    def keep(self) -> PreparedResults:
        """Return the store of results, which is created if needed.

        Raises:
            ConfigError: the folder cannot be used.
        """


class Outflow:
    """The service for all exported streams of a plan under one epoch, for publishers of the newest attempt only.

    Belongs to the data thread.

    A frame is acknowledged when every consumer has delivered it or it is stored in `logs`; at-most-once plans: when
    consumers have accepted it; exactly-once plans: when it is stored in `logs`. A slow sink slows the plan down when
    the log is full.
    """

    def __init__(
        self,
        event_loop: EventLoop,
        shared: SharedLinks,
        plan: DeployedPlan,
        config: OutflowConfig,
        consumers: Consumers,
        logs: ResultLogs,
        changed: Callable[[], None],
        stir: Callable[[], None],
    ) -> None:
        """Open the service; `stir` is called at any activity."""
        self._stir = stir
        self._event_loop = event_loop
        self._logs = logs
        self._counts = logs.counts
        self._plan = plan
        self._schemas = {binding.stream: binding.attributes for binding in plan.exported}
        self._undelivered = {binding.stream: 0 for binding in plan.exported}
        """Number of events that consumers have, or that wait for them in memory."""
        self.traces = {binding.stream: EventTrace(plan.key, binding, "after") for binding in plan.exported}
        self._consumers = consumers
        self._nowhere: frozenset[str] = frozenset()
        """Streams whose results no longer have a consumer."""
        # results of an earlier process determine what publishers need not resend
        self._prepared = logs.kept() if plan.delivery == "exactly-once" else None
        self.problem = ""
        """Why results cannot be stored now; empty if they can."""
        self._changed = changed
        self._parked: dict[IncomingLink, None] = {}
        self._attempt = 0
        self._leaving = False
        name = shared.channel_name(f"{plan.key.topology()}/{plan.epoch}")
        self._server = LinkServer.share(shared.outflows(), name, config.window_rows, self._accept)
        event_loop.watch(self._server.socket, self._readable)

    @property
    def endpoint(self) -> Endpoint:
        """The address to which publisher stages connect."""
        return self._server.endpoint

    @property
    def epoch(self) -> int:
        """Return the epoch of its publishers."""
        return self._plan.epoch

    def followed_by(self, plan: DeployedPlan) -> None:
        """Deliver the results to the consumers of another `plan` that was deployed under the name.

        Results of streams that this plan does not export are dropped.
        """
        self._nowhere = frozenset(self._schemas.keys() - {binding.stream for binding in plan.exported})

    def rename(self, key: PlanKey) -> None:
        """Use the plan's new name."""
        self._plan = msgspec.structs.replace(self._plan, key=key)
        self.traces = {binding.stream: EventTrace(key, binding, "after") for binding in self._plan.exported}

    def publishers(self) -> tuple[str, ...]:
        """Return the publisher instances that are connected now."""
        return tuple(sorted(link.opening.sender for link in self._server.links.values()))

    def links(self) -> tuple[PublisherReport, ...]:
        """Return the links of publishers, with the rows in flight over each."""
        return tuple(
            PublisherReport(
                instance=link.opening.sender,
                in_flight_rows=link.inbox.held_rows,
                window_rows=link.inbox.window_rows,
                waits=bool(link.attachment.parked),
            )
            for link in sorted(self._server.links.values(), key=lambda link: link.opening.sender)
        )

    def leave(self) -> None:
        """Accept nothing more; earlier results are acknowledged when they are delivered."""
        self._leaving = True

    def delivered(self) -> bool:
        """Return whether all results have been delivered and acknowledged."""
        return not any(link.attachment.taken for link in self._server.links.values())

    def report(self) -> tuple[OutflowReport, ...]:
        """Return by stream the numbers of received, delivered, and waiting events."""
        waiting = Counter(self._undelivered)
        for link in self._parked:
            for frame in link.attachment.parked:
                if isinstance(frame.message, Data):
                    waiting[frame.message.stream] += frame.message.rows
        return tuple(OutflowReport(stream, *self._counts.of(stream), waiting[stream]) for stream in self._schemas)

    def retry(self, now_ms: int) -> None:
        """Process waiting frames while there is room."""
        if self._leaving:
            return
        for link in list(self._parked):
            parked = link.attachment.parked
            while parked and self._take(parked[0], now_ms):
                parked.popleft()
                link.attachment.moves += 1
                link.attachment.parked_ms = now_ms
            if not parked:
                del self._parked[link]

    def parked(self) -> bool:
        """Return whether frames wait for a full consumer."""
        return bool(self._parked)

    def tick(self, now_ms: int) -> None:
        """Remove silent publishers, and spill results that have waited too long for consumers."""
        self._handle(now_ms)
        if self._prepared is None and not self._leaving:
            for link in list(self._server.links.values()):
                if link.attachment.waits(now_ms):
                    self._spill(link, now_ms)
        for gone in self._server.expire(now_ms):
            self._gone(gone)

    def close(self) -> None:
        """Close the service; publishers send unacknowledged results again."""
        self._event_loop.unwatch(self._server.socket)
        self._server.flush()
        self._server.socket.close(linger=200)

    def _accept(self, opening: OpenLink) -> Rejected | None:
        if opening.key != self._plan.key:
            return Rejected("wrong-endpoint", f"this is the outflow of {self._plan.key.topology()}")
        # stages of an earlier epoch may still run; the present one sends their results again
        if opening.epoch != self._plan.epoch:
            return Rejected("stale-epoch", f"epoch {opening.epoch} where {self._plan.epoch} is deployed")
        newest = self._newest_attempt()
        # the same within an epoch, after the topology was restarted
        if opening.attempt < newest:
            return Rejected(STALE_ATTEMPT, f"attempt {opening.attempt} where {newest} has begun")
        for stream in opening.streams:
            if self._schemas.get(stream.stream) != stream.attributes:
                return Rejected(
                    "schema-mismatch", f"{stream.stream} is not an exported stream, or has other attributes"
                )
        prepared_to = self._prepared.prepared_to(opening) if self._prepared is not None else opening.position
        # The topology no longer has acknowledged results, so missing ones must be computed again. Continuing would
        # leave a gap.
        if prepared_to < opening.position:
            what = f"{opening.position} results of attempt {opening.attempt} were acknowledged"
            logger.error("results are missing, their topology must send them again: plan=%s publisher=%s held=%d of=%d",
                         self._plan.key.topology(), opening.sender, prepared_to, opening.position)  # fmt: skip
            return Rejected(
                RESULTS_MISSING, f"{what}, of which those behind {prepared_to} are not all on this disk any more"
            )
        return None

    def is_quiet(self) -> bool:
        """Return whether its publishers are connected, and all of their results are delivered and acknowledged."""
        return (
            (not self._schemas or bool(self._server.links))
            and not self._parked
            and not self._leaving
            and self.delivered()
        )

    def _readable(self, now_ms: int) -> None:
        self._stir()
        self._handle(now_ms)

    def _handle(self, now_ms: int) -> None:
        if self._server.socket.closed:
            return
        for event in self._server.receive(now_ms):
            match event:
                case LinkArrived(link=link):
                    link.attachment = InFlightFrames(moved_ms=now_ms)
                    # a new attempt has started from a checkpoint, and resends what its predecessor sent since then
                    self._end_older(link.opening.attempt)
                    self._changed()
                case FrameArrived(link=link):
                    publisher = link.attachment
                    # after parked frames everything waits, since results of a publisher must keep their order
                    if publisher.parked or self._leaving or not self._take(event, now_ms):
                        if not publisher.parked:
                            publisher.parked_ms = now_ms
                        publisher.parked.append(event)
                        self._parked[link] = None
                case LinkGone():
                    self._gone(event)
        # once at the end of the turn, so that one acknowledgement covers all frames
        self._event_loop.defer(self._flush)

    def _newest_attempt(self) -> int:
        """Return the newest attempt that has connected here or that results or reports name."""
        if self._prepared is None:
            return self._attempt
        return max(self._attempt, self._prepared.newest_attempt(self._plan.epoch))

    def _end_older(self, attempt: int) -> None:
        """End publishers of attempts before `attempt`, whose first publisher has connected."""
        if attempt <= self._attempt:
            return
        self._attempt = attempt
        for link in list(self._server.links.values()):
            if link.opening.attempt < attempt:
                self._server.drop(link, STALE_ATTEMPT, f"attempt {attempt} has begun")
                self._gone(LinkGone(link, "stale attempt"))

    def _gone(self, event: LinkGone) -> None:
        sender = event.link.opening.sender
        logger.info("publisher gone: plan=%s publisher=%s reason=%s", self._plan.key.topology(), sender, event.reason)
        if event.reason != "closed":
            self._parked.pop(event.link, None)
        self._changed()

    def _flush(self, now_ms: int) -> None:
        if not self._server.socket.closed:
            again_ms = self._server.flush(now_ms)
            if again_ms is not None:
                self._event_loop.call_at(again_ms, self._flush)

    def _take(self, frame: FrameArrived, now_ms: int) -> bool:
        """Return whether the frame has been handled; False when there is no room for it."""
        message = frame.message
        if not isinstance(message, Data | MarkIdle | MarkCheckpoint):
            self._server.refuse_frame(frame.link, "unexpected", f"a {message.TYPE} is not expected here")
        elif self._prepared is not None and not isinstance(message, MarkIdle):
            return self._hold(self._prepared, frame, message, now_ms)
        elif (behind := self._kept_before(frame.link)) is not None and not isinstance(message, MarkIdle):
            return self._hold(behind, frame, message, now_ms)
        elif isinstance(message, Data) and frame.batch is not None and message.rows:
            return self._offer(frame, frame.batch, message, now_ms)
        frame.link.attachment.taken.took(frame.sequence)
        self._acknowledge(frame)
        return True

    def _kept_before(self, link: IncomingLink) -> PreparedResults | None:
        """Return the store if earlier results of the publisher wait on disk."""
        kept = self._logs.kept()
        return kept if kept is not None and kept.holds(link.opening) else None

    def _awaits_delivery(self) -> bool:
        """Return whether results are acknowledged when they are delivered, not when consumers have accepted them."""
        return self._plan.delivery == "at-least-once"

    def _offer(self, frame: FrameArrived, batch: pa.RecordBatch, message: Data, now_ms: int) -> bool:
        consumers = () if message.stream in self._nowhere else tuple(self._consumers(message.stream))
        # all or none, since a frame that only some consumers accepted could not be offered again
        if not all(consumer.has_room() for consumer in consumers):
            return False
        self._note(message.stream, message.rows, batch, now_ms)
        if message.stream in self._nowhere:
            logger.error("results have no consumer, the plan has changed: plan=%s stream=%s events=%d",
                         self._plan.key.topology(), message.stream, message.rows)  # fmt: skip
        publisher: InFlightFrames = frame.link.attachment
        publisher.taken.took(frame.sequence)
        self._undelivered[message.stream] += message.rows
        offered = OfferedFrame(frame, message, batch, now_ms, {consumer.name for consumer in consumers})
        if self._awaits_delivery():
            publisher.offered[frame.sequence] = offered
        else:
            self._acknowledge(frame)
        if not consumers:
            self._delivered(offered)
        for consumer in consumers:
            consumer.offer(batch, offered.body, self._receipt(offered, consumer.name))
        return True

    def _receipt(self, offered: OfferedFrame, name: str) -> DeliveryReceipt:
        """Return the receipt that the consumer of that name settles when it has delivered the frame."""

        def delivered() -> None:
            if offered.settle(name, receipt.lost_rows):
                self._delivered(offered)

        receipt = DeliveryReceipt(1, delivered)
        return receipt

    def _spill(self, link: IncomingLink, now_ms: int) -> None:
        """Spill the publisher's results that wait for consumers to disk."""
        publisher: InFlightFrames = link.attachment
        fresh = publisher.in_memory()
        try:
            logs = self._logs.keep()
            # earlier results on disk must be delivered first
            if not logs.has_room() or logs.holds(link.opening):
                return
            where = self._plan.key.topology(), link.opening.sender
            text = "consumers do not accept results, which are kept on the disk: plan=%s publisher=%s"
            paced_logger.problem(f"spill {where}", text, *where)
            if fresh:
                durable = partial(self._kept, [one.frame for one in fresh])
                kept = logs.keep_offered(link.opening, [one.to_keep() for one in fresh], durable)
                for one in fresh:
                    one.kept = kept
                    self._undelivered[one.message.stream] -= one.message.rows
            elif publisher.parked:
                frame = publisher.parked[0]
                message = frame.message
                if isinstance(message, Data | MarkCheckpoint) and self._hold(logs, frame, message, now_ms):
                    publisher.parked.popleft()
        except (OSError, ConfigError) as error:
            self._note_problem(error)
        else:
            self.problem = ""
            self.retry(now_ms)

    def _kept(self, frames: list[FrameArrived]) -> None:
        for frame in frames:
            self._acknowledge(frame)

    def _note_problem(self, error: OSError | ConfigError) -> None:
        reason = (error.strerror or str(error)) if isinstance(error, OSError) else error.message
        self.problem = f"results cannot be stored: {reason}"
        text = "results cannot be stored: plan=%s reason=%s"
        paced_logger.problem(self._plan.key.topology(), text, self._plan.key.topology(), reason, level=logging.ERROR)

    def _hold(
        self, prepared: PreparedResults, frame: FrameArrived, message: Data | MarkCheckpoint, now_ms: int
    ) -> bool:
        """Store the frame on disk. Return False when there is no room or the disk fails."""
        taken = frame.link.attachment.taken
        try:
            if isinstance(message, MarkCheckpoint):
                prepared.mark(frame.link.opening, message.checkpoint, partial(self._acknowledge, frame))
                taken.took(frame.sequence)
            elif not prepared.has_room():
                return False
            elif self._prepared is None:
                rows = message.rows
                if rows:
                    prepared.append_at_once(frame.link.opening, message, frame.batch, frame.bodies[0])
                taken.took(frame.sequence)
                self._acknowledge(frame)
                self._note(message.stream, rows, frame.batch, now_ms)
            else:
                rows = prepared.append(frame.link.opening, message, frame.batch, frame.bodies[0])
                taken.took(frame.sequence)
                self._acknowledge(frame)
                self._note(message.stream, rows, frame.batch, now_ms)
        except OSError as error:
            self._note_problem(error)
            return False
        self.problem = ""
        return True

    def _note(self, stream: str, rows: int, batch: pa.RecordBatch, now_ms: int) -> None:
        self._counts.received(stream, rows)
        trace = self.traces[stream]
        if trace.on and rows:
            trace.note(batch, now_ms)

    def _delivered(self, offered: OfferedFrame) -> None:
        """Count a frame that all consumers have delivered, and acknowledge it if its publisher waits for that."""
        frame, message = offered.frame, offered.message
        publisher: InFlightFrames = frame.link.attachment
        publisher.moves += 1
        self._counts.delivered(message.stream, message.rows - offered.lost_rows)
        publisher.offered.pop(frame.sequence, None)
        if offered.kept is not None:
            return
        self._undelivered[message.stream] -= message.rows
        if self._awaits_delivery():
            self._acknowledge(frame)

    def _acknowledge(self, frame: FrameArrived) -> None:
        """Acknowledge the frame once those before it are acknowledged."""
        newest = frame.link.attachment.taken.settle(frame.sequence)
        if newest is not None and not self._server.socket.closed:
            self._server.done(frame.link, newest)
            self._event_loop.defer(self._flush)
