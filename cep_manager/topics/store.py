"""Which topics the managers know: whose they are, and which of them a manager created."""

from __future__ import annotations

from collections.abc import Collection, Iterable

import msgspec
import sqlalchemy

from cep_common.ids import PlanKey
from cep_manager.persistence.database import Database
from cep_manager.persistence.schema import PLANS, TOPICS


class KnownTopic(msgspec.Struct, frozen=True):
    """A topic of the plan with this tenant and identity; with `created` a manager made it and will delete it."""

    topic: str
    tenant: int
    plan_id: str
    created: bool


class TopicStore:
    """The table of topics. Any thread may use it; raises PlanStoreError when the database cannot be used."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def known(self) -> tuple[KnownTopic, ...]:
        """Return all topics, in order of their names."""
        with self._database.reading() as connection:
            rows = connection.execute(sqlalchemy.select(TOPICS).order_by(TOPICS.c.topic))
            return tuple(KnownTopic(row.topic, row.tenant, row.plan_id, row.created) for row in rows)

    def plans(self) -> frozenset[tuple[int, str]]:
        """Return tenant and identity of every stored plan."""
        with self._database.reading() as connection:
            rows = connection.execute(sqlalchemy.select(PLANS.c.tenant, PLANS.c.plan_id))
            return frozenset((row.tenant, row.plan_id) for row in rows)

    def note(self, key: PlanKey, topics: Iterable[tuple[str, bool]]) -> None:
        """Note the plan as the owner of each topic, and whether it is to be created for it."""
        with self._database.transaction() as connection:
            for topic, created in topics:
                row = {"topic": topic, "tenant": key.tenant, "plan_id": key.identity, "created": created}
                before = connection.execute(sqlalchemy.select(TOPICS).where(TOPICS.c.topic == topic)).first()
                if before is None:
                    connection.execute(TOPICS.insert().values(row))
                else:  # one that was created for an earlier plan of the same name is still to be deleted
                    row["created"] = created or before.created
                    connection.execute(TOPICS.update().where(TOPICS.c.topic == topic).values(row))

    def disown(self, topics: Collection[str]) -> None:
        """Note that no manager created these topics."""
        with self._database.transaction() as connection:
            connection.execute(TOPICS.update().where(TOPICS.c.topic.in_(topics)).values(created=False))

    def forget(self, topic: str) -> None:
        """Remove the topic from the table."""
        with self._database.transaction() as connection:
            connection.execute(TOPICS.delete().where(TOPICS.c.topic == topic))
