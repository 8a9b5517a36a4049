"""The options of sinks."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from email.errors import MessageError
from email.message import EmailMessage
from email.utils import getaddresses
from typing import Annotated, ClassVar, Literal
from urllib.parse import urlsplit

from msgspec import Meta

from query_plan.connectors.options import Fault, FaultKind, Options
from query_plan.connectors.sources import InMemoryOptions, Truth, endpoint_faults, place_faults

OnError = Literal["WAIT", "LOG", "STREAM", "STORE"]
METHODS = ("POST", "PUT", "PATCH", "GET", "DELETE")
UNREADABLE = (ValueError, LookupError, AttributeError, TypeError, RecursionError, MessageError)
"""The exceptions that Python's mail library raises for malformed addresses."""
ADDRESS = re.compile(r"[^@\s]+@[^@\s]+")
TLS_PORT = 465
MAIL_HOST = "smtp.gmail.com"

_HEADER = re.compile(r"'([^':]+):\s*([^']*)'")
_LONE_HEADER = re.compile(r"\s*([\w!#$%&*+.^`|~-]+):\s*([^'\",\r\n]*?)\s*", re.ASCII)
_NEVER_FAILS = {"on.error": "such a sink never drops events: it waits"}
_CONNECTION = "the sink has one connection, whose time-out is timeout.ms"
_PROXY = "set HTTP_PROXY or HTTPS_PROXY in the worker's environment"
_CERTIFICATES = "certificates are checked by those of the worker's system; set REQUESTS_CA_BUNDLE for others"


def read_headers(text: str) -> dict[str, str]:
    """Return the headers of a text such as `'Name: value','Other: value'`; a single one needs no quotes.

    Raises ValueError for other texts.
    """
    if (alone := _LONE_HEADER.fullmatch(text)) is not None:
        return {alone[1]: alone[2]}
    if _HEADER.sub("", text).strip(" ,"):
        raise ValueError("must be 'Name: value','Other: value'")
    return dict(_HEADER.findall(text))


class EmailOptions(Options, frozen=True):
    """The options of an email sink.

    `address` is the sender's; `to`, `cc`, `bcc` (several, separated by commas) and `subject` may hold `{{attribute}}`.
    With `ssl.enable` the connection starts with TLS. Otherwise it switches to TLS if the server offers that, which is
    required before a password is sent (`auth`). `username` defaults to the address. `on.error` WAIT retries forever and
    so stops the plan; LOG drops a mail after `retry.count` retries, STORE (and STREAM) then keeps its event in the
    error store.
    """

    to: str
    subject: str
    address: str = ""
    cc: str = ""
    bcc: str = ""
    username: str = ""
    password: str = ""
    password_file: str = ""
    host: str = MAIL_HOST
    port: Annotated[int, Meta(ge=1, le=65_535)] = TLS_PORT
    ssl_enable: Truth = "true"
    auth: Truth = "true"
    content_type: Literal["text/plain", "text/html"] = "text/plain"
    timeout_ms: Annotated[int, Meta(ge=1)] = 10_000
    on_error: OnError = "WAIT"
    retry_count: Annotated[int, Meta(ge=0)] = 5

    without_effect: ClassVar[Mapping[str, str]] = {"connection.pool.size": "the sink has one connection"}
    varying: ClassVar[frozenset[str]] = frozenset({"subject", "to", "cc", "bcc"})

    def faults(self) -> Iterator[Fault]:
        """Check that the sender is one address, and that the port fits the encryption."""
        if not self.address:
            yield Fault("", "missing required option address", kind=FaultKind.MISSING)
        elif not is_sender(self.address):
            yield Fault("address", "must be a mail address")
        for name, addresses in (("to", self.to), ("cc", self.cc), ("bcc", self.bcc)):
            if "{{" not in addresses and addresses and not _are_addresses(addresses):
                yield Fault(name, "must be mail addresses, separated by commas")
        if self.ssl_enable == "false" and self.port == TLS_PORT:
            reason = f"{TLS_PORT} is for TLS from the start; with ssl.enable='false' use another port, usually 587"
            yield Fault("port", reason)
        if self.auth == "true" and not f"{self.username or self.address}{self.password}".isascii():
            yield Fault("", "username, password: only ASCII characters are supported")


