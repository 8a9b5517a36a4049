"""Where the logs of groups with `sync='kafka'` are kept."""

from __future__ import annotations

import hashlib
import re
from typing import Annotated

import msgspec

from cep_common.errors import ConfigError
from cep_common.ids import PlanKey
from query_plan.connectors.kafka import KafkaConnection, is_topic
from query_plan.connectors.kafka_settings import OPTION, read_settings
from query_plan.connectors.options import read_options

LONGEST_TOPIC = 249
"""Kafka's limit of a topic's name."""
SECRETS = ("sasl.password", "sasl.jaas.config", "ssl.key.password", "ssl.key.pem")
"""Options and settings that hold secrets; the configuration that names them is shown and sent."""


class SyncLogSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The brokers, as `stages.sync_log` in the driver's configuration names them.

    `kafka` has the options of a connector's connection, such as `bootstrap.servers`. A topic that does not exist is
    created with `copies` replicas, or with one for each broker if there are fewer brokers.
    """

    kafka: dict[str, str] = {}
    topic_prefix: str = "cep-sync"
    copies: Annotated[int, msgspec.Meta(ge=1)] = 3

    def __post_init__(self) -> None:
        if not is_topic(self.topic_prefix):
            raise ValueError("topic_prefix: letters, digits, '.', '_' and '-' make the name of a topic")
        for name in SECRETS:
            if name in self.kafka or name in _further(self.kafka):
                raise ValueError(f"kafka: {name} would be sent to every task; write the password into a file and name "
                                 "that in password.file, or a key without one in ssl.key.location")  # fmt: skip
        if self.kafka:
            try:
                self.connection()
            except ConfigError as error:
                raise ValueError(str(error)) from error

    def connection(self) -> KafkaConnection:
        """Return the options of the connection. Raise ConfigError for an unknown, missing or wrong one."""
        return read_options(KafkaConnection, self.kafka, "kafka")

    def topic(self, key: PlanKey, group: str) -> str:
        """Return the topic of a group's log; characters that a topic's name cannot have are replaced."""
        name = f"{self.topic_prefix}.{key.tenant}.{key.plan}.{group}"
        safe = re.sub(r"[^A-Za-z0-9._-]", "_", name)
        if safe == name and len(name) <= LONGEST_TOPIC:
            return name
        digest = hashlib.blake2b(name.encode(), digest_size=6).hexdigest()
        return f"{safe[: LONGEST_TOPIC - len(digest) - 1]}-{digest}"


def _further(options: dict[str, str]) -> dict[str, str]:
    try:
        return read_settings(options.get(OPTION, ""))
    except ValueError:
        return {}  # refused with the other options
