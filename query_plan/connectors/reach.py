"""Check a source or sink of a plan against the allow-lists of the process that would run it."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from urllib.parse import urlsplit

from cep_common.errors import ConfigError
from cep_common.ids import parse_endpoint
from cep_common.protocol.registry import Connector
from cep_common.reach.databases import refuse_database
from cep_common.reach.guard import Guard, UrlUse
from cep_common.reach.rules import DEFAULT_PORTS
from query_plan.connectors.judging import Kind
from query_plan.connectors.kafka import SCHEME, files_in, read_servers
from query_plan.connectors.options import Fault, path_of
from query_plan.connectors.schemas import FILES as SCHEMA_FILES
from query_plan.connectors.schemas import REGISTRY, SCHEMA_MAPPERS, in_map
from query_plan.connectors.sinks import MAIL_HOST, TLS_PORT
from query_plan.connectors.templates import attributes_in, sample

NOTHING: frozenset[str] = frozenset()
SECRETS = ("password", "password.file", "headers", "basic.auth.password", "consumer.secret", "refresh.token",
           "oauth.password", "sasl.password", "ssl.key.location", "ssl.key.password",
           "optional.configuration")  # fmt: skip
"""Options that may only be sent to the destination they are configured for."""
PLACES: dict[str, tuple[str, ...]] = {
    "http": ("publisher.url", "token.url"),
    "email": ("host", "port"),
    "kafka": ("bootstrap.servers",),
    "rdbms": ("url",),
    "zeromq": ("endpoint",),
}
"""The options of connectors that name destinations."""
MAP_SECRETS = ("basic.auth.username", "basic.auth.password", "ssl.keystore.path")
"""The same, for mappers with a registry."""
SMTP = "smtp"
"""The scheme of mail servers in allow-lists, encrypted or not."""
_FILES = ("file.uri", "dir.uri", "move.after.process", "move.after.failure")


def reach_faults(kind: Kind, connector: Connector, guard: Guard, given: Collection[str] = NOTHING) -> Iterator[Fault]:
    """Yield every destination of the connector that is not allowed.

    Values from the operator's configuration (`given`) need no permission, and secrets among them may only be sent to
    destinations from the configuration.
    """
    options = {name: text for name, text in connector.options.items() if name not in given}
    lent = [name for name in SECRETS if name in given]
    for name in PLACES.get(connector.type, ()) if kind == "sink" or connector.type == "kafka" else ():
        if lent and name in options:
            yield Fault(name, f"{', '.join(lent)} of the worker's configuration can only be sent to the "
"destination that it configures",
                        "leave it to the configuration, or write all options in the plan")  # fmt: skip
    if connector.mapper in SCHEMA_MAPPERS:
        yield from _mapper_faults(kind, connector.mapper_options, guard, given)
    if connector.type == "kafka":
        yield from _kafka_faults(kind, options, guard)
    elif kind == "source":
        yield from _source_faults(connector.type, options, guard)
    else:
        yield from _sink_faults(connector.type, options, connector.options, guard)


def refuse_reach(kind: Kind, connector: Connector, guard: Guard, where: str, given: Collection[str]) -> None:
    """Raise ConfigError for the first destination that is not allowed."""
    for fault in reach_faults(kind, connector, guard, given):
        raise ConfigError(f"{where}: {fault.text()}")


def _source_faults(type_: str, options: Mapping[str, str], guard: Guard) -> Iterator[Fault]:
    if type_ == "file":
        for name in _FILES:
            if options.get(name, "").strip() and (reason := guard.refuse_file(path_of(options[name]), "source")):
                yield Fault(name, reason)
    if type_ == "zeromq":
        yield from _endpoint_faults(options, guard.refuse_listening)
    # The worker checks an `http` source with its own address, since it knows which one is built in.


def _sink_faults(type_: str, options: Mapping[str, str], whole: Mapping[str, str], guard: Guard) -> Iterator[Fault]:
    if (file := options.get("password.file")) and (reason := guard.refuse_file(file, "password")):
        yield Fault("password.file", reason)
    match type_:
        case "file":
            if reason := _refuse_output(options.get("file.uri", "").strip(), guard):
                yield Fault("file.uri", reason)
        case "http":
            for name in PLACES["http"]:
                if reason := refuse_web_url(options.get(name, ""), guard):
                    yield Fault(name, reason)
        case "email":
            if reason := _refuse_mail_server(options, whole, guard):
                yield Fault("host", reason)
        case "rdbms":
            if reason := refuse_database(options.get("url", ""), guard):
                yield Fault("url", reason)
        case "zeromq":
            yield from _endpoint_faults(options, guard.refuse_url)


def _kafka_faults(kind: Kind, options: Mapping[str, str], guard: Guard) -> Iterator[Fault]:
    for name, path in files_in(options):
        if reason := guard.refuse_file(path_of(path), "password"):
            yield Fault(name, reason)
    refuse = guard.refuse_url if kind == "sink" else guard.refuse_source
    try:
        servers = read_servers(options.get("bootstrap.servers", ""))
    except ValueError:
        return  # missing or wrong, which is reported elsewhere
    for server in servers:
        if reason := refuse(SCHEME, server.host, server.port):
            yield Fault("bootstrap.servers", reason)


def _mapper_faults(kind: Kind, options: Mapping[str, str], guard: Guard, given: Collection[str]) -> Iterator[Fault]:
    """Yield the files and the registry of the mapper that are not allowed."""
    lent = [name for name in MAP_SECRETS if in_map(name) in given]
    own = {name: text for name, text in options.items() if in_map(name) not in given}
    if lent and REGISTRY in own:
        yield Fault(REGISTRY, f"{', '.join(lent)} of the worker's configuration can only be sent to the "
"destination that it configures",
                    "leave it to the configuration, or write all options in the plan")  # fmt: skip
    if reason := refuse_web_url(own.get(REGISTRY, ""), guard, kind):
        yield Fault(REGISTRY, reason)
    for name in SCHEMA_FILES:
        path = own.get(name, "").strip()
        if path and (reason := guard.refuse_file(path_of(path), "source" if name == "schema.file" else "password")):
            yield Fault(name, reason)


def _refuse_output(uri: str, guard: Guard) -> str:
    if not uri or uri.startswith("{{"):
        return ""  # the sink checks the file of each event
    return guard.refuse_file(path_of(sample(uri)), "sink")


def _refuse_mail_server(options: Mapping[str, str], whole: Mapping[str, str], guard: Guard) -> str:
    by_operator = "host" in whole and "host" not in options and "port" not in options
    port = whole.get("port", str(TLS_PORT))
    if by_operator or not (port.isascii() and port.isdecimal()):
        return ""
    return guard.refuse_url(SMTP, whole.get("host", MAIL_HOST), int(port))


def refuse_web_url(url: str, guard: Guard, use: UrlUse = "sink") -> str:
    """Return why requests may not be sent to `url`; empty when they may, or when its host depends on events."""
    try:
        parts = urlsplit(url.strip())
        if attributes_in(url) and (url.strip().startswith("{{") or attributes_in(parts.netloc)):
            return ""
        scheme, host, port = parts.scheme, parts.hostname or "", parts.port
    except ValueError:
        return ""  # invalid URLs are reported elsewhere
    if scheme not in ("http", "https") or not host:
        return ""
    return guard.refuse_url(scheme, host, port or DEFAULT_PORTS[scheme][0], use)


def _endpoint_faults(options: Mapping[str, str], refuse: Callable[[str, str, int], str]) -> Iterator[Fault]:
    try:
        endpoint = parse_endpoint(options.get("endpoint", "").removeprefix("tcp://"))
    except ValueError:
        return
    if reason := refuse("tcp", endpoint.host, endpoint.port):
        yield Fault("endpoint", reason)
