"""Kafka's client library: its settings, and what its errors mean to a user."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from cep_common.configuration.password_files import PasswordFileError, read_password
from cep_common.errors import ConfigError
from query_plan.connectors.kafka import KafkaConnection, read_servers
from query_plan.connectors.kafka_settings import client_settings
from query_plan.connectors.options import path_of

EXTRA = "pip install 'cep-on-spark[kafka]'"
QUIET = 0
"""librdkafka's level of messages to stderr: important problems are raised as errors."""

_ADVICE = {
    "_AUTHENTICATION": "authentication failed: check sasl.mechanism, sasl.username and the password",
    "SASL_AUTHENTICATION_FAILED": "authentication failed: check sasl.mechanism, sasl.username and the password",
    "_SSL": "TLS failed: check security.protocol, ssl.ca.location and the broker's certificate",
    "_RESOLVE": "unknown host of a broker: check bootstrap.servers",
    "_TRANSPORT": "no connection to a broker: check bootstrap.servers and security.protocol",
    "_ALL_BROKERS_DOWN": "no broker answers: check that they run, and bootstrap.servers",
    "_TIMED_OUT": "no broker answered in time: check that they run, and bootstrap.servers",
    "TOPIC_AUTHORIZATION_FAILED": "the user may not read or write the topic: grant it to sasl.username",
    "GROUP_AUTHORIZATION_FAILED": "the user may not join the consumer group: grant it to sasl.username",
    "CLUSTER_AUTHORIZATION_FAILED": "the user may not write with idempotence: grant it to sasl.username",
    "INCONSISTENT_GROUP_PROTOCOL": "group.id is used by consumers with another partition assignment: choose "
    "another one",
    "TRANSACTIONAL_ID_AUTHORIZATION_FAILED": "the user may not write in transactions: grant Write and Describe on the "
    "transactional id and Read on the group, both with the prefix cep/, to sasl.username",
    "INVALID_TRANSACTION_TIMEOUT": "transaction.timeout.ms is more than the brokers' transaction.max.timeout.ms",
    "_FENCED": "another producer has taken over the transactions of this sink: only one worker of its name may run",
    "INVALID_PRODUCER_EPOCH": "another producer has taken over the transactions of this sink, or one was open for "
    "longer than transaction.timeout.ms",
    "_UNSUPPORTED_FEATURE": "the brokers cannot do this; without transactions write transactions='false'",
    "UNKNOWN_TOPIC_OR_PART": "the topic or partition does not exist: create it",
    "_UNKNOWN_TOPIC": "the topic does not exist: create it",
    "_UNKNOWN_PARTITION": "the partition does not exist: add it, or change partition.no",
    "MSG_SIZE_TOO_LARGE": "the message is larger than the topic's max.message.bytes or the client's message.max.bytes",
    "RECORD_LIST_TOO_LARGE": "the message is larger than the topic's segment.bytes",
    "INVALID_RECORD": "the broker refused the message: a compacted topic needs a key",
    "NOT_ENOUGH_REPLICAS": "too few replicas of the partition are in sync: start the missing brokers",
    "_MSG_TIMED_OUT": "the brokers did not acknowledge the message in time",
}
"""Meaning of errors and advice, by their names in librdkafka."""
WEAK = ("_ALL_BROKERS_DOWN", "_TIMED_OUT", "_TRANSPORT")
"""Less specific errors, the least specific first."""


def library() -> Any:
    """Return the package `confluent_kafka`. Raises ConfigError when it is not installed."""
    try:
        import confluent_kafka  # noqa: PLC0415 - an extra, loaded where a plan has a connector of type kafka
    except ImportError as error:
        raise ConfigError(f"type kafka needs the package confluent-kafka: {EXTRA} on every host") from error
    return confluent_kafka


def explained(error: Any) -> str:
    """Return the meaning of an error of the library, with advice and its own message."""
    name, said = str(error.name()), str(error.str())
    advice = _ADVICE.get(name)
    return f"{advice} ({said})" if advice else f"{said} ({name})"


