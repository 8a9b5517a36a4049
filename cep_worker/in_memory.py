"""What sinks and sources of type `inMemory` are told: the topic over which they meet within a worker."""

from __future__ import annotations

import msgspec

from cep_common.errors import ConfigError
from cep_common.messages import Connector
from cep_worker.mappers import key_values
from cep_worker.options import read_options
from cep_worker.topic_feeds import Topic

BY_POSITION = ("", "passThrough")
"""Mappers under which attributes are known by their places, as Siddhi's `passThrough` hands them on; under `keyvalue`
they are known by keys, and under all others by their names."""


class InMemoryOptions(msgspec.Struct, frozen=True):
    """`topic` is any name; whoever has the same one in the same tenant is meant."""

    topic: str


def topic_of(connector: Connector, tenant: int, where: str) -> Topic:
    """The topic that `connector` names. ConfigError for options that cannot be used."""
    name = read_options(InMemoryOptions, connector.options, where).topic
    if not name.strip():
        raise ConfigError(f"{where}: topic: must not be empty")
    if "{{" in name:
        advice = "write a stream and a @sink for each topic"
        raise ConfigError(f"{where}: topic: {name} cannot differ from event to event; {advice}")
    if connector.mapper_options and connector.mapper != key_values.NAME:
        advice = f"leave out what stands in @map, or use @map(type='{key_values.NAME}', …)"
        raise ConfigError(f"{where}: attributes go as they are; {advice}")
    return Topic("topic", tenant, name)
