"""The life of generated topics: created before a plan is deployed, deleted when no plan needs them."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import AbstractContextManager
from typing import Protocol

from cep_common.ids import SUPER_TENANT, PlanKey
from cep_common.monitoring.paced_log import PacedLog
from cep_manager.config import KafkaConfig
from cep_manager.errors import KafkaUnavailableError, TopicRefusedError
from cep_manager.plans.compiled_plan import CarriedTopic, CompiledPlan
from cep_manager.topics.store import KnownTopic, TopicStore
from query_plan.planning.carried_streams import topic_group

NeededTopics = Mapping[tuple[int, str], Collection[str]]
"""The topics of each plan that is deployed, by tenant and identity."""
DELETION_S = 20.0
"""How long a plan waits for the deletion of a topic with the name of one of its own."""

logger = logging.getLogger(__name__)
paced_logger = PacedLog(logger)


class TopicCluster(Protocol):
    """Requests to the brokers."""

    def partitions(self) -> Mapping[str, int]: ...

    def create(self, topics: Mapping[str, int]) -> Collection[str]: ...

    def widen(self, topics: Mapping[str, int]) -> None: ...

    def delete(self, topic: str) -> None: ...

    def unread(self, topic: str, partitions: int, group: str) -> int: ...


class TopicKeeper:
    """Creates and deletes topics.

    Hold the lock of plan changes around every call but `sweep`, which takes it only where it asks no brokers.
    """

    def __init__(self, config: KafkaConfig, store: TopicStore, cluster: TopicCluster) -> None:
        """Keep topics at the brokers of `config`."""
        self._config = config
        self._store = store
        self._cluster = cluster
        self._deletion = threading.Condition()
        self._deleted_now = ""
        """The topic that is being deleted."""
        self._failing: frozenset[str] = frozenset()
        """Topics about which the brokers have not answered: they come last, so that they hold up no other."""

    def check(self, key: PlanKey, compiled: CompiledPlan) -> None:
        """Asks no brokers and changes nothing.

        Raises:
            TopicRefusedError: The plan's tenant may not use the brokers, or a topic belongs to another plan.
        """
        if not compiled.topics:
            return
        if key.tenant not in (SUPER_TENANT, *self._config.tenants):
            raise TopicRefusedError(
                f"Kafka carries no streams for tenant {key.tenant}: an operator can allow it with kafka.tenants in the "
                "manager's configuration; or remove @App:transport('kafka')"
            )
        known = {one.topic: one for one in self._store.known()}
        plans = self._store.plans()
        for one in compiled.topics:
            owner = known.get(one.topic)
            if owner is not None and not _is_of(owner, key) and (owner.tenant, owner.plan_id) in plans:
                raise TopicRefusedError(
                    f"the topic {one.topic} of stream {one.stream} belongs to another plan: rename the plan or it"
                )

    def prepare(self, key: PlanKey, compiled: CompiledPlan) -> None:
        """Ensure that the plan's topics exist, belong to it, and have enough partitions.

        Raises:
            TopicRefusedError: A topic belongs to another plan, or it is missing or has too few partitions and the plan
                forbids to create it.
            KafkaUnavailableError: The brokers do not answer, or refuse it.
        """
        if not compiled.topics:
            return
        self.check(key, compiled)
        self._await_deletion({one.topic for one in compiled.topics})
        known = {one.topic: one for one in self._store.known()}
        there = self._cluster.partitions()
        for one in compiled.topics:
            owner = known.get(one.topic)
            if owner is not None and owner.created and owner.tenant != key.tenant and one.topic in there:
                raise TopicRefusedError(
                    f"the topic {one.topic} of stream {one.stream} has messages of another tenant's plan, which is "
                    "gone: delete the topic, or rename the plan or the stream"
                )
        missing = [one for one in compiled.topics if one.topic not in there]
        if missing and not compiled.creates_topics:
            names = ", ".join(f"{one.topic} ({one.partitions})" for one in missing)
            raise TopicRefusedError(
                "the plan says transportChannelCreationEnabled('false'), and these topics are missing: "
                f"create them with the given number of partitions, or remove that: {names}"
            )
        few = [one for one in compiled.topics if there.get(one.topic, one.partitions) < one.partitions]
        if few and not compiled.creates_topics:
            names = ", ".join(f"{one.topic} ({there[one.topic]} of {one.partitions})" for one in few)
            raise TopicRefusedError(
                "the plan says transportChannelCreationEnabled('false'), and these topics have too few partitions: "
                f"add partitions, or remove that: {names}"
            )
        self._store.note(key, ((one.topic, one in missing and one.use == "between") for one in compiled.topics))
        if missing:
            found = self._cluster.create({one.topic: one.partitions for one in missing})
            # Somebody else created it meanwhile, or brokers could not say that it is there.
            self._store.disown([name for name in found if name not in known or not known[name].created])
            if made := [one for one in missing if one.topic not in found]:
                logger.info("topics created: plan=%s topics=%s", key.topology(), _named(made))
        if few:
            self._cluster.widen({one.topic: one.partitions for one in few})
            logger.info("partitions added: plan=%s topics=%s", key.topology(), _named(few))

    def sweep(self, needed: Callable[[], NeededTopics | None], changes: AbstractContextManager[object]) -> int:
        """Delete topics that were created for plans that are undeployed, or no longer need them.

        A topic with unread messages is kept, which is logged.

        Args:
            needed: Gives the topics of each plan that is deployed, by tenant and identity; a plan that is being changed
                needs those of both versions. None: this manager does not lead any more, and must delete nothing, since
                another one may have deployed a plan that needs a topic.
            changes: The lock of plan changes, under which `needed` is called.

        Returns:
            How many topics are left to be deleted later.

        Raises:
            KafkaUnavailableError: The brokers do not answer; the rest is retried with the next call.
        """
        with changes:
            found = needed()
            surplus = () if found is None else tuple(self._surplus(found))
        there = self._cluster.partitions() if any(one.created for one in surplus) else {}
        left = 0
        for one in sorted(surplus, key=lambda one: one.topic in self._failing):
            try:
                unread = self._unread(one, there)
                if unread:
                    left += 1
                    paced_logger.problem(
                        one.topic,
                        "topic kept: topic=%s unread=%d: no plan needs it any more, but it has unread messages; "
"delete the topic if they are "
                        "not needed",
                        one.topic, unread,
                    )  # fmt: skip
                    continue
                if not self._delete(one, needed, changes, exists=one.topic in there):
                    return left + 1
            except KafkaUnavailableError:
                self._failing |= {one.topic}
                raise
            self._failing -= {one.topic}
        return left

    def _delete(
        self,
        one: KnownTopic,
        needed: Callable[[], NeededTopics | None],
        changes: AbstractContextManager[object],
        *,
        exists: bool,
    ) -> bool:
        """Delete the topic, unless a plan needs it by now; then return False."""
        with changes:
            found = needed()
            if found is None or one not in self._surplus(found):
                return False
            self._deleted_now = one.topic
        try:
            if one.created and exists:
                self._cluster.delete(one.topic)
                logger.info("topic deleted: topic=%s", one.topic)
            self._store.forget(one.topic)
        finally:
            with self._deletion:
                self._deleted_now = ""
                self._deletion.notify_all()
        return True

    def _await_deletion(self, topics: Collection[str]) -> None:
        """Wait until none of the topics is being deleted: a topic that is listed may be gone a moment later."""
        with self._deletion:
            if not self._deletion.wait_for(lambda: self._deleted_now not in topics, DELETION_S):
                raise KafkaUnavailableError(
                    f"the topic {self._deleted_now} of an earlier plan is being deleted, and the brokers do not answer"
                )

    def _unread(self, one: KnownTopic, there: Mapping[str, int]) -> int:
        """Return the number of unread messages of a topic that is to be deleted."""
        if not one.created or one.topic not in there:
            return 0
        return self._cluster.unread(one.topic, there[one.topic], topic_group(one.topic))

    def _surplus(self, needed: NeededTopics) -> Iterator[KnownTopic]:
        return surplus_topics(self._store.known(), needed, self._store.plans())

    def waits(self, needed: NeededTopics) -> bool:
        """Return whether `sweep` has something to do."""
        return any(True for _ in self._surplus(needed))


def surplus_topics(
    known: Collection[KnownTopic],
    needed: NeededTopics,
    stored: Collection[tuple[int, str]],
) -> Iterator[KnownTopic]:
    """Yield topics that no deployed plan needs. Plans that are stored and not in `needed` keep theirs."""
    for one in known:
        plan = (one.tenant, one.plan_id)
        if plan not in stored or (plan in needed and one.topic not in needed[plan]):
            yield one


class TopicSweeper(threading.Thread):
    """Deletes topics of undeployed plans while this manager leads; runs until `close`."""

    def __init__(self, changes: SweptPlans) -> None:
        """Sweep on behalf of `changes`."""
        super().__init__(name="topic-sweeper", daemon=True)
        self._changes = changes
        self._closing = threading.Event()

    def run(self) -> None:
        pause_s = SWEEP_S
        while not self._closing.wait(pause_s):
            try:
                pause_s = SWEEP_S if not self._changes.sweep_topics() else AGAIN_S
            except KafkaUnavailableError as error:
                pause_s = AGAIN_S
                paced_logger.problem("brokers", "topics of removed plans wait to be deleted: %s", error.message)
            except Exception:
                # The thread's border: a database that is away now is asked again.
                pause_s = AGAIN_S
                paced_logger.exception("topics of removed plans not deleted")

    def close(self) -> None:
        """Stop sweeping; brokers that do not answer do not keep the manager from ending."""
        self._closing.set()
        if self.ident is not None:
            self.join(CLOSE_S)


class SweptPlans(Protocol):
    """Knows which topics plans need."""

    def sweep_topics(self) -> int: ...


CLOSE_S = 2.0
"""How long a manager that ends waits for pending deletions."""
SWEEP_S, AGAIN_S = 3.0, 30.0
"""The interval of checks of topics, and the interval when brokers do not answer or messages are unread."""


def _is_of(topic: KnownTopic, key: PlanKey) -> bool:
    return (topic.tenant, topic.plan_id) == (key.tenant, key.identity)


def _named(topics: Collection[CarriedTopic]) -> str:
    return ", ".join(f"{one.topic}({one.partitions})" for one in topics)
