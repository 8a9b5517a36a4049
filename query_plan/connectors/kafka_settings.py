"""Settings of Kafka clients: `optional.configuration`, and the names that plans may set.

Names are those of librdkafka, most of which Kafka's Java clients share. Only listed names are allowed: others could
open files or connections that bypass the worker's allow-lists.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator, Mapping

from query_plan.connectors.options import Fault, FaultKind

OPTION = "optional.configuration"

FILES = ("ssl.ca.location", "ssl.certificate.location", "ssl.key.location")
"""Settings that name files of the worker's host."""
CONNECTION = frozenset(
    {
        "client.id", "client.rack", "security.protocol", "sasl.mechanism", "sasl.mechanisms", "sasl.username",
        "sasl.password", "sasl.jaas.config", "ssl.key.password", "ssl.ca.pem", "ssl.certificate.pem", "ssl.key.pem",
        "ssl.endpoint.identification.algorithm", "ssl.cipher.suites", *FILES, "socket.timeout.ms",
        "socket.keepalive.enable", "socket.nagle.disable", "socket.send.buffer.bytes", "socket.receive.buffer.bytes",
        "socket.connection.setup.timeout.ms", "connections.max.idle.ms", "reconnect.backoff.ms",
        "reconnect.backoff.max.ms", "retry.backoff.ms", "retry.backoff.max.ms", "metadata.max.age.ms",
        "topic.metadata.refresh.interval.ms", "broker.address.family", "broker.address.ttl", "message.max.bytes",
        "receive.message.max.bytes", "client.dns.lookup",
    }
)  # fmt: skip
CONSUMER = frozenset(
    {
        "auto.offset.reset", "session.timeout.ms", "heartbeat.interval.ms", "max.poll.interval.ms", "max.poll.records",
        "group.instance.id", "fetch.min.bytes", "fetch.max.bytes", "fetch.wait.max.ms", "fetch.max.wait.ms",
        "fetch.message.max.bytes", "max.partition.fetch.bytes", "fetch.error.backoff.ms",
        "fetch.queue.backoff.ms", "queued.min.messages", "queued.max.messages.kbytes", "isolation.level", "check.crcs",
    }
)  # fmt: skip
PRODUCER = frozenset(
    {
        "acks", "request.required.acks", "enable.idempotence", "batch.size", "batch.num.messages", "linger.ms",
        "queue.buffering.max.ms", "queue.buffering.max.messages", "queue.buffering.max.kbytes", "compression.type",
        "compression.codec", "compression.level", "partitioner", "max.in.flight", "max.request.size",
        "max.in.flight.requests.per.connection", "request.timeout.ms", "sticky.partitioning.linger.ms",
        "transaction.timeout.ms",
    }
)  # fmt: skip
JAVA_NAMES = {
    "max.request.size": "message.max.bytes",
    "fetch.max.wait.ms": "fetch.wait.max.ms",
    "sasl.mechanism": "sasl.mechanisms",
}
"""Names of Java clients that differ in librdkafka."""

