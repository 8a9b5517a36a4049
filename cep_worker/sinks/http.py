"""Sink `http`: sends events to a webhook."""

from __future__ import annotations

import logging
import re
import threading
from dataclasses import dataclass
from functools import partial
from typing import Any
from urllib.parse import quote

import pyarrow as pa
import requests

from cep_common.configuration.redaction import shown_url
from cep_common.monitoring.paced_log import PacedLog
from cep_common.protocol.links import StreamSchema
from cep_common.reach.connecting import ReachError, allowed_addresses
from cep_common.reach.guard import Guard
from cep_common.security.web import SENT_BY_SINK
from cep_common.web.client import WebClient
from cep_worker.failed_events.entries import FailedBatch
from cep_worker.formats.schemas.settings import mapper_guard
from cep_worker.formats.sink_mappers.registry import sink_mapper
from cep_worker.formats.sink_mappers.template import Row, SinkMapper, Template, UnfitEventsError
from cep_worker.formats.value_texts import value_text
from cep_worker.outflows.consumers import FrameId, GroupId
from cep_worker.sinks.base import EventSink, SinkContext
from cep_worker.sinks.oauth import OAuthTokens, TokenError
from cep_worker.sinks.retries import RetryableError, deliver_with_retries, retry_policy
from cep_worker.sinks.threaded import ThreadedSink, WriteError
from query_plan.connectors.options import options_of
from query_plan.connectors.reach import refuse_web_url
from query_plan.connectors.sinks import METHODS, HttpSinkOptions, is_web_url, read_headers
from query_plan.connectors.templates import attributes_in
from topology.events.frames import event_rows

logger = logging.getLogger(__name__)
paced_logger = PacedLog(logger)

UNAUTHORISED = 401
WORTH_ANOTHER_TRY = frozenset({408, 425, 429, *range(500, 600)})
"""Status codes after which a request is retried. Any other code but 2xx means that the events are rejected."""

_NOT_HEADER = re.compile(r"[\x00-\x1f\x7f]+")
_SAFE_IN_URL = "/:@,;~-._"


@dataclass(frozen=True, slots=True)
class _HttpTarget:
    """The address and headers of a request."""

    method: str
    url: str
    headers: tuple[tuple[str, str], ...]

    def shown(self) -> str:
        """Return the URL without its path, which contains the secrets of many webhooks."""
        return shown_url(self.url)


class _HttpTargets:
    """Makes the targets of events: one for all, or one for each event if options have placeholders."""

    def __init__(self, options: HttpSinkOptions, schema: StreamSchema, where: str) -> None:
        headers = read_headers(options.headers)
        texts = (options.method, options.publisher_url, *headers.values())
        self._fixed: _HttpTarget | None = None
        if not any(map(attributes_in, texts)):
            self._fixed = _HttpTarget(options.method.upper(), options.publisher_url, tuple(headers.items()))
        whole = options.publisher_url.strip().startswith("{{")
        self._method = Template(options.method, schema, where, value_text, "method")
        self._url = Template(options.publisher_url, schema, where, value_text if whole else _in_url, "publisher.url")
        self._headers = {name: Template(text, schema, where, _in_header, "headers") for name, text in headers.items()}

    def runs(self, batch: pa.RecordBatch) -> list[tuple[_HttpTarget, int, pa.RecordBatch]]:
        """Split `batch` into runs of events with one target.

        Each run has its target, the index of its first event, and its events, in order.
        """
        if self._fixed is not None:
            return [(self._fixed, 0, batch)]
        targets = [self._target(row) for row in event_rows(batch)]
        starts = [place for place in range(len(targets)) if place == 0 or targets[place] != targets[place - 1]]
        ends = [*starts[1:], len(targets)]
        return [
            (targets[start], start, batch.slice(start, end - start)) for start, end in zip(starts, ends, strict=True)
        ]

    def _target(self, row: Row) -> _HttpTarget:
        headers = tuple((name, template.fill(row).decode()) for name, template in self._headers.items())
        return _HttpTarget(self._method.fill(row).decode().strip().upper(), self._url.fill(row).decode(), headers)


