"""`cep doctor kafka`: check brokers, permissions and schemas for sources and sinks of type `kafka`."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

import click

from cep_cli.client.options import JSON_OPTION
from cep_cli.errors import FAILED, with_readable_errors
from cep_cli.terminal import printable
from cep_common.configuration.password_files import PasswordFileError, read_password
from cep_common.errors import ConfigError
from cep_worker.formats.schemas.problems import SchemaError, SchemaUnavailableError
from cep_worker.formats.schemas.registry import RegistryAddress, SchemaRegistry
from cep_worker.kafka.client import WEAK, Errors, common_settings, explained, library, made
from query_plan.connectors.kafka import KafkaSourceOptions
from query_plan.connectors.kafka_settings import CONSUMER
from query_plan.connectors.options import read_options

CALL_S = 5.0
TRANSACTIONS = "cep/doctor"
"""A transactional id with the prefix of those of sinks."""
Weight = Literal["ok", "warning", "critical"]


@dataclass(frozen=True, slots=True)
class ObservedCluster:
    """An observation about the cluster."""

    weight: Weight
    what: str
    text: str


@click.command("kafka")
@click.option("--servers", required=True, metavar="HOST:PORT,…", help="The brokers, as in bootstrap.servers.")
@click.option("--topic", "topics", multiple=True, help="A topic that must exist. May be repeated.")
@click.option("--group", default="cep-doctor", show_default=True, help="The consumer group to check access for.")
@click.option("--set", "settings", multiple=True, metavar="OPTION=VALUE",
              help="A source option, such as security.protocol=SASL_SSL or sasl.username=cep.")  # fmt: skip
@click.option(
    "--password-file", type=click.Path(dir_okay=False, path_type=Path), help="File that contains the password."
)
@click.option(
    "--transactions", is_flag=True, help="Also check the permissions that sinks with exactly-once delivery need."
)
@click.option("--registry", default="", metavar="URL", help="URL of the schema registry, as in schema.registry.")
@click.option("--subject", "subjects", multiple=True, help="A subject that must exist. May be repeated.")
@click.option("--registry-user", default="", help="User name for the registry.")
@click.option("--registry-password-file", type=click.Path(dir_okay=False, path_type=Path),
              help="File that contains that user's password.")  # fmt: skip
@JSON_OPTION
@with_readable_errors
def kafka_command(
    servers: str, topics: tuple[str, ...], group: str, settings: tuple[str, ...], password_file: Path | None,
    transactions: bool, registry: str, subjects: tuple[str, ...], registry_user: str,
    registry_password_file: Path | None, as_json: bool,
) -> None:  # fmt: skip
    """Check Kafka's brokers, topics, permissions and versions from this host. Exits with 1 on a critical finding.

    Nothing is written: no topics, messages or offsets. With --transactions the brokers assign a producer id to the
    transactional id cep/doctor; no transaction is begun.
    """
    given = {"bootstrap.servers": servers, "topic.list": ",".join(topics) or "none", "group.id": group}
    given |= dict(_option(one) for one in settings)
    if password_file is not None:
        given["password.file"] = str(password_file)
    options = read_options(KafkaSourceOptions, given, "cep doctor kafka")
    if (subjects or registry_user) and not registry:
        raise ConfigError("--subject and --registry-user need --registry")
    found = list(look(options, topics, transactions=transactions))
    if registry:
        credentials = (registry_user, _password(registry_password_file)) if registry_user else None
        found += look_at_registry(RegistryAddress(registry, credentials), subjects)
    if as_json:
        click.echo(json.dumps([asdict(one) for one in found]))
    else:
        for one in found:
            click.echo(printable(f"{one.weight:<8}  {one.what}: {one.text}"))
    if any(one.weight == "critical" for one in found):
        raise SystemExit(FAILED)


def look(
    options: KafkaSourceOptions, topics: tuple[str, ...], *, transactions: bool = False
) -> Iterator[ObservedCluster]:
    """Return the findings on brokers and topics."""
    kafka = library()
    yield ObservedCluster("ok", "client", f"confluent-kafka {kafka.__version__}, librdkafka {kafka.libversion()[0]}")
    errors = Errors()
    settings = common_settings(options, "cep-doctor") | {
        "group.id": options.group_id,
        "enable.auto.commit": False,
        "allow.auto.create.topics": False,
        "error_cb": errors.note,
    }
    settings.pop("max.poll.records", None)
    consumer = made(kafka.Consumer, settings, "cep doctor kafka")
    try:
        cluster = _cluster(kafka, consumer, errors)
        if isinstance(cluster, ObservedCluster):
            yield cluster
            return
        brokers = ", ".join(f"{one.id} at {one.host}:{one.port}" for _, one in sorted(cluster.brokers.items()))
        yield ObservedCluster(
            "ok", "brokers", f"{len(cluster.brokers)} answer for cluster {cluster.cluster_id}: {brokers}"
        )
        for topic in topics:
            yield from _topic(kafka, consumer, topic)
        if topics:
            yield _group(kafka, consumer, options.group_id, topics[0])
    finally:
        consumer.close()
    if transactions:
        yield _transactions(kafka, options, errors)


def look_at_registry(address: RegistryAddress, subjects: tuple[str, ...]) -> Iterator[ObservedCluster]:
    """Return the findings on a schema registry."""
    registry = SchemaRegistry(address)
    try:
        with suppress(SchemaError):  # any response is sufficient, whether the schema exists or not
            registry.by_id(1)
    except SchemaUnavailableError as error:
        yield ObservedCluster("critical", "registry", error.message)
        return
    yield ObservedCluster("ok", "registry", f"{address.url} answers")
    for subject in subjects:
        try:
            found = registry.by_subject(subject, "latest")
        except (SchemaError, SchemaUnavailableError) as error:
            yield ObservedCluster("critical", f"subject {subject}", error.message)
        else:
            yield ObservedCluster("ok", f"subject {subject}", f"its latest version is schema {found.id} ({found.type})")


def _transactions(kafka: Any, options: KafkaSourceOptions, errors: Errors) -> ObservedCluster:
    """Check that sinks may write in transactions and read their own markers."""
    from confluent_kafka.admin import AdminClient  # noqa: PLC0415 - an extra

    common = {name: value for name, value in common_settings(options, "cep-doctor").items() if name not in CONSUMER}
    errors.clear()
    settings = common | {"transactional.id": TRANSACTIONS, "error_cb": errors.note}
    producer = made(kafka.Producer, settings, "cep doctor kafka")
    try:
        producer.init_transactions(CALL_S)
        admin = made(AdminClient, common, "cep doctor kafka")
        asked = kafka.ConsumerGroupTopicPartitions(f"{TRANSACTIONS}/log")
        admin.list_consumer_group_offsets([asked], request_timeout=CALL_S)[asked.group_id].result(CALL_S)
    except kafka.KafkaException as error:
        producer.poll(0)  # says why
        wrong = error.args[0]
        text = errors.text if errors.text and wrong.name() in WEAK else explained(wrong)
        return ObservedCluster("critical", "transactions", text)
    return ObservedCluster("ok", "transactions", "transactional ids and groups that begin with cep/ may be used")


def _cluster(kafka: Any, consumer: Any, errors: Errors) -> Any:
    """Return the brokers' metadata, or why it is not available."""
    deadline = time.monotonic() + CALL_S
    while True:
        try:
            return consumer.list_topics(timeout=1.0)
        except kafka.KafkaException as error:
            consumer.poll(0)  # says why
            if errors.text or time.monotonic() >= deadline:
                return ObservedCluster("critical", "brokers", errors.text or explained(error.args[0]))


