"""Events that plans give each other within a worker: what is published under a topic goes to whoever subscribes to it.

    plan A ── Alerts ──▶ Publisher ──┬─ Feed ──▶ route ──▶ inflow of plan B
                                     └─ Feed ──▶ route ──▶ inflow of plan C

A topic is an event stream, which plans export and import, or a name of its own of sinks and sources `inMemory`. An
event has been delivered when every inflow has taken it and the worker can no longer lose it. A plan that is not active
gets nothing, as from other sources. Everything here belongs to the reactor's thread.
"""

from __future__ import annotations

import logging
from collections import Counter, deque
from collections.abc import Callable, Hashable, Iterator
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any, Literal, NamedTuple

import pyarrow as pa

from cep_common.errors import InputError
from cep_common.ids import PlanKey
from cep_common.link_messages import StreamSchema
from cep_worker.consumers import FrameId, GroupId
from cep_worker.mappers.key_values import Keys, Picking
from cep_worker.receipts import Receipt
from cep_worker.route import Route
from cep_worker.spool.errors import SpoolFullError
from cep_worker.spool.records import SOURCE_BYTES, Origin
from cep_worker.spool.upkeep import Upkeep
from cep_worker.streams import EventStream, schema_problems
from cep_worker.troubles import Trouble
from topology.frames import arrow_schema
from topology.link import NO_WATERMARK

logger = logging.getLogger(__name__)

MakeRoute = Callable[[Hashable, StreamSchema, EventStream], Route]

STALLED_MS = 5_000
"""A feed that has had no room for so long holds its publisher up; a shorter time is a busy moment."""


class Topic(NamedTuple):
    """What publishers and subscribers of a tenant have in common."""

    kind: Literal["event stream", "topic"]
    tenant: int
    name: str


@dataclass(slots=True, eq=False)
class Subscription:
    """`stream` takes what is published under `topic`: attributes by their names, `by_position` whatever the publisher
    calls them, or by their `keys`."""

    topic: Topic
    stream: EventStream
    by_position: bool
    keys: Keys | None = None

    def key(self) -> PlanKey:
        """The plan that subscribes, or the first of those that an artefact serves."""
        return self.stream.members[0].key


@dataclass(frozen=True, slots=True)
class _Offered:
    """A batch on its way; `origin` says which one it is, if it may come again and is to count once."""

    batch: pa.RecordBatch
    body: Any
    receipt: Receipt
    origin: Origin | None


