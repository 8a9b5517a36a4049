"""Topics: events that plans of a worker publish and subscribe to.

    plan A ── Alerts ──▶ Publisher ──┬─ Feed ──▶ route ──▶ inflow of plan B
                                     └─ Feed ──▶ route ──▶ inflow of plan C

A topic is an event stream that plans export and import, or the topic of sinks and sources `inMemory`. An event is
delivered when every inflow has accepted it and it is durable. A plan that is not active gets nothing. Everything here
belongs to the data thread.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Hashable, Iterator
from typing import Any

import pyarrow as pa

from cep_common.ids import PlanKey
from cep_common.protocol.links import StreamSchema
from cep_worker.formats.key_values import Keys
from cep_worker.outflows.consumers import FrameId, GroupId
from cep_worker.outflows.receipts import DeliveryReceipt
from cep_worker.plan_links.subscriptions import KeepFailed, MakeRoute, Subscription, SubscriptionFeed, Topic
from cep_worker.plans.streams import EventStream
from cep_worker.runtime.error_tracking import PlanError
from cep_worker.storage.group_commit import DiskSync

logger = logging.getLogger(__name__)


class TopicPublisher:
    """The consumer of an exported stream whose events go to all subscriptions of a topic."""

    def __init__(
        self,
        topics: TopicRegistry,
        topic: Topic,
        offered: StreamSchema,
        plans: tuple[PlanKey, ...],
        form: str,
        source: Hashable,
        lasting: str,
    ) -> None:
        self.topic = topic
        self.offered = offered
        self.plans = plans
        self.form = form
        self.source = source
        self._lasting = lasting or offered.stream
        self.feeds: list[SubscriptionFeed] = []
        self.former = False
        """Whether the stream is no longer exported in this form; a mismatch then only matters if events arrive."""
        self.stall = ""
        """The subscribers that the plans wait for; empty for none."""
        self._topics = topics
        self._dropped_before = 0

    @property
    def dropped_events(self) -> int:
        """Return the number of events that no inflow could ever accept."""
        return self._dropped_before + sum(feed.dropped_events for feed in self.feeds)

    def gives(self) -> str:
        """Return a description of what it publishes, equal in all processes."""
        return repr((self.topic.kind, self.topic.name, self._lasting, self.offered.attributes, self.form))

    def has_room(self) -> bool:
        return not self._topics.leaving and all(feed.has_room() for feed in self.feeds)

    def offer(self, batch: pa.RecordBatch, body: Any, receipt: DeliveryReceipt, frame: FrameId | None = None) -> None:
        if not self.feeds:
            receipt.settle()
            return
        shared = DeliveryReceipt(len(self.feeds), receipt.settle)
        now_ms = self._topics.monotonic_ms()
        for feed in self.feeds:
            feed.offer(batch, body, shared, frame, now_ms)

    def commit(self, group: GroupId, receipt: DeliveryReceipt) -> None:
        """Settle at once: each frame is independent."""
        receipt.settle()

    def waiting_events(self) -> int:
        """Return the number of events that wait for room."""
        return sum(feed.waiting_events() for feed in self.feeds)

    def tie(
        self,
        subscriptions: list[Subscription],
        twin: int,
        make_route: MakeRoute,
        disk_sync: DiskSync,
        failed: KeepFailed,
        now_ms: int,
    ) -> None:
        """Set the subscriptions.

        Batches that wait for a redefined stream go to the new one. `twin` numbers the publishers of one topic with the
        same description.
        """
        before, self.feeds = self.feeds, []
        twins: Counter[str] = Counter()
        ending = {feed.subscription.key(): feed for feed in before if feed.subscription not in subscriptions}
        for subscription in subscriptions:
            feed = next((feed for feed in before if feed.subscription is subscription), None)
            if feed is None:
                feed = SubscriptionFeed(self.source, self.offered, subscription, make_route, disk_sync, failed)
                if not feed.problem:
                    logger.info("plans are connected: %s=%s from=%s to=%s", self.topic.kind, self.topic.name,
                                self.offered.stream, subscription.stream.schema.stream)  # fmt: skip
            else:
                before.remove(feed)
            feed.tie(now_ms)
            way = f"{self.gives()} {twin} {subscription.takes()}"
            feed.way = f"{way} {twins[way]}"
            twins[way] += 1
            former = ending.get(subscription.key())
            if former is not None:
                feed.take_over(former)
            self.feeds.append(feed)
        if not self.feeds:
            self.stall = ""
        self._end(before)

    def tick(self, now_ms: int) -> None:
        """Tick all feeds."""
        stalled = [feed.subscription.stream.schema.stream for feed in self.feeds if feed.stalls(now_ms)]
        self.stall = (
            f"{self.offered.stream} waits for {', '.join(stalled)}, which accepts no more events" if stalled else ""
        )

    def close(self) -> None:
        """Stop publishing and drop waiting batches."""
        feeds, self.feeds = self.feeds, []
        self._end(feeds)

    def _end(self, feeds: list[SubscriptionFeed]) -> None:
        for feed in feeds:
            self._dropped_before += feed.dropped_events
            feed.close()


class TopicRegistry:
    """The publishers and subscribers of a worker's topics.

    `make_route` returns routes to the inflows of a stream, `disk_sync` says when accepted events are durable, and
    `failed` stores events that can no longer wait.
    """

    def __init__(
        self, make_route: MakeRoute, disk_sync: DiskSync, monotonic_ms: Callable[[], int], failed: KeepFailed
    ) -> None:
        self._failed = failed
        self.monotonic_ms = monotonic_ms
        self.leaving = False
        self._make_route = make_route
        self._disk_sync = disk_sync
        self._made = 0
        self._publishers: dict[TopicPublisher, None] = {}
        self._subscriptions: dict[Subscription, None] = {}
        self._fed: list[TopicPublisher] = []
        """Publishers with subscribers, which are few of those of a thousand plans."""

    def publish(
        self, topic: Topic, offered: StreamSchema, plans: tuple[PlanKey, ...] = (), form: str = "", lasting: str = ""
    ) -> TopicPublisher:
        """Return a publisher of events with the attributes `offered`; it has subscribers after the next `reroute`.

        `plans` are notified when they wait for these events. `form` distinguishes publishers whose `offered` are equal
        but whose events are not; `lasting` is the name of the stream as it stays when its plan is renamed (empty: its
        present one).
        """
        self._made += 1
        publisher = TopicPublisher(self, topic, offered, plans, form, ("publisher", self._made), lasting)
        self._publishers[publisher] = None
        return publisher

    def end_publisher(self, publisher: TopicPublisher) -> None:
        """Remove the publisher."""
        if publisher in self._publishers:
            del self._publishers[publisher]
            self._fed = [one for one in self._fed if one is not publisher]
            publisher.close()

    def subscribe(
        self, topic: Topic, stream: EventStream, *, by_position: bool = False, keys: Keys | None = None
    ) -> Subscription:
        """Subscribe `stream` to `topic` from the next `reroute` on."""
        subscription = Subscription(topic, stream, by_position, keys)
        self._subscriptions[subscription] = None
        return subscription

    def end_subscription(self, subscription: Subscription) -> None:
        """End the subscription at the next `reroute`."""
        self._subscriptions.pop(subscription, None)

    def has_subscribers(self, topic: Topic) -> bool:
        """Return whether `topic` has subscribers."""
        return any(subscription.topic == topic for subscription in self._subscriptions)

    def reroute(self, now_ms: int) -> None:
        """Handle a change of publishers, subscriptions or deployed plans."""
        by_topic: dict[Topic, list[Subscription]] = {}
        for subscription in self._subscriptions:
            by_topic.setdefault(subscription.topic, []).append(subscription)
        twins: Counter[str] = Counter()
        for publisher in self._publishers:
            gives = publisher.gives()
            publisher.tie(
                by_topic.get(publisher.topic, []), twins[gives], self._make_route, self._disk_sync, self._failed, now_ms
            )
            twins[gives] += 1
        self._fed = [publisher for publisher in self._publishers if publisher.feeds]

    def retry(self, now_ms: int) -> None:
        """Retry delivery to subscribers that were full."""
        for publisher in self._fed:
            for feed in publisher.feeds:
                feed.retry(now_ms)

    def tick(self, now_ms: int) -> None:
        """Perform due tasks."""
        for publisher in self._fed:
            publisher.tick(now_ms)

    def leave(self) -> None:
        """Refuse further events of publishers, whose results go to another worker."""
        self.leaving = True

    def problems(self) -> dict[PlanKey, str]:
        """Return the problem of each plan that has one: why it gets no events, or which subscribers it waits for."""
        found: dict[PlanKey, str] = {}
        for plan_error in self.errors_found():
            if plan_error.text:
                found.setdefault(plan_error.key, plan_error.text)
        return found

    def errors_found(self) -> Iterator[PlanError]:
        """Return the feeds between plans that have a problem or have dropped events."""
        for publisher in self._fed:
            for feed in publisher.feeds:
                if feed.dropped_events or (feed.problem and not publisher.former):
                    for member in feed.subscription.stream.members:
                        yield PlanError(member.key, feed.part, "feed", feed.problem, feed.dropped_events)
            if publisher.stall:
                for key in publisher.plans:
                    yield PlanError(key, f"{publisher.topic.kind} {publisher.topic.name}", "stall", publisher.stall)