class FileSinkOptions(Options, frozen=True):
    """The options of a file sink.

    `file.uri` is a path, or `file:` and a path, and may hold `{{attribute}}`. `append` and `add.line.separator` are
    Siddhi's: a file is never truncated, and each event has lines of its own. `on.error` decides about an event whose
    file cannot be written: LOG drops it, STORE (and STREAM) keeps it in the error store, WAIT tries forever.
    """

    file_uri: str
    append: Literal["true"] = "true"
    add_line_separator: Literal["true"] = "true"
    on_error: OnError = "LOG"

    without_effect: ClassVar[Mapping[str, str]] = {"file.system.options": "files are those of the worker's host"}
    varying: ClassVar[frozenset[str]] = frozenset({"file.uri"})

    def faults(self) -> Iterator[Fault]:
        """Check that the URI is that of a local file."""
        if not self.file_uri.strip():
            yield Fault("file.uri", "must not be empty")
        yield from place_faults("file.uri", self.file_uri)


class HttpSinkOptions(Options, frozen=True):
    """The options of an HTTP sink.

    `headers` are written as in Siddhi: `'Name: value','Other: value'`; a single one needs no quotes. `on.error` WAIT
    retries forever and so stops the plan; LOG drops events after `retry.count` tries, STORE (and STREAM) then keeps
    them in the error store. `basic.auth.username` and `basic.auth.password` go with every request, unless
    `basic.auth.enabled` is false. With `consumer.key`, `consumer.secret` and `token.url` requests carry an OAuth 2
    token instead, obtained with `refresh.token`, with `oauth.username` and `oauth.password`, or with the key alone.
    `blocking.io` is Siddhi's: the sink waits for each answer in any case, and `false` is reported.
    """

    publisher_url: str
    method: str = "POST"
    headers: str = ""
    batch_rows: Annotated[int, Meta(ge=1)] = 500
    timeout_ms: Annotated[int, Meta(ge=1)] = 10_000
    on_error: OnError = "WAIT"
    retry_count: Annotated[int, Meta(ge=0)] = 5
    basic_auth_enabled: Literal["true", "false", ""] = ""
    basic_auth_username: str = ""
    basic_auth_password: str = ""
    consumer_key: str = ""
    consumer_secret: str = ""
    token_url: str = ""
    refresh_token: str = ""
    oauth_username: str = ""
    oauth_password: str = ""
    oauth_scope: str = ""
    blocking_io: Truth = "true"

    without_effect: ClassVar[Mapping[str, str]] = {
        **dict.fromkeys(
            (
                "socket.idle.timeout", "chunk.disabled", "executor.service.threads", "client.bootstrap.configurations",
                "max.pool.active.connections", "min.pool.idle.connections", "max.pool.idle.connections",
                "min.evictable.idle.time", "time.between.eviction.runs", "max.wait.time", "test.on.borrow",
                "test.while.idle", "exhausted.action",
            ),
            _CONNECTION,
        ),
        **dict.fromkeys(("proxy.host", "proxy.port", "proxy.username", "proxy.password"), _PROXY),
        **dict.fromkeys(
            (
                "ssl.protocol", "ssl.configurations", "https.truststore.file", "https.truststore.password",
                "hostname.verification.enabled", "ssl.verification.disabled", "tls.store.type",
            ),
            _CERTIFICATES,
        ),
    }  # fmt: skip
    varying: ClassVar[frozenset[str]] = frozenset({"publisher.url", "method", "headers"})

    def faults(self) -> Iterator[Fault]:
        """Check the URLs, and that related options are given together."""
        for name, url in (("publisher.url", self.publisher_url), ("token.url", self.token_url)):
            if (name == "publisher.url" or url) and not is_web_url(url):
                yield Fault(name, "must be http://… or https://…")
        if "{{" not in self.method and self.method.upper() not in METHODS:
            yield Fault("method", f"must be {' or '.join(METHODS)}, not {self.method!r}")
        try:
            read_headers(self.headers)
        except ValueError as error:
            yield Fault("headers", str(error))
        if bool(self.basic_auth_username) != bool(self.basic_auth_password):
            yield Fault("", "basic.auth.username and basic.auth.password go together")
        if self.basic_auth_enabled == "true" and self.credentials() is None:
            yield Fault("basic.auth.enabled", "needs basic.auth.username and basic.auth.password")
        oauth = (self.consumer_key, self.consumer_secret, self.token_url)
        if any((*oauth, self.refresh_token, self.oauth_username)) and not all(oauth):
            yield Fault("", "OAuth needs consumer.key, consumer.secret and token.url")
        if bool(self.oauth_username) != bool(self.oauth_password):
            yield Fault("", "oauth.username and oauth.password go together")
        if self.blocking_io == "false":
            yield Fault("blocking.io", "has no effect: the sink waits for each response", "take it out", FaultKind.IDLE)
        if self.consumer_key and self.basic_auth_username:
            yield Fault("", "requests carry either basic.auth.username or an OAuth token, not both")

    def credentials(self) -> tuple[str, str] | None:
        """Return the user name and password that every request carries, if any."""
        if self.basic_auth_enabled == "false" or not self.basic_auth_username:
            return None
        return self.basic_auth_username, self.basic_auth_password


