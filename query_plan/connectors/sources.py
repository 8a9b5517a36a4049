"""The options of sources."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Annotated, ClassVar, Literal
from urllib.parse import urlsplit

from msgspec import Meta

from cep_common.ids import parse_endpoint
from query_plan.connectors.options import Fault, FaultKind, Options

Milliseconds = Annotated[int, Meta(ge=1)]
Rows = Annotated[int, Meta(ge=1)]
Truth = Literal["true", "false"]

SCHEMES = ("http", "https")
"""The worker's configuration decides between http and https: all its servers have the certificate."""

WHOLE_FILES = ("TEXT.FULL", "BINARY.FULL")
"""The modes that read a file as one body."""

_LISTENING = "the worker's configuration says how its HTTP service listens"
_LOCAL = "files are those of the worker's host"


class FileSourceOptions(Options, frozen=True):
    """The options of a file source.

    `file.uri` is a path, or `file:` and a path; `dir.uri` a folder whose files (those that match `file.name.pattern`)
    are read one after the other. In the modes LINE and REGEX a file is read in pieces: lines, or the texts between
    `begin.regex` and `end.regex`; otherwise it is one body. With `tailing` false a file is read to its end once.
    Polling intervals are in milliseconds. A file that has been read to its end is kept, deleted or moved to the folder
    `move.after.process`; `action.after.failure` and `move.after.failure` apply to a file that cannot be read as events.
    `timestamp` names the attribute (or in JSON a key of its own) that holds the event's time. With `header.present` the
    first `header.line.count` lines are skipped.
    """

    file_uri: str = ""
    dir_uri: str = ""
    file_name_pattern: str = ""
    mode: Literal["LINE", "REGEX", "TEXT.FULL", "BINARY.FULL"] = "LINE"
    tailing: Literal["true", "false", ""] = ""
    begin_regex: str = ""
    end_regex: str = ""
    file_polling_interval: Milliseconds = 1_000
    dir_polling_interval: Milliseconds = 1_000
    timestamp: str = ""
    header_present: Truth = "false"
    header_line_count: Annotated[int, Meta(ge=1)] = 1
    action_after_process: Literal["keep", "none", "delete", "move"] = "keep"
    action_after_failure: Literal["keep", "none", "delete", "move"] = "keep"
    move_after_process: str = ""
    move_after_failure: str = ""

    without_effect: ClassVar[Mapping[str, str]] = {
        "timeout": "the source waits for a file without a time limit",
        "file.read.wait.timeout": "file.polling.interval determines how often the file is checked",
        "buffer.size": "lines are read in pieces of a size that suits the worker",
        "move.if.exist.mode": "a moved file never replaces another one: it gets a number",
        "file.system.options": _LOCAL,
    }

    def tails(self) -> bool:
        """Return whether to wait for more data at the end of a file; the default is true for one that is not moved."""
        if self.tailing:
            return self.tailing == "true"
        return not self.dir_uri and self.mode not in WHOLE_FILES and self.action_after_process in ("keep", "none")

    def faults(self) -> Iterator[Fault]:
        """Check the paths, and that options fit the mode."""
        if bool(self.file_uri.strip()) == bool(self.dir_uri.strip()):
            kind = FaultKind.WRONG if self.file_uri.strip() else FaultKind.MISSING
            yield Fault("", "needs file.uri or dir.uri, and only one of them", kind=kind)
        for name, uri in (("file.uri", self.file_uri), ("dir.uri", self.dir_uri)):
            yield from place_faults(name, uri)
        if self.file_name_pattern and not self.dir_uri:
            yield Fault("file.name.pattern", "is for dir.uri")
        yield from self._pattern_faults()
        yield from self._tailing_faults()
        yield from _action_faults("process", self.action_after_process, self.move_after_process)
        yield from _action_faults("failure", self.action_after_failure, self.move_after_failure)

    def _pattern_faults(self) -> Iterator[Fault]:
        patterns = {
            "begin.regex": self.begin_regex,
            "end.regex": self.end_regex,
            "file.name.pattern": self.file_name_pattern,
        }
        for name, pattern in patterns.items():
            try:
                re.compile(pattern)
            except re.error as error:
                yield Fault(name, f"is not a regular expression: {error}")
            if pattern and self.mode != "REGEX" and name != "file.name.pattern":
                yield Fault(name, "is for mode='REGEX'")

    def _tailing_faults(self) -> Iterator[Fault]:
        if self.tailing != "true":
            return
        if self.dir_uri:
            yield Fault("tailing", "is for file.uri; the files of a folder are read to their ends once")
        if self.mode in WHOLE_FILES:
            yield Fault("tailing", f"is for the modes LINE and REGEX; mode='{self.mode}' reads a file as a whole")
        if self.action_after_process in ("delete", "move"):
            yield Fault("tailing", "a file that is followed is never read to its end, so it cannot be moved or deleted")