class Feed:
    """The way of one publisher's events to one subscription."""

    def __init__(
        self, source: Hashable, offered: StreamSchema, subscription: Subscription, make_route: MakeRoute, upkeep: Upkeep
    ) -> None:
        self.subscription = subscription
        self.part = f"{subscription.topic.kind} {subscription.topic.name} from {offered.stream}"
        """What it is called among the parts of the plan that takes the events."""
        self.problem = ""
        """Why events do not go this way, or the last ones did not, or nothing."""
        self.way = ""
        """By what its inflows tell its batches from those that come from elsewhere: the same in a later process."""
        self.dropped_events = 0
        self._full_since_ms: int | None = None
        self._source = source
        self._make_route = make_route
        self._upkeep = upkeep
        self._offered = offered
        self._renamed: pa.Schema | None = None
        self._picking: Picking | None = None
        self._route: Route | None = None
        self._waiting: deque[_Offered] = deque()
        self._fits = self._fit()

    def tie(self, now_ms: int) -> None:
        """The deployed plans have changed: events go to the inflows that the stream has now."""
        former, self._route = self._route, self._find()
        if former is not None and (self._route is None or self._route.inflows != former.inflows):
            former.leave()
        if self._route is None:
            self._give_up()
        elif former is None or self._route.inflows != former.inflows:
            self._route.join(now_ms)

    def has_room(self) -> bool:
        """True when nothing waits and all inflows would take a batch."""
        return not self._waiting and (self._route is None or self._route.has_room())

    def stalls(self, now_ms: int) -> bool:
        """It has had no room for so long that this is worth telling. To be asked with every tick."""
        if self.has_room():
            self._full_since_ms = None
        elif self._full_since_ms is None:
            self._full_since_ms = now_ms
        return self._full_since_ms is not None and now_ms - self._full_since_ms >= STALLED_MS

    def offer(self, batch: pa.RecordBatch, body: Any, receipt: Receipt, frame: FrameId | None, now_ms: int) -> None:
        """`batch` goes on, or waits for room on the disk; one that is a `frame` goes on once, however often it is
        offered."""
        offered = _Offered(batch, body, receipt, None if frame is None else self._origin(frame))
        if self._waiting or not self._take(offered, now_ms):
            self._waiting.append(offered)

    def retry(self, now_ms: int) -> None:
        """There may be room again."""
        while self._waiting and self._route is not None and self._route.has_room():
            if not self._take(self._waiting[0], now_ms):
                return
            self._waiting.popleft()

    def waiting_events(self) -> int:
        """How many events wait for room on the disk."""
        return sum(offered.batch.num_rows for offered in self._waiting)

    def take_over(self, former: Feed) -> None:
        """What waits in `former`, which ends, goes this way, if it can."""
        if self._fits and former._offered == self._offered:
            self._waiting.extend(former._waiting)
            former._waiting.clear()

    def close(self) -> None:
        """Nobody publishes or subscribes any more; what waits is given up."""
        if self._route is not None:
            self._route.leave()
            self._route = None
        self._give_up()

    def _fit(self) -> bool:
        """What is offered has the attributes of the stream; otherwise `problem` says what is wrong."""
        offered, wanted = self._offered, self.subscription.stream.schema
        if self.subscription.keys is not None:
            self._picking = Picking(offered, wanted, self.subscription.keys)
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
                f"{topic.kind} {topic.name}: what {offered.stream} gives does not fit {wanted.stream}: "
                f"{'; '.join(problems)}"
            )
        return not problems

    def _find(self) -> Route | None:
        """The route to the inflows, if there are any that take events now."""
        if not self._fits:
            return None
        try:
            return self._make_route(self._source, self._offered, self.subscription.stream)
        except InputError:  # its plan is not active
            return None

    def _give_up(self) -> None:
        if self._waiting:
            logger.error("events lost, their way has ended: %s to=%s events=%d", self.part,
                         self.subscription.stream.schema.stream, self.waiting_events())  # fmt: skip
        while self._waiting:
            self._waiting.popleft().receipt.settle()

    def _origin(self, frame: FrameId) -> Origin:
        """Which batch the frame is of those that its log gives this way; by others its frames may come sooner."""
        source = blake2b(f"{frame.group.log} {self.way}".encode(), digest_size=SOURCE_BYTES)
        return Origin(source.digest(), frame.number)

    def _take(self, offered: _Offered, now_ms: int) -> bool:
        """True when the batch has been dealt with; False when it must wait."""
        route, batch, body, receipt = self._route, offered.batch, offered.body, offered.receipt
        if route is None:
            self.dropped_events += 0 if self._fits else batch.num_rows
            receipt.settle()
            return True
        if self._renamed is not None:
            batch = pa.RecordBatch.from_arrays(batch.columns, schema=self._renamed)
        elif self._picking is not None:
            batch, body = self._picking.batch(batch), None  # it is written anew
        try:
            route.offer(batch, body, NO_WATERMARK, now_ms, offered.origin)
        except SpoolFullError:  # the inflow tells why
            return False
        except InputError as error:
            self.dropped_events += batch.num_rows
            self.problem = f"{batch.num_rows} events of {self._offered.stream} dropped: {error.message}"
            logger.error("%s", self.problem)  # noqa: TRY400 - expected, the text says it all
            receipt.settle()
        else:
            self.problem = ""
            self._upkeep.when_safe(receipt.settle)
        return True


class Publisher:
    """The consumer of an exported stream whose events go to all subscriptions of a topic."""

    def __init__(
        self, topics: Topics, topic: Topic, offered: StreamSchema, plans: tuple[PlanKey, ...], source: Hashable
    ) -> None:
        self.topic = topic
        self.offered = offered
        self.plans = plans
        self.source = source
        self.feeds: list[Feed] = []
        self.former = False
        """The stream is not exported so any more: that nothing fits it matters only if something comes yet."""
        self.stall = ""
        """For whom the plans wait, or nothing."""
        self._topics = topics
        self._dropped_before = 0

    @property
    def dropped_events(self) -> int:
        """Those that no inflow could ever take."""
        return self._dropped_before + sum(feed.dropped_events for feed in self.feeds)

    def has_room(self) -> bool:
        return not self._topics.leaving and all(feed.has_room() for feed in self.feeds)

    def offer(self, batch: pa.RecordBatch, body: Any, receipt: Receipt, frame: FrameId | None = None) -> None:
        if not self.feeds:
            receipt.settle()
            return
        shared = Receipt(len(self.feeds), receipt.settle)
        now_ms = self._topics.monotonic_ms()
        for feed in self.feeds:
            feed.offer(batch, body, shared, frame, now_ms)

    def commit(self, group: GroupId, receipt: Receipt) -> None:
        """Each frame stands by itself."""
        receipt.settle()

    def waiting_events(self) -> int:
        """How many events wait for room on a disk."""
        return sum(feed.waiting_events() for feed in self.feeds)

    def tie(
        self, subscriptions: list[Subscription], twin: int, make_route: MakeRoute, upkeep: Upkeep, now_ms: int
    ) -> None:
        """Exactly these take the events from now on. What waits for a stream that was defined anew goes to the new
        one. `twin` numbers the publishers that offer the same under one topic."""
        before, self.feeds = self.feeds, []
        way = f"{self.topic.kind} {self.topic.name} {self.offered.stream} {self.offered.attributes} {twin}"
        twins: Counter[tuple[PlanKey, str]] = Counter()
        ending = {feed.subscription.key(): feed for feed in before if feed.subscription not in subscriptions}
        for subscription in subscriptions:
            feed = next((feed for feed in before if feed.subscription is subscription), None)
            if feed is None:
                feed = Feed(self.source, self.offered, subscription, make_route, upkeep)
                if not feed.problem:
                    logger.info("plan is fed: %s=%s from=%s to=%s", self.topic.kind, self.topic.name,
                                self.offered.stream, subscription.stream.schema.stream)  # fmt: skip
            else:
                before.remove(feed)
            feed.tie(now_ms)
            taker = (subscription.key(), subscription.stream.schema.stream)
            feed.way = f"{way} {twins[taker]}"
            twins[taker] += 1
            former = ending.get(subscription.key())
            if former is not None:
                feed.take_over(former)
            self.feeds.append(feed)
        self._end(before)

    def tick(self, now_ms: int) -> None:
        """Time passes."""
        stalled = [feed.subscription.stream.schema.stream for feed in self.feeds if feed.stalls(now_ms)]
        self.stall = f"{self.offered.stream} waits for {', '.join(stalled)}, which takes no more" if stalled else ""

    def close(self) -> None:
        """Nothing more is published; what waits is given up."""
        feeds, self.feeds = self.feeds, []
        self._end(feeds)

    def _end(self, feeds: list[Feed]) -> None:
        for feed in feeds:
            self._dropped_before += feed.dropped_events
            feed.close()


