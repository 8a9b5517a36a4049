"""The options of sources and sinks of type `kafka`: Siddhi's own, and the security of the connection."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Annotated, ClassVar, Literal

from msgspec import Meta

from cep_common.ids import Endpoint, parse_endpoint
from query_plan.connectors.kafka_settings import CONSUMER, FILES, OPTION, PRODUCER, read_settings, setting_faults
from query_plan.connectors.options import Fault, Options
from query_plan.connectors.sinks import OnError, read_headers
from query_plan.connectors.sources import Truth

SCHEME = "kafka"
"""The scheme of brokers in allow-lists."""
PORT = 9092
SEQUENCE = re.compile(r"[^:~\s]{1,100}")
"""The valid form of a `sequence.id`: colon and tilde are separators in messages."""
RESETS = ("earliest", "latest", "none")
_TOPIC = re.compile(r"[A-Za-z0-9._-]{1,249}")
_LAST_PARTITION = 2**31 - 1


def read_servers(text: str) -> tuple[Endpoint, ...]:
    """Return the brokers of `bootstrap.servers`. Raise ValueError for an invalid address."""
    found = []
    for one in filter(str.strip, text.split(",")):
        address = one.strip().rpartition("://")[2]
        found.append(parse_endpoint(address if re.search(r":\d+$", address) else f"{address}:{PORT}"))
    if not found:
        raise ValueError("must be host:port,host:port")
    return tuple(found)


def read_topics(text: str) -> tuple[str, ...]:
    """Return the topics of `topic.list`. Raise ValueError for an invalid topic name."""
    topics = tuple(dict.fromkeys(one.strip() for one in text.split(",") if one.strip()))
    if not topics:
        raise ValueError("must name at least one topic")
    for topic in topics:
        if not is_topic(topic):
            raise ValueError(f"{topic[:80]!r} is not a topic name: use letters, digits, '.', '_' and '-'")
    return topics


def is_topic(name: str) -> bool:
    """Return whether a topic may have the name."""
    return _TOPIC.fullmatch(name) is not None and name not in (".", "..")


def read_partitions(text: str) -> frozenset[int]:
    """Return the partitions of `partition.no.list`. Raise ValueError for an invalid number."""
    found = set()
    for one in filter(str.strip, text.split(",")):
        if not one.strip().isascii() or not one.strip().isdecimal() or int(one) > _LAST_PARTITION:
            raise ValueError(f"{one.strip()[:20]!r} is not a number of a partition")
        found.add(int(one))
    return frozenset(found)


def read_offsets(text: str) -> dict[str, int]:
    """Return the offsets of `topic.offsets.map`, `topic=offset,topic=offset`. Raise ValueError for other texts."""
    found = {}
    for one in filter(str.strip, text.split(",")):
        topic, sign, offset = (part.strip() for part in one.partition("="))
        if not sign or not is_topic(topic) or not offset.isascii() or not offset.isdecimal() or int(offset) >= 2**62:
            raise ValueError(f"must be topic=offset,topic=offset; {one.strip()[:80]!r} is not")
        found[topic] = int(offset)
    return found


class KafkaConnection(Options, frozen=True, kw_only=True):
    """The connection to Kafka, as sources and sinks share it.

    `bootstrap.servers` (`host:port,host:port`) are the brokers to connect to first. `security.protocol` selects the
    protection of the connection; the password of `sasl.username` is `sasl.password` or the first line of
    `password.file`. `optional.configuration` holds further settings of the client, `name:value,name:value`.
    """

    bootstrap_servers: str
    security_protocol: Literal["PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL", ""] = ""
    sasl_mechanism: Literal["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", ""] = ""
    sasl_username: str = ""
    sasl_password: str = ""
    password_file: str = ""
    ssl_ca_location: str = ""
    ssl_certificate_location: str = ""
    ssl_key_location: str = ""
    ssl_key_password: str = ""
    is_binary_message: Truth = "false"
    optional_configuration: str = ""

    settings: ClassVar[frozenset[str]] = frozenset()

    def faults(self) -> Iterator[Fault]:
        """Check the addresses of brokers, and that related options are given together."""
        try:
            read_servers(self.bootstrap_servers)
        except ValueError as error:
            yield Fault("bootstrap.servers", str(error))
        yield from setting_faults(self.optional_configuration, self.settings)
        given = settings_in(self.optional_configuration)
        protocol = self.security_protocol or given.get("security.protocol", "").upper()
        if self.sasl_password and self.password_file:
            yield Fault("", "sasl.password and password.file: write one of them")
        secret = self.sasl_password or self.password_file
        if bool(self.sasl_username) != bool(secret):
            yield Fault("", "sasl.username and sasl.password (or password.file) go together")
        if (self.sasl_username or self.sasl_mechanism) and not protocol.startswith("SASL_"):
            yield Fault("security.protocol", "must be SASL_SSL or SASL_PLAINTEXT for sasl.* to have an effect")
        if any((self.ssl_ca_location, self.ssl_certificate_location)) and not protocol.endswith("SSL"):
            yield Fault("security.protocol", "must be SSL or SASL_SSL for ssl.* to have an effect")
        if bool(self.ssl_certificate_location) != bool(self.ssl_key_location):
            yield Fault("", "ssl.certificate.location and ssl.key.location go together")


class KafkaSourceOptions(KafkaConnection, frozen=True, kw_only=True):
    """The options of a Kafka source.

    It reads the topics in `topic.list`, all their partitions or those in `partition.no.list`. Workers share the
    partitions as the consumer group `group.id`. A partition without a position begins after the offset in
    `topic.offsets.map`, or else where `auto.offset.reset` (in `optional.configuration`; earliest by default) points.
    With `seq.enabled` messages have a header with a number (sinks' `sequence.id`), and repeated numbers are dropped.
    With `enable.offsets.commit` the source commits the offsets of events that the worker's log contains;
    `enable.async.commit` does not wait for the brokers' answer. `timestamp` names the attribute (or in JSON a key of
    its own) that holds the event's time. `threading.option` is Siddhi's: order is kept within each partition in any
    case.
    """

    topic_list: str
    group_id: str
    threading_option: Literal["single.thread", "topic.wise", "partition.wise"] = "single.thread"
    partition_no_list: str = ""
    seq_enabled: Truth = "false"
    topic_offsets_map: str = ""
    enable_offsets_commit: Truth = "true"
    enable_async_commit: Truth = "true"
    timestamp: str = ""

    settings: ClassVar[frozenset[str]] = CONSUMER

    def faults(self) -> Iterator[Fault]:
        """Check topics, partitions and offsets."""
        yield from super().faults()
        if not self.group_id.strip():
            yield Fault("group.id", "must not be empty")
        topics: tuple[str, ...] = ()
        try:
            topics = read_topics(self.topic_list)
        except ValueError as error:
            yield Fault("topic.list", str(error))
        try:
            read_partitions(self.partition_no_list)
        except ValueError as error:
            yield Fault("partition.no.list", str(error))
        if self.threading_option == "partition.wise" and not self.partition_no_list.strip():
            yield Fault("threading.option", "partition.wise needs partition.no.list, the partitions to read")
        try:
            offsets = read_offsets(self.topic_offsets_map)
        except ValueError as error:
            yield Fault("topic.offsets.map", str(error))
        else:
            if topics and (unknown := [topic for topic in offsets if topic not in topics]):
                yield Fault("topic.offsets.map", f"{unknown[0]} is not in topic.list")
        if self.reset() not in RESETS:
            yield Fault(OPTION, f"auto.offset.reset must be {' or '.join(RESETS)}, not {self.reset()[:40]!r}")

    def reset(self) -> str:
        """Return where reading begins in a partition without a valid position."""
        return settings_in(self.optional_configuration).get("auto.offset.reset", RESETS[0])


class KafkaSinkOptions(KafkaConnection, frozen=True, kw_only=True):
    """The options of a Kafka sink.

    It sends a message for each event to `topic`, with `key`, to `partition.no` (without one the key decides, as in
    Kafka's Java clients), and with `headers`, written as for the sink http. These four may hold `{{attribute}}`. With
    `is.synchronous` each message waits until the broker has the previous one. `sequence.id` adds a header with a
    number, by which sources with `seq.enabled` recognise duplicates. Plans that deliver exactly once write in
    transactions, unless `transactions` is false: then the header `cep-id` identifies duplicates. `on.error` WAIT waits
    for the broker forever and so stops the plan; LOG drops events after `timeout.ms`, STORE (and STREAM) then keeps
    them in the error store.
    """

    topic: str
    partition_no: str = ""
    key: str = ""
    headers: str = ""
    sequence_id: str = ""
    is_synchronous: Truth = "false"
    transactions: Truth = "true"
    on_error: OnError = "WAIT"
    timeout_ms: Annotated[int, Meta(ge=1)] = 30_000

    settings: ClassVar[frozenset[str]] = PRODUCER
    varying: ClassVar[frozenset[str]] = frozenset({"topic", "key", "partition.no", "headers"})

    def faults(self) -> Iterator[Fault]:
        """Yield the faults of fixed topics and partitions; those that depend on events are checked for each event."""
        yield from super().faults()
        if not self.topic.strip():
            yield Fault("topic", "must not be empty")
        elif not self.topic.strip().startswith("{{") and not is_topic(self.topic):
            yield Fault("topic", f"{self.topic[:80]!r} is not a topic name: use letters, digits, '.', '_' and '-'")
        if self.partition_no and not self.partition_no.strip().startswith("{{"):
            try:
                read_partitions(self.partition_no)
            except ValueError as error:
                yield Fault("partition.no", str(error))
        if self.sequence_id and SEQUENCE.fullmatch(self.sequence_id) is None:
            yield Fault("sequence.id", "must be at most 100 characters without blanks, ':' and '~'")
        try:
            read_headers(self.headers)
        except ValueError as error:
            yield Fault("headers", str(error))


def settings_in(text: str) -> dict[str, str]:
    """Return the settings in `optional.configuration`; none when it is invalid, which is reported elsewhere."""
    try:
        return read_settings(text)
    except ValueError:
        return {}


def files_in(options: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """Yield the files that a source or sink names, each with its option."""
    for name in ("password.file", *FILES):
        if path := options.get(name, "").strip():
            yield name, path
    for name, path in settings_in(options.get(OPTION, "")).items():
        if name in FILES and path:
            yield OPTION, path
