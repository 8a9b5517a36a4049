"""Subscriptions of plans to topics, and the feed of one publisher's events to one subscription."""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any, Literal, NamedTuple

import pyarrow as pa

from cep_common.errors import InputError
from cep_common.ids import PlanKey
from cep_common.protocol.links import StreamSchema
from cep_worker.formats.key_values import Keys, KeyValueReader
from cep_worker.inflows.wal.errors import WalFullError
from cep_worker.ingest.routing import Route
from cep_worker.outflows.consumers import FrameId
from cep_worker.outflows.receipts import DeliveryReceipt
from cep_worker.plans.streams import EventStream, schema_problems
from cep_worker.storage.group_commit import DiskSync
from cep_worker.storage.records import SOURCE_BYTES, BatchOrigin
from topology.events.frames import arrow_schema
from topology.events.watermarks import NO_WATERMARK

logger = logging.getLogger(__name__)

KeepFailed = Callable[[PlanKey, str, pa.RecordBatch, str], int]
MakeRoute = Callable[[Hashable, StreamSchema, EventStream], Route]

STALLED_MS = 5_000
"""How long a feed may have no room until it is reported as blocking its publisher."""


class Topic(NamedTuple):
    """The common part of publishers and subscribers of a tenant."""

    kind: Literal["event stream", "topic"]
    tenant: int
    name: str


@dataclass(slots=True, eq=False)
class Subscription:
    """A subscription of `stream` to `topic`.

    Attributes are matched by name, `by_position`, or by their `keys`.
    """

    topic: Topic
    stream: EventStream
    by_position: bool
    keys: Keys | None = None

    def key(self) -> PlanKey:
        """Return the plan that subscribes, or the first of those that an artefact serves."""
        return self.stream.members[0].key

    def takes(self) -> str:
        """Return a description of what it subscribes to, equal in all processes."""
        return repr((self.stream.lasting_name(), self.by_position, self.keys))


@dataclass(frozen=True, slots=True)
class _OfferedBatch:
    """An offered batch; `origin` identifies one that may be repeated and must be accepted once."""

    batch: pa.RecordBatch
    body: Any
    receipt: DeliveryReceipt
    origin: BatchOrigin | None