_SERIALIZERS = "mappers turn messages into events and back"
_WAITS = "a message waits until the broker has it; timeout.ms and on.error determine when it is dropped"
_COMMITS = "offsets are committed when the worker has the events on its disk"
NO_EFFECT: Mapping[str, str] = {
    **dict.fromkeys(("key.serializer", "value.serializer", "key.deserializer", "value.deserializer"), _SERIALIZERS),
    **dict.fromkeys(("retries", "delivery.timeout.ms", "message.timeout.ms", "message.send.max.retries"), _WAITS),
    **dict.fromkeys(("enable.auto.commit", "auto.commit.interval.ms", "enable.auto.offset.store"), _COMMITS),
    "buffer.memory": "queue.buffering.max.kbytes bounds what waits in the client",
    "max.block.ms": _WAITS,
    "metrics.recording.level": "the worker's own metrics have the lag",
    "metric.reporters": "the worker's own metrics have the lag",
    "interceptor.classes": "there are no Java classes",
    "partition.assignment.strategy": "workers share partitions round robin",
    "group.protocol": "workers share partitions as a classic group",
    "allow.auto.create.topics": "topics are made by the broker's operator or, between groups, by the manager",
    "exclude.internal.topics": "topics are named one by one",
    "default.api.timeout.ms": "the client's calls have time-outs of their own",
}
"""Names that are accepted without effect, with the reason."""
_ELSEWHERE = {
    "bootstrap.servers": "write the option bootstrap.servers",
    "metadata.broker.list": "write the option bootstrap.servers",
    "group.id": "write the option group.id",
    "transactional.id": "the worker names its transactions",
    "ssl.truststore.location": "write ssl.ca.location, a file in PEM",
    "ssl.truststore.password": "write ssl.ca.location, a file in PEM",
    "ssl.keystore.location": "write ssl.certificate.location and ssl.key.location, files in PEM",
    "ssl.keystore.password": "write ssl.key.password",
}
_LONGEST = 60
_MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")
_WORDS = {
    "security.protocol": ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"),
    "sasl.mechanism": _MECHANISMS,
    "sasl.mechanisms": _MECHANISMS,
}
_JAAS = re.compile(r"""\b(username|password)\s*=\s*(?:"([^"]*)"|'([^']*)'|([^\s;]+))""")


def read_settings(text: str) -> dict[str, str]:
    """Return the settings in a text such as `linger.ms:5,acks:all`.

    Settings are separated by commas; the first colon ends the name. Raises ValueError for other texts.
    """
    found: dict[str, str] = {}
    for one in filter(str.strip, text.split(",")):
        name, colon, value = one.partition(":")
        if not colon or not name.strip():
            raise ValueError(f"must be name:value,name:value; {_shown(one)} has no colon")
        found[name.strip()] = value.strip()
    return found


def setting_faults(text: str, own: frozenset[str]) -> Iterator[Fault]:
    """Yield the faults of `optional.configuration` of a connector that also allows its `own` settings."""
    try:
        settings = read_settings(text)
    except ValueError as error:
        yield Fault(OPTION, str(error))
        return
    known = CONNECTION | own
    for name, value in settings.items():
        if name in known:
            if name in _WORDS and value.upper() not in _WORDS[name]:
                yield Fault(OPTION, f"{name} must be {' or '.join(_WORDS[name])}, not {_shown(value)}")
            continue
        if name in NO_EFFECT:
            yield Fault(OPTION, f"{name} has no effect: {NO_EFFECT[name]}", "take it out", FaultKind.IDLE)
        elif name in _ELSEWHERE:
            yield Fault(OPTION, f"{name} cannot be set here: {_ELSEWHERE[name]}")
        else:
            near = difflib.get_close_matches(name[:80], sorted(known), n=1)
            advice = f"did you mean '{near[0]}'?" if near else "docs/connectors/kafka.md lists the supported ones"
            yield Fault(OPTION, f"unknown setting {_shown(name)}", advice)


def client_settings(text: str, own: frozenset[str]) -> dict[str, str]:
    """Return the client settings of `optional.configuration`, under librdkafka's names.

    `sasl.jaas.config` becomes user name and password.
    """
    found: dict[str, str] = {}
    for name, value in read_settings(text).items():
        if name == "sasl.jaas.config":
            found |= {f"sasl.{one[0]}": one[1] or one[2] or one[3] for one in _JAAS.findall(value)}
        elif name in CONNECTION | own:
            found[JAVA_NAMES.get(name, name)] = value
    return found


def _shown(text: str) -> str:
    """Return a name for a message; an invalid one is masked, since it may be the end of a password with a comma."""
    name = text.strip()
    return name if len(name) <= _LONGEST and re.fullmatch(r"[\w.-]*", name) else f"'{name[:4]}…'"
