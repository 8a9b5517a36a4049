"""The brokers of the manager's configuration: what connectors at generated topics get of it, and the client."""

from __future__ import annotations

from typing import Any

import msgspec

from cep_common.configuration.password_files import PasswordFileError, read_password
from cep_common.protocol.registry import Connector
from cep_manager.config import KafkaConfig
from cep_manager.errors import KafkaUnavailableError, PlanInvalidError, PlanProblem
from cep_manager.plans.compiled_plan import CompiledPlan
from query_plan.connectors.kafka_settings import client_settings
from query_plan.connectors.options import path_of

SERVERS = "bootstrap.servers"
_FURTHER = "optional.configuration"
_FILES = ("ssl.ca.location", "ssl.certificate.location", "ssl.key.location")


def with_brokers(compiled: CompiledPlan, config: KafkaConfig) -> CompiledPlan:
    """Return the plan with the brokers and how to connect to them at its generated sources and sinks.

    Raises:
        PlanInvalidError: The plan needs Kafka, and `kafka.servers` of the manager's configuration names no broker.
    """
    if not compiled.topics:
        return compiled
    if not config.servers:
        message = "the plan's transport is Kafka, but the manager has no brokers configured"
        hint = "set kafka.servers in the manager's configuration, or remove @App:transport('kafka')"
        raise PlanInvalidError((PlanProblem("kafka-not-configured", message, hint, 0, 0, 0, 0, f"{message}\n{hint}"),))
    topics = frozenset(one.topic for one in compiled.topics)
    return msgspec.structs.replace(
        compiled,
        sources=tuple(_reaching(one, topics, config) for one in compiled.sources),
        sinks=tuple(_reaching(one, topics, config) for one in compiled.sinks),
    )


def _reaching(connector: Connector, topics: frozenset[str], config: KafkaConfig) -> Connector:
    options = connector.options
    generated = options.get("topic", options.get("topic.list")) in topics
    if connector.type != "kafka" or not generated or SERVERS in options or "ref" in options:
        return connector
    return msgspec.structs.replace(connector, options={SERVERS: config.servers, **config.options, **options})


def admin_settings(config: KafkaConfig) -> dict[str, Any]:
    """Return the settings of the manager's own client.

    Raises:
        KafkaUnavailableError: `password.file` cannot be read.
    """
    options = dict(config.options)
    further, password_file = options.pop(_FURTHER, ""), options.pop("password.file", "")
    settings: dict[str, Any] = {"client.id": "cep-manager", "log_level": 0}
    settings |= client_settings(further, frozenset()) if further else {}
    paths = {name: str(path_of(options[name])) for name in _FILES if name in options}
    settings |= {SERVERS: config.servers, **options, **paths}
    if "sasl.username" in options:
        settings.setdefault("sasl.mechanism", "PLAIN")
    if password_file:
        try:
            settings["sasl.password"] = read_password(password_file)
        except PasswordFileError as error:
            raise KafkaUnavailableError(f"kafka.options: password.file: {error}") from error
    return settings
