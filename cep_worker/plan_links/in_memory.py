"""The topic over which `inMemory` sinks and sources of a worker meet."""

from __future__ import annotations

from cep_common.protocol.registry import Connector
from cep_worker.plan_links.subscriptions import Topic

BY_POSITION = ("", "passThrough")
"""Mappers under which attributes are known by their places, as Siddhi's `passThrough` hands them on; under `keyvalue`
they are known by keys, and under all others by their names."""


def topic_of(connector: Connector, tenant: int) -> Topic:
    """Return the topic that `connector` names."""
    return Topic("topic", tenant, connector.options["topic"])