def common_settings(options: KafkaConnection, client_id: str) -> dict[str, Any]:
    """Return the settings of every client of a connector. Raises ConfigError for an unreadable password file."""
    settings: dict[str, Any] = {
        "client.id": client_id,
        "log_level": QUIET,
        "reconnect.backoff.max.ms": 2_000,
        "topic.metadata.refresh.interval.ms": 10_000,
        **client_settings(options.optional_configuration, options.settings),
        "bootstrap.servers": ",".join(f"{one.host}:{one.port}" for one in read_servers(options.bootstrap_servers)),
    }
    own = {
        "security.protocol": options.security_protocol,
        "sasl.mechanisms": options.sasl_mechanism or (options.sasl_username and "PLAIN"),
        "sasl.username": options.sasl_username,
        "sasl.password": options.sasl_password or _password(options.password_file),
        "ssl.ca.location": _file(options.ssl_ca_location),
        "ssl.certificate.location": _file(options.ssl_certificate_location),
        "ssl.key.location": _file(options.ssl_key_location),
        "ssl.key.password": options.ssl_key_password,
    }
    return settings | {name: value for name, value in own.items() if value}


def made(make: Callable[[dict[str, Any]], Any], settings: dict[str, Any], where: str) -> Any:
    """Return the client that `make` makes of the settings. Raises ConfigError for settings that the library refuses."""
    kafka = library()
    try:
        return make(settings)
    except kafka.KafkaException as error:
        raise ConfigError(f"{where}: {error.args[0].str()}") from error
    except (TypeError, ValueError) as error:
        raise ConfigError(f"{where}: {error}") from error


@contextmanager
def group_reader(settings: dict[str, Any], group: str, isolation: str, where: str) -> Iterator[Any]:
    """Give a client whose `committed` reads offsets of a consumer group, without joining it.

    It takes the place of an administrator's `list_consumer_group_offsets`: when that reaches a broker that no longer
    coordinates the group, librdkafka ends the whole process (its issues 5040 and 4605).

    Args:
        settings: Of any client of these brokers.
        group: The group's name.
        isolation: `read_committed` waits for the end of transactions that commit offsets, `read_uncommitted` does not.
        where: Names the client in an error.

    Raises:
        ConfigError: The library refuses the settings.
    """
    own = {"group.id": group, "isolation.level": isolation, "enable.auto.commit": False}
    consumer = made(library().Consumer, settings | own, where)
    try:
        yield consumer
    finally:
        consumer.close()


def callback(call: Callable[..., None]) -> Callable[..., None]:
    """Return `call` as a callback of a consumer, whose errors reach the caller of `poll` as exceptions.

    The library passes a KafkaException that one of its own functions raised on as a bare KafkaError, which is no
    exception: no `except` of Python takes that, and the thread ends. An error that Python has seen is passed on as it
    is.
    """
    kafka = library()

    def called(*arguments: Any) -> None:
        try:
            call(*arguments)
        except kafka.KafkaException as error:
            raise kafka.KafkaException(*error.args) from None

    return called


class Errors:
    """The most specific error that a client has reported since it last worked."""

    def __init__(self) -> None:
        self.text = ""
        self._strength = -1

    def note(self, error: Any) -> None:
        """As the library's `error_cb`, which the thread that polls the client calls."""
        name = str(error.name())
        strength = WEAK.index(name) if name in WEAK else len(WEAK)
        if strength >= self._strength:
            self._strength, self.text = strength, explained(error)

    def clear(self) -> None:
        """Note that the client works."""
        self._strength, self.text = -1, ""


def _password(path: str) -> str:
    if not path:
        return ""
    try:
        return read_password(path)
    except PasswordFileError as error:
        raise ConfigError(f"password.file: {error}") from error


def _file(uri: str) -> str:
    return str(path_of(uri)) if uri else ""