class Topics:
    """Who publishes and who subscribes. `make_route` leads to the inflows of a stream; `upkeep` says when what they
    took is safe."""

    def __init__(self, make_route: MakeRoute, upkeep: Upkeep, monotonic_ms: Callable[[], int]) -> None:
        self.monotonic_ms = monotonic_ms
        self.leaving = False
        self._make_route = make_route
        self._upkeep = upkeep
        self._made = 0
        self._publishers: dict[Publisher, None] = {}
        self._subscriptions: dict[Subscription, None] = {}

    def publish(self, topic: Topic, offered: StreamSchema, plans: tuple[PlanKey, ...] = ()) -> Publisher:
        """A publisher of events with the attributes `offered`; it has subscribers after the next `reroute`. `plans` are
        told when they wait for these."""
        self._made += 1
        publisher = Publisher(self, topic, offered, plans, ("publisher", self._made))
        self._publishers[publisher] = None
        return publisher

    def end_publisher(self, publisher: Publisher) -> None:
        """It publishes no more."""
        if publisher in self._publishers:
            del self._publishers[publisher]
            publisher.close()

    def subscribe(
        self, topic: Topic, stream: EventStream, *, by_position: bool = False, keys: Keys | None = None
    ) -> Subscription:
        """`stream` takes what is published under `topic` after the next `reroute`."""
        subscription = Subscription(topic, stream, by_position, keys)
        self._subscriptions[subscription] = None
        return subscription

    def end_subscription(self, subscription: Subscription) -> None:
        """Its stream takes nothing more after the next `reroute`."""
        self._subscriptions.pop(subscription, None)

    def reroute(self, now_ms: int) -> None:
        """Publishers, subscriptions or the deployed plans have changed."""
        by_topic: dict[Topic, list[Subscription]] = {}
        for subscription in self._subscriptions:
            by_topic.setdefault(subscription.topic, []).append(subscription)
        twins: Counter[tuple[Topic, StreamSchema]] = Counter()
        for publisher in self._publishers:
            offers = (publisher.topic, publisher.offered)
            publisher.tie(by_topic.get(publisher.topic, []), twins[offers], self._make_route, self._upkeep, now_ms)
            twins[offers] += 1

    def retry(self, now_ms: int) -> None:
        """What waits for room tries again."""
        for publisher in self._publishers:
            for feed in publisher.feeds:
                feed.retry(now_ms)

    def tick(self, now_ms: int) -> None:
        """Time passes."""
        for publisher in self._publishers:
            publisher.tick(now_ms)

    def leave(self) -> None:
        """Nothing more is taken from publishers: their results go to another worker."""
        self.leaving = True

    def problems(self) -> dict[PlanKey, str]:
        """Why plans do not get what they ask for, or for whom they wait; plans with whom all is well are left out."""
        found: dict[PlanKey, str] = {}
        for trouble in self.troubles():
            if trouble.text:
                found.setdefault(trouble.key, trouble.text)
        return found

    def troubles(self) -> Iterator[Trouble]:
        """What is wrong with ways from plan to plan, and those that have dropped events."""
        for publisher in self._publishers:
            for feed in publisher.feeds:
                if feed.dropped_events or (feed.problem and not publisher.former):
                    for member in feed.subscription.stream.members:
                        yield Trouble(member.key, feed.part, "feed", feed.problem, feed.dropped_events)
            if publisher.stall:
                for key in publisher.plans:
                    yield Trouble(key, f"{publisher.topic.kind} {publisher.topic.name}", "stall", publisher.stall)


def _types(schema: StreamSchema) -> str:
    return f"({', '.join(kind for _, kind in schema.attributes)})"
