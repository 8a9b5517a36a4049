"""The topics that connect `inMemory` sinks and sources of a worker."""

from __future__ import annotations

from cep_common.protocol.registry import Connector
from cep_worker.plan_links.subscriptions import Topic

BY_POSITION = ("", "passThrough")
"""Mappers that match attributes by position, like Siddhi's `passThrough`; `keyvalue` matches them by keys, all others
by name."""


def topic_of(connector: Connector, tenant: int) -> Topic:
    """Return the topic that `connector` names."""
    return Topic("topic", tenant, connector.options["topic"])
