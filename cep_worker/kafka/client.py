"""What the connectors need of Kafka's client besides `topology.kafka_client`, whose names they find here, too."""

from __future__ import annotations

from typing import Any

from cep_common.reach.connecting import ReachError, allowed_addresses
from cep_common.reach.guard import Guard, UrlUse
from query_plan.connectors.kafka import SCHEME, KafkaConnection, read_servers
from topology.kafka_client import (
    WEAK,
    Errors,
    callback,
    common_settings,
    explained,
    group_reader,
    library,
    made,
)

__all__ = [
    "WEAK", "Errors", "callback", "common_settings", "explained", "group_reader", "library", "made", "pause",
    "refuse_brokers",
]  # fmt: skip

NO_CREATION = {"allow.auto.create.topics": False}
"""Producers and administrators let brokers create a topic by asking for it, unless their settings have this."""


def refuse_brokers(options: KafkaConnection, guard: Guard | None, use: UrlUse) -> str:
    """Why the brokers may not be connected to at the addresses that their names have now, or nothing."""
    if guard is None:
        return ""
    for one in read_servers(options.bootstrap_servers):
        try:
            allowed_addresses(guard, SCHEME, one.host, one.port, use)
        except ReachError as error:
            return f"bootstrap.servers: {error.message}"
        except OSError:
            continue  # the client says so when no other one answers either
    return ""


def pause(kafka: Any, consumer: Any) -> Any:
    """Pause all partitions and show the brokers that the member is alive.

    Returns:
        What came in the place of a message and holds an error; else None. A message, of a partition that was assigned
        by this very call, is read again when reading continues.
    """
    consumer.pause(consumer.assignment())
    found = consumer.poll(0)
    if found is None or found.error() is not None:
        return found
    consumer.seek(kafka.TopicPartition(found.topic(), found.partition(), found.offset()))
    return None
