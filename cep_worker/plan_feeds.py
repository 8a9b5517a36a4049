"""Event streams that one plan exports and another imports: they are fed without any declaration of a sink or source."""

from __future__ import annotations

from collections.abc import Iterable

from cep_common.ids import PlanKey
from cep_common.link_messages import StreamSchema
from cep_common.messages import DeployedPlan, StreamBinding
from cep_worker.streams import EventStream, PlanStream
from cep_worker.topics import Publisher, Subscription, Topic, Topics

_Bound = tuple[PlanKey, StreamBinding]


class PlanFeeds:
    """Keeps a publisher for each exported stream, and a subscription for each imported one, that `@Export` or `@Import`
    gives the name of an event stream. Belongs to the reactor's thread."""

    def __init__(self, topics: Topics) -> None:
        self._topics = topics
        self._publishers: dict[_Bound, Publisher] = {}
        self._subscriptions: dict[_Bound, Subscription] = {}
        self._taps: dict[tuple[PlanKey, str], list[Publisher]] = {}

    def apply(self, exporting: Iterable[DeployedPlan], importing: Iterable[DeployedPlan]) -> None:
        """`exporting` have results, or may have them yet; `importing` take events. What they publish and subscribe to
        holds after the next reroute of the topics."""
        imported = {(plan.key, bound): None for plan in importing for bound in plan.imported if _named(bound)}
        wanted = {_topic(key, bound) for key, bound in imported}
        exported = {
            (plan.key, bound): None
            for plan in exporting
            for bound in plan.exported
            if _named(bound) and _topic(plan.key, bound) in wanted
        }
        for gone in self._subscriptions.keys() - imported.keys():
            self._topics.end_subscription(self._subscriptions.pop(gone))
        for left in self._publishers.keys() - exported.keys():
            self._topics.end_publisher(self._publishers.pop(left))
        for key, bound in imported.keys() - self._subscriptions.keys():
            stream = EventStream(_schema(key, bound), (PlanStream(key, bound),))
            self._subscriptions[key, bound] = self._topics.subscribe(_topic(key, bound), stream)
        for key, bound in exported.keys() - self._publishers.keys():
            self._publishers[key, bound] = self._topics.publish(_topic(key, bound), _schema(key, bound))
        self._taps = {(key, bound.stream): [publisher] for (key, bound), publisher in self._publishers.items()}

    def taps(self, key: PlanKey, stream: str) -> list[Publisher]:
        """What takes the events of an exported stream for other plans."""
        return self._taps.get((key, stream), [])


def _named(bound: StreamBinding) -> bool:
    """Its annotation gives it a name outside, with a version; a stream that has none is known by its own id, which
    another plan may use for something else."""
    return ":" in bound.event_stream


def _topic(key: PlanKey, bound: StreamBinding) -> Topic:
    return Topic("event stream", key.tenant, bound.event_stream)


def _schema(key: PlanKey, bound: StreamBinding) -> StreamSchema:
    return StreamSchema(PlanStream(key, bound).name(), bound.attributes)