class HttpSourceOptions(Options, frozen=True):
    """The options of an HTTP source.

    `receiver.url` is where to listen; without it `/<plan>/<stream>` of the built-in server, for tenants other than the
    super tenant `/t/<tenant>/<plan>/<stream>`. `timestamp` names the attribute (or a separate key) that holds the
    event's time. `basic.auth.enabled` is Siddhi's; the worker's configuration decides which clients may send, so only
    `false` is accepted.
    """

    receiver_url: str = ""
    timestamp: str = ""
    basic_auth_enabled: Truth = "false"

    without_effect: ClassVar[Mapping[str, str]] = {
        "worker.count": "events of a request keep their order, and requests are answered by http.threads of the worker",
        **dict.fromkeys(
            (
                "socket.idle.timeout", "ssl.verify.client", "ssl.protocol", "tls.store.type", "ssl.configurations",
                "request.size.validation.configurations", "header.validation.configurations",
                "server.bootstrap.configurations", "trace.log.enabled", "parameters",
            ),
            _LISTENING,
        ),
    }  # fmt: skip

    def faults(self) -> Iterator[Fault]:
        """Check that the URL is valid, and that no passwords are required."""
        if self.basic_auth_enabled == "true":
            advice = "tokens in the worker's configuration determine who may send; omit it"
            yield Fault("basic.auth.enabled", advice)
        if not self.receiver_url:
            return
        try:
            parts = urlsplit(self.receiver_url)
            port = parts.port
        except ValueError:
            yield Fault("receiver.url", f"{self.receiver_url!r} is not an address")
            return
        if parts.scheme not in SCHEMES or not parts.hostname or port is None or len(parts.path) < 2 or parts.query:
            yield Fault("receiver.url", "must be http://host:port/path (or https)")


class InMemoryOptions(Options, frozen=True):
    """The options of an inMemory source.

    `topic` is any name; it connects sources and sinks of the same tenant.
    """

    topic: str

    def faults(self) -> Iterator[Fault]:
        """Check that there is a topic."""
        if not self.topic.strip():
            yield Fault("topic", "must not be empty")


class ZeromqSourceOptions(Options, frozen=True):
    """The options of a ZeroMQ source.

    `endpoint` (`tcp://host:port`) is where to listen; a client may have `window.rows` events in flight.
    """

    endpoint: str
    window_rows: Rows = 65_536

    def faults(self) -> Iterator[Fault]:
        """Check that the endpoint is an address."""
        yield from endpoint_faults(self.endpoint)


def endpoint_faults(endpoint: str) -> Iterator[Fault]:
    """Yield the faults of `tcp://host:port`."""
    try:
        parse_endpoint(endpoint.removeprefix("tcp://"))
    except ValueError as error:
        yield Fault("endpoint", str(error))


def place_faults(name: str, uri: str) -> Iterator[Fault]:
    """Yield the faults of the URI of a file or folder, which must be on the worker's host."""
    try:
        scheme = urlsplit(uri).scheme
    except ValueError:
        scheme = ""
    if len(scheme) > 1 and scheme != "file":
        yield Fault(name, f"{scheme}: is not supported; files are on the worker's host")


def _action_faults(when: str, action: str, target: str) -> Iterator[Fault]:
    if action == "move" and not target.strip():
        yield Fault(f"action.after.{when}", f"'move' needs move.after.{when}, the folder to move files to")
    if target and action != "move":
        yield Fault(f"move.after.{when}", f"needs action.after.{when}='move'")
    yield from place_faults(f"move.after.{when}", target)