def _topic(kafka: Any, consumer: Any, topic: str) -> Iterator[ObservedCluster]:
    what = f"topic {topic}"
    found = consumer.list_topics(topic, timeout=CALL_S).topics[topic]
    if found.error is not None:
        yield ObservedCluster("critical", what, explained(found.error))
        return
    headless = [number for number, one in found.partitions.items() if one.leader < 0]
    if headless:
        yield ObservedCluster("critical", what, f"partitions {headless} have no leader: start the missing brokers")
        return
    thin = [number for number, one in found.partitions.items() if len(one.isrs) < len(one.replicas)]
    if thin:
        yield ObservedCluster(
            "warning", what, f"replicas of partitions {thin} are not in sync: start the missing brokers"
        )
    messages = 0
    for number in found.partitions:
        try:
            low, high = consumer.get_watermark_offsets(kafka.TopicPartition(topic, number), timeout=CALL_S)
        except kafka.KafkaException as error:
            yield ObservedCluster("critical", what, f"partition {number}: {explained(error.args[0])}")
            return
        messages += high - low
    yield ObservedCluster("ok", what, f"{len(found.partitions)} partitions, some {messages} messages")


def _group(kafka: Any, consumer: Any, group: str, topic: str) -> ObservedCluster:
    """Check that the group may be used: brokers require the permission when its offsets are read."""
    what = f"group {group}"
    try:
        partitions = consumer.list_topics(topic, timeout=CALL_S).topics[topic].partitions
        offsets = consumer.committed([kafka.TopicPartition(topic, one) for one in partitions], timeout=CALL_S)
    except kafka.KafkaException as error:
        return ObservedCluster("critical", what, explained(error.args[0]))
    committed = sum(one.offset >= 0 for one in offsets)
    return ObservedCluster("ok", what, f"may be used; {committed} of {len(offsets)} partitions of {topic} have offsets")


def _password(path: Path | None) -> str:
    if path is None:
        return ""
    try:
        return read_password(str(path))
    except PasswordFileError as error:
        raise ConfigError(f"--registry-password-file: {error}") from error


def _option(text: str) -> tuple[str, str]:
    name, sign, value = text.partition("=")
    if not sign:
        raise ConfigError(f"--set {text}: must be OPTION=VALUE")
    return name.strip(), value.strip()
