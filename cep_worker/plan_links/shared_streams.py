"""Event streams that one plan exports and another imports, which need no declaration of a sink or source."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from typing import Any

import pyarrow as pa

from cep_common.ids import PlanKey
from cep_common.protocol.links import StreamSchema
from cep_common.protocol.registry import DeployedPlan, StreamBinding
from cep_worker.outflows.consumers import FrameId, GroupId
from cep_worker.outflows.receipts import DeliveryReceipt
from cep_worker.plan_links.subscriptions import Subscription, Topic
from cep_worker.plan_links.topic_registry import TopicPublisher, TopicRegistry
from cep_worker.plans.streams import EventStream, PlanStream, SchemaFit, lasting_name
from topology.events.frames import arrow_schema

logger = logging.getLogger(__name__)

_Bound = tuple[PlanKey, StreamBinding]

FINISHING_MS = 60_000
"""How long results may still arrive of a stream that its plan no longer exports in this form: somewhat longer than
outflows of earlier epochs stay open."""


class _SharedStreamTap:
    """The publishers of one exported stream.

    There is the present one, and those from before an edit of the plan, which accept results of the former topology.
    """

    name = form = "feed"
    lasting = True

    def __init__(self, name: str) -> None:
        self._name = name
        self._ways: list[tuple[pa.Schema, TopicPublisher]] = []

    def add(self, publisher: TopicPublisher) -> None:
        """Add a publisher, unless there is one with the same attributes."""
        self._ways.append((arrow_schema(publisher.offered), publisher))

    def has_room(self) -> bool:
        return all(publisher.has_room() for _, publisher in self._ways)

    def offer(self, batch: pa.RecordBatch, body: Any, receipt: DeliveryReceipt, frame: FrameId | None = None) -> None:
        for schema, publisher in self._ways:
            if batch.schema.equals(schema):
                publisher.offer(batch, body, receipt, frame)
                return
        for _, publisher in self._ways:  # from before an edit of the stream
            fit = SchemaFit(publisher.offered.attributes)
            if not fit.problem(batch):
                publisher.offer(fit.fitted(batch), None, receipt, frame)
                return
        logger.error("results have no consumer, the plan has changed: of=%s events=%d", self._name, batch.num_rows)
        receipt.settle()

    def commit(self, group: GroupId, receipt: DeliveryReceipt) -> None:
        """Settle at once: each frame is independent."""
        receipt.settle()


class SharedStreams:
    """Connects streams of `@Export` with streams of `@Import` that have the same name outside.

    Keeps a publisher for each exported and a subscription for each imported stream. Belongs to the data thread.
    """

    def __init__(self, topics: TopicRegistry) -> None:
        self._topics = topics
        self._publishers: dict[_Bound, TopicPublisher] = {}
        self._former: dict[_Bound, tuple[TopicPublisher, int]] = {}
        """Publishers without a plan, and since when."""
        self._subscriptions: dict[_Bound, Subscription] = {}
        self._taps: dict[tuple[PlanKey, str], _SharedStreamTap] = {}

    def apply(self, exporting: Iterable[DeployedPlan], importing: Iterable[DeployedPlan], now_ms: int) -> None:
        """Publish the streams of `exporting` plans and subscribe those of `importing` plans.

        It takes effect with the next reroute of the topics. Plans in `exporting` have results, or may still get some.
        """
        imported = {(plan.key, bound): None for plan in importing for bound in plan.imported if _named(bound)}
        exported = {(plan.key, bound): None for plan in exporting for bound in plan.exported if _named(bound)}
        for gone in [one for one in self._subscriptions if one not in imported]:
            self._topics.end_subscription(self._subscriptions.pop(gone))
        for left in [one for one in self._publishers if one not in exported]:
            publisher = self._publishers.pop(left)
            publisher.former = True
            self._former[left] = (publisher, now_ms)
        for key, bound in [one for one in imported if one not in self._subscriptions]:
            stream = EventStream(_schema(key, bound), (PlanStream(key, bound),))
            self._subscriptions[key, bound] = self._topics.subscribe(_topic(key, bound), stream)
        for key, bound in [one for one in exported if one not in self._publishers]:
            kept = self._former.pop((key, bound), None)
            made = kept[0] if kept else self._publish(key, bound)
            made.former = False
            self._publishers[key, bound] = made
        self._rename(imported, exported)
        self._tap()

    def _rename(self, imported: Iterable[_Bound], exported: Iterable[_Bound]) -> None:
        """Update the names of plans."""
        self._subscriptions = {one: self._subscriptions[one] for one in imported}
        self._publishers = {one: self._publishers[one] for one in exported}
        for (key, bound), subscription in self._subscriptions.items():
            subscription.stream = EventStream(_schema(key, bound), (PlanStream(key, bound),))
        for (key, bound), publisher in self._publishers.items():
            publisher.offered, publisher.plans = _schema(key, bound), (key,)

    def tick(self, now_ms: int) -> None:
        """End publishers that cannot get results any more."""
        ended = [bound for bound, (_, since_ms) in self._former.items() if now_ms - since_ms >= FINISHING_MS]
        for bound in ended:
            self._topics.end_publisher(self._former.pop(bound)[0])
        if ended:
            self._tap()

    def taps(self, key: PlanKey, stream: str) -> tuple[_SharedStreamTap, ...]:
        """Return the consumers of an exported stream for other plans."""
        tap = self._taps.get((key, stream))
        return () if tap is None else (tap,)

    def _publish(self, key: PlanKey, bound: StreamBinding) -> TopicPublisher:
        schema = _schema(key, bound)
        return self._topics.publish(_topic(key, bound), schema, (key,), lasting=lasting_name(schema.stream, key))

    def _tap(self) -> None:
        """Create a tap if a plan imports the stream, or did before it was edited."""
        topics = {subscription.topic for subscription in self._subscriptions.values()}
        former = [(bound, publisher) for bound, (publisher, _) in self._former.items()]
        ways = [*self._publishers.items(), *former]
        wanted = {(key, bound.stream) for (key, bound), publisher in ways if publisher.topic in topics}
        self._taps = {(key, stream): _SharedStreamTap(f"{key.topology()}/{stream}") for key, stream in wanted}
        for (key, bound), publisher in ways:
            tap = self._taps.get((key, bound.stream))
            if tap is not None:
                tap.add(publisher)


def _named(bound: StreamBinding) -> bool:
    """Return whether an annotation gives the stream an external name, with a version.

    Otherwise its name is its id, which another plan may use for something else.
    """
    return ":" in bound.event_stream


def _topic(key: PlanKey, bound: StreamBinding) -> Topic:
    return Topic("event stream", key.tenant, bound.event_stream)


def _schema(key: PlanKey, bound: StreamBinding) -> StreamSchema:
    return StreamSchema(PlanStream(key, bound).name(), bound.attributes)