class SubscriptionFeed:
    """Passes one publisher's events to one subscription."""

    def __init__(
        self,
        source: Hashable,
        offered: StreamSchema,
        subscription: Subscription,
        make_route: MakeRoute,
        disk_sync: DiskSync,
        failed: KeepFailed,
    ) -> None:
        """Create the feed; events that can no longer wait go to `failed`."""
        self._failed = failed
        self.subscription = subscription
        self.part = f"{subscription.topic.kind} {subscription.topic.name} from {offered.stream}"
        """Its name among the parts of the subscribing plan."""
        self.problem = ""
        """Why events are not passed on, or why the last ones were not; empty without a problem."""
        self.way = ""
        """By what its inflows tell its batches from those of other feeds, in a later process too: what is published,
        and how and for which stream it is taken."""
        self.dropped_events = 0
        self._full_since_ms: int | None = None
        self._source = source
        self._make_route = make_route
        self._disk_sync = disk_sync
        self._offered = offered
        self._renamed: pa.Schema | None = None
        self._picking: KeyValueReader | None = None
        self._route: Route | None = None
        self._waiting: deque[_OfferedBatch] = deque()
        self._fits = self._fit()

    def tie(self, now_ms: int) -> None:
        """Handle a change of the deployed plans: pass events to the stream's present inflows."""
        former, self._route = self._route, self._find()
        if former is not None and (self._route is None or self._route.inflows != former.inflows):
            former.leave()
        if self._route is None:
            self._give_up()
        elif former is None or self._route.inflows != former.inflows:
            self._route.join(now_ms)

    def has_room(self) -> bool:
        """Return whether nothing waits and all inflows have room."""
        return not self._waiting and (self._route is None or self._route.has_room())

    def stalls(self, now_ms: int) -> bool:
        """Return whether it has had no room for so long that this is worth telling.

        To be asked with every tick.
        """
        if self.has_room():
            self._full_since_ms = None
        elif self._full_since_ms is None:
            self._full_since_ms = now_ms
        return self._full_since_ms is not None and now_ms - self._full_since_ms >= STALLED_MS

    def offer(
        self, batch: pa.RecordBatch, body: Any, receipt: DeliveryReceipt, frame: FrameId | None, now_ms: int
    ) -> None:
        """Pass `batch` on, or let it wait for room; a `frame` is passed on once."""
        offered = _OfferedBatch(batch, body, receipt, None if frame is None else self._origin(frame))
        if self._waiting or not self._take(offered, now_ms):
            self._waiting.append(offered)

    def retry(self, now_ms: int) -> None:
        """Retry batches that wait for room."""
        while self._waiting and self._route is not None and self._route.has_room():
            if not self._take(self._waiting[0], now_ms):
                return
            self._waiting.popleft()

    def waiting_events(self) -> int:
        """Return the number of events that wait for room."""
        return sum(offered.batch.num_rows for offered in self._waiting)

    def take_over(self, former: SubscriptionFeed) -> None:
        """Take over the waiting batches of `former`, which ends, if they fit."""
        if self._fits and former._offered == self._offered:
            self._waiting.extend(former._waiting)
            former._waiting.clear()

    def close(self) -> None:
        """Close the feed and drop waiting batches."""
        if self._route is not None:
            self._route.leave()
            self._route = None
        self._give_up()

    def _fit(self) -> bool:
        """Return whether the offered events have the attributes of the stream; otherwise set `problem`."""
        offered, wanted = self._offered, self.subscription.stream.schema
        if self.subscription.keys is not None:
            self._picking = KeyValueReader(offered, wanted, self.subscription.keys)
            self._offered, problems = self._picking.schema, self._picking.problems
        elif not self.subscription.by_position:
            problems = schema_problems(offered.attributes, wanted.attributes)
        elif _types(offered) == _types(wanted):
            self._offered = StreamSchema(offered.stream, wanted.attributes)
            self._renamed = arrow_schema(self._offered)
            problems = []
        else:
            problems = [f"its attributes are {_types(offered)} where {_types(wanted)} are defined"]
        if problems:
            topic = self.subscription.topic
            self.problem = (
                f"{topic.kind} {topic.name}: the events of {offered.stream} do not match {wanted.stream}: "
                f"{'; '.join(problems)}"
            )
        return not problems

    def _find(self) -> Route | None:
        """Return the route to the inflows, if any accept events now."""
        if not self._fits:
            return None
        try:
            return self._make_route(self._source, self._offered, self.subscription.stream)
        except InputError:  # the plan is not active
            return None

    def _give_up(self) -> None:
        reason = f"{self.part}: {self.problem or 'they waited for room when their subscription ended'}"
        while self._waiting:
            offered = self._waiting.popleft()
            for member in self.subscription.stream.members:
                self._failed(member.key, member.binding.stream, offered.batch, reason)
            offered.receipt.settle()

    def _origin(self, frame: FrameId) -> BatchOrigin:
        """Return the origin of the frame's batch: each log is one source of this feed, whose frames are numbered."""
        source = blake2b(f"{frame.group.log} {self.way}".encode(), digest_size=SOURCE_BYTES)
        return BatchOrigin(source.digest(), frame.number)

    def _take(self, offered: _OfferedBatch, now_ms: int) -> bool:
        """Return whether the batch was handled; False if it must wait."""
        route, batch, body, receipt = self._route, offered.batch, offered.body, offered.receipt
        if route is None:
            self.dropped_events += 0 if self._fits else batch.num_rows
            receipt.settle()
            return True
        if self._renamed is not None:
            batch = pa.RecordBatch.from_arrays(batch.columns, schema=self._renamed)
        elif self._picking is not None:
            batch, body = self._picking.batch(batch), None  # it is encoded again
        try:
            route.offer(batch, body, NO_WATERMARK, now_ms, offered.origin)
        except WalFullError:  # the inflow reports why
            return False
        except InputError as error:
            self.dropped_events += batch.num_rows
            self.problem = f"{batch.num_rows} events of {self._offered.stream} dropped: {error.message}"
            logger.error("%s", self.problem)  # noqa: TRY400 - expected, the text says it all
            receipt.settle()
        else:
            self.problem = ""
            self._disk_sync.when_safe(receipt.settle)
        return True


def _types(schema: StreamSchema) -> str:
    return f"({', '.join(kind for _, kind in schema.attributes)})"