class InMemorySinkOptions(InMemoryOptions, frozen=True):
    """The options of an inMemory sink.

    `topic` may contain `{{attribute}}`, so that events choose their topic.
    """

    without_effect: ClassVar[Mapping[str, str]] = _NEVER_FAILS
    varying: ClassVar[frozenset[str]] = frozenset({"topic"})


class LogOptions(Options, frozen=True):
    """The options of a log sink.

    `priority` is the level; with OFF nothing is logged. `prefix` precedes each event; empty means `<plan> :
    <stream>`.
    """

    priority: Literal["TRACE", "DEBUG", "INFO", "WARN", "ERROR", "FATAL", "OFF"] = "INFO"
    prefix: str = ""

    without_effect: ClassVar[Mapping[str, str]] = _NEVER_FAILS


class RdbmsOptions(Options, frozen=True):
    """The options of an RDBMS sink.

    `url` has SQLAlchemy's form, such as `postgresql+psycopg://user@host/database`; its password is the first line of
    `password.file`. `create` creates the table when it is missing. `timestamp.column` receives the events' times.
    `on.error` decides about events that the database refuses: LOG drops them, STORE (and STREAM) keeps them in the
    error store.
    """

    url: str
    table_name: str
    password_file: str = ""
    create: Truth = "false"
    timestamp_column: str = ""
    on_error: Literal["LOG", "STREAM", "STORE"] = "LOG"


class ZeromqSinkOptions(Options, frozen=True):
    """The options of a ZeroMQ sink.

    `endpoint` is `tcp://host:port` of a ZeroMQ server; `stream` is the stream's name there.
    """

    endpoint: str
    stream: str = ""

    without_effect: ClassVar[Mapping[str, str]] = _NEVER_FAILS

    def faults(self) -> Iterator[Fault]:
        """Check that the endpoint is an address."""
        yield from endpoint_faults(self.endpoint)


def is_web_url(url: str) -> bool:
    """Return whether requests can be sent to `url`."""
    try:
        parts = urlsplit(url)
        return parts.scheme in ("http", "https") and bool(parts.hostname) and (parts.port is None or parts.port > 0)
    except ValueError:
        return False


def is_sender(address: str) -> bool:
    """Return whether the text is one address that can be the sender of a mail."""
    try:
        EmailMessage()["From"] = address
    except UNREADABLE:
        return False
    found = getaddresses([address])
    return len(found) == 1 and ADDRESS.fullmatch(found[0][1]) is not None


def _are_addresses(text: str) -> bool:
    try:
        return all(ADDRESS.fullmatch(address) for _, address in getaddresses([text]) if address)
    except UNREADABLE:
        return False
