"""Sink `http`: events sent to a web hook."""

from __future__ import annotations

import logging
import re
import threading
from typing import Annotated, Literal
from urllib.parse import quote, urlsplit

import msgspec
import pyarrow as pa
import requests
from msgspec import Meta

from cep_common.errors import ConfigError
from cep_common.paced_log import PacedLog
from cep_worker.consumers import FrameId, GroupId
from cep_worker.error_store.entries import Failed
from cep_worker.mappers.sinks import sink_mapper
from cep_worker.mappers.writing import SinkMapper
from cep_worker.options import read_options
from cep_worker.sinks.base import Sink, SinkContext
from cep_worker.sinks.threaded import ThreadedSink, WriteError

logger = logging.getLogger(__name__)
paced_logger = PacedLog(logger)

WAITS_MS = (100, 200, 500, 1_000, 2_000, 5_000, 10_000, 30_000)
"""How long to wait before the next try; the last goes on."""

WORTH_ANOTHER_TRY = frozenset({408, 425, 429, *range(500, 600)})
"""Answers that may be other ones next time; any other one but 2xx means that these events are not wanted."""

_HEADER = re.compile(r"'([^':]+):\s*([^']*)'")
_LONE_HEADER = re.compile(r"\s*([\w!#$%&*+.^`|~-]+):\s*([^'\",\r\n]*?)\s*", re.ASCII)

_OPTION_NAMES = {
    "publisher_url": "publisher.url",
    "batch_rows": "batch.rows",
    "timeout_ms": "timeout.ms",
    "on_error": "on.error",
    "retry_count": "retry.count",
    "basic_auth_enabled": "basic.auth.enabled",
    "basic_auth_username": "basic.auth.username",
    "basic_auth_password": "basic.auth.password",
}


class HttpOptions(msgspec.Struct, frozen=True, rename=_OPTION_NAMES):
    """`headers` are given as in Siddhi: `'Name: value','Other: value'`, a single one also without its quotes.
    `on.error` WAIT tries for ever and so stops the plan; LOG gives events up after `retry.count` tries, STORE keeps
    them in the error store then.
    `basic.auth.username` and `basic.auth.password` go with every request, unless `basic.auth.enabled` is false."""

    publisher_url: str
    method: Literal["POST", "PUT", "PATCH"] = "POST"
    headers: str = ""
    batch_rows: Annotated[int, Meta(ge=1)] = 500
    timeout_ms: Annotated[int, Meta(ge=1)] = 10_000
    on_error: Literal["WAIT", "LOG", "STORE"] = "WAIT"
    retry_count: Annotated[int, Meta(ge=0)] = 5
    basic_auth_enabled: Literal["true", "false"] = "true"
    basic_auth_username: str = ""
    basic_auth_password: str = ""

    def credentials(self) -> tuple[str, str] | None:
        """What goes with every request, if anything."""
        if self.basic_auth_enabled == "false" or not self.basic_auth_username:
            return None
        return self.basic_auth_username, self.basic_auth_password


class _HttpWriter:
    def __init__(self, options: HttpOptions, headers: dict[str, str], mapper: SinkMapper) -> None:
        self.problem = ""
        self.steps = 0
        self._options = options
        self._mapper = mapper
        self._log = PacedLog(logger)
        self._session = requests.Session()
        self._session.auth = options.credentials()
        self._session.headers["Content-Type"] = mapper.content_type
        self._session.headers.update(headers)

    def write(self, batch: pa.RecordBatch, frame: FrameId | None, stopping: threading.Event) -> None:
        unwanted: list[Failed] = []
        for start in range(0, batch.num_rows, self._options.batch_rows):
            headers = {} if frame is None else {"Idempotency-Key": idempotency_key(frame, start)}
            part = batch.slice(start, self._options.batch_rows)
            try:
                self._deliver(self._mapper.joined(part), headers, stopping)
                self.steps += 1
            except WriteError as error:
                unwanted.append(Failed(part, error.message))
                self.problem = ""
        if unwanted:
            raise WriteError(unwanted[-1].reason, unwanted)

    def commit(self, group: GroupId, stopping: threading.Event) -> None:
        """Each request stands by itself; its key tells whether it came before."""

    def close(self) -> None:
        self._session.close()

    def _deliver(self, payload: bytes, headers: dict[str, str], stopping: threading.Event) -> None:
        tries = 0
        while True:
            self.problem = problem = self._try(payload, headers)
            if not problem:
                self._log.over("hook", "web hook answers again: url=%s", self._shown_url())
                return
            if self._options.on_error != "WAIT" and tries >= self._options.retry_count:
                raise WriteError(f"given up after {tries + 1} tries: {problem}")
            wait_ms = WAITS_MS[min(tries, len(WAITS_MS) - 1)]
            self._log.problem("hook", "web hook failed: url=%s reason=%s", self._shown_url(), problem)
            if stopping.wait(wait_ms / 1000):
                raise WriteError(f"the sink ended before it was delivered: {problem}")
            tries += 1

    def _try(self, payload: bytes, headers: dict[str, str]) -> str:
        """Nothing when `payload` was taken, else why not. WriteError when another try would be in vain."""
        options = self._options
        try:
            answer = self._session.request(
                options.method, options.publisher_url, data=payload, headers=headers,
                timeout=options.timeout_ms / 1000, allow_redirects=False,
            )  # fmt: skip
        except requests.RequestException as error:
            return f"{type(error).__name__} at {self._shown_url()}"
        if 200 <= answer.status_code < 300:
            return ""
        if answer.status_code in WORTH_ANOTHER_TRY:
            return f"status {answer.status_code}"
        raise WriteError(f"refused with status {answer.status_code} by {self._shown_url()}")

    def _shown_url(self) -> str:
        """The address without secrets that may stand in it."""
        parts = urlsplit(self._options.publisher_url)
        return f"{parts.scheme}://{parts.hostname}:{parts.port or ''}{parts.path}"


def http_sink(context: SinkContext) -> Sink:
    """A sink that calls a web hook."""
    options = read_options(HttpOptions, context.connector.options, context.where())
    parts = urlsplit(options.publisher_url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ConfigError(f"{context.where()}: publisher.url: must be http://… or https://…")
    if bool(options.basic_auth_username) != bool(options.basic_auth_password):
        raise ConfigError(f"{context.where()}: basic.auth.username and basic.auth.password go together")
    asked = "basic.auth.enabled" in context.connector.options and options.basic_auth_enabled == "true"
    if asked and options.credentials() is None:
        raise ConfigError(f"{context.where()}: basic.auth.enabled: needs basic.auth.username and basic.auth.password")
    headers = _headers(options.headers, context.where())
    mapper = sink_mapper(context.connector, context.schema, default="json")
    writer = _HttpWriter(options, headers, mapper)
    return ThreadedSink(context, writer, options.on_error)


def idempotency_key(frame: FrameId, first_row: int) -> str:
    """What a request is known by: the same for the same events, however often they are sent."""
    group = frame.group
    names = "/".join(quote(name, safe="") for name in (str(group.key.tenant), group.key.plan, group.publisher))
    return f"{names}/{group.epoch}.{group.attempt}/{group.checkpoint}/{frame.number}.{first_row}"


def _headers(text: str, where: str) -> dict[str, str]:
    if (alone := _LONE_HEADER.fullmatch(text)) is not None:
        return {alone[1]: alone[2]}
    if _HEADER.sub("", text).strip(" ,"):
        raise ConfigError(f"{where}: headers: must be 'Name: value','Other: value'")
    return dict(_HEADER.findall(text))