class _HttpWriter:
    def __init__(
        self, options: HttpSinkOptions, targets: _HttpTargets, mapper: SinkMapper, guard: Guard | None, sender: str
    ) -> None:
        """`sender` names the plan in each request, whatever headers the plan gives it."""
        self._guard = guard
        self._sender = sender
        self.problem = ""
        self.steps = 0
        self._options = options
        self._targets = targets
        self._mapper = mapper
        self._log = PacedLog(logger)
        addresses = None if guard is None else partial(allowed_addresses, guard)
        self._client = WebClient(auth=options.credentials(), addresses=addresses)
        self._retries = retry_policy(options.on_error, options.retry_count)
        self._tokens = OAuthTokens(options, self._client) if options.consumer_key else None

    def write(self, batch: pa.RecordBatch, frame: FrameId | None, stopping: threading.Event) -> None:
        deliver_with_retries(self._require_schema, self._retries, stopping, self._report_schema)
        rows = 1 if self._mapper.one_event_a_body else self._options.batch_rows
        unwanted: list[FailedBatch] = []
        for target, first, run in self._targets.runs(batch):
            for start in range(0, run.num_rows, rows):
                headers = {} if frame is None else {"Idempotency-Key": idempotency_key(frame, first + start)}
                part = run.slice(start, rows)
                try:
                    self._deliver(target, self._mapper.joined(part), headers, stopping)
                    self.steps += 1
                except (WriteError, UnfitEventsError) as error:
                    unwanted.append(FailedBatch(part, error.message))
                    self.problem = ""
        if unwanted:
            raise WriteError(unwanted[-1].reason, unwanted)

    def commit(self, group: GroupId, stopping: threading.Event) -> None:
        """Do nothing: each request is independent; its key shows whether it was sent before."""

    def close(self) -> None:
        self._client.close()

    def _deliver(self, target: _HttpTarget, payload: bytes, headers: dict[str, str], stopping: threading.Event) -> None:
        if not is_web_url(target.url):
            raise WriteError("publisher.url: the event's value is not an http:// or https:// URL")
        if self._guard is not None and (reason := refuse_web_url(target.url, self._guard)):
            raise WriteError(f"publisher.url: {reason}")
        if target.method not in METHODS:
            raise WriteError(f"method: must be {' or '.join(METHODS)}, not {target.method[:50]!r}")
        given = {"Content-Type": self._mapper.content_type, **dict(target.headers), **headers}
        deliver_with_retries(
            lambda: self._try(target, payload, given),
            self._retries,
            stopping,
            lambda problem: self._report(target, problem),
        )

    def _require_schema(self) -> None:
        if problem := self._mapper.problem():
            raise RetryableError(problem)

    def _report_schema(self, problem: str) -> None:
        self.problem = problem
        if problem:
            self._log.problem("schema", "events wait for their schema: reason=%s", problem)
        else:
            self._log.over("schema", "the schema is available")

    def _report(self, target: _HttpTarget, problem: str) -> None:
        self.problem = problem
        if problem:
            self._log.problem("hook", "webhook failed: url=%s reason=%s", target.shown(), problem)
        else:
            self._log.over("hook", "webhook responds again: url=%s", target.shown())

    def _try(self, target: _HttpTarget, payload: bytes, headers: dict[str, str]) -> None:
        """Send `payload` once.

        Raises RetryableError, or WriteError when another try cannot succeed.
        """
        try:
            status = self._status(target, payload, headers)
            if status == UNAUTHORISED and self._tokens is not None:
                self._tokens.refused()
                status = self._status(target, payload, headers)
        except TokenError as error:
            raise RetryableError(f"no token: {error}") from error
        except ReachError as error:  # the host's name may resolve to an allowed address next time
            raise RetryableError(error.message) from error
        except (requests.exceptions.InvalidHeader, requests.exceptions.InvalidURL, UnicodeError) as error:
            raise WriteError(f"the event is not a valid request: {error}") from error
        except requests.RequestException as error:
            raise RetryableError(f"{type(error).__name__} at {target.shown()}") from error
        if 200 <= status < 300:
            return
        if status in WORTH_ANOTHER_TRY or (status == UNAUTHORISED and self._tokens is not None):
            raise RetryableError(f"status {status}")
        raise WriteError(f"refused with status {status} by {target.shown()}")

    def _status(self, target: _HttpTarget, payload: bytes, headers: dict[str, str]) -> int:
        """Return what the web hook answers.

        That counts also when what follows it is too long or does not come to its end.
        """
        shown = self._tokens.header() if self._tokens is not None else {}
        return self._client.request(
            target.method, target.url, data=payload, headers={**headers, **shown, SENT_BY_SINK: self._sender},
            timeout_s=self._options.timeout_ms / 1000,
        ).status  # fmt: skip


def _in_url(kind: str, value: Any) -> str:
    """Quote a value for use in a URL."""
    return quote(value_text(kind, value), safe=_SAFE_IN_URL)


def _in_header(kind: str, value: Any) -> str:
    """Escape a value for use in a header."""
    return _NOT_HEADER.sub(" ", value_text(kind, value)).strip()


def http_sink(context: SinkContext) -> EventSink:
    """Return a sink that calls a web hook."""
    options = options_of(HttpSinkOptions, context.connector.options)
    targets = _HttpTargets(options, context.schema, context.where())
    mapper = sink_mapper(context.connector, context.schema, "json", mapper_guard(context.guard, context.given))
    sender = f"{context.key.tenant}/{quote(context.key.plan)}"
    return ThreadedSink(context, _HttpWriter(options, targets, mapper, context.guard, sender), options.on_error)


def idempotency_key(frame: FrameId, first_row: int) -> str:
    """Return the idempotency key of a request, which is the same whenever the same events are sent."""
    group = frame.group
    names = "/".join(quote(name, safe="") for name in (str(group.key.tenant), group.key.identity, group.publisher))
    return f"{names}/{group.epoch}.{group.attempt}/{group.checkpoint}/{frame.number}.{frame.row(first_row)}"
