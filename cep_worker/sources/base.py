"""What a source is, and what one is given to work with."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Protocol

import pyarrow as pa
import zmq

from cep_common.link_messages import StreamSchema
from cep_common.reach.guard import Guard
from cep_worker.config import FileSourcesConfig, HttpConfig, IngressConfig
from cep_worker.connectors import Declared
from cep_worker.http_fronts import HttpFronts
from cep_worker.reactor import Reactor
from cep_worker.route import Route
from cep_worker.spool.upkeep import Upkeep
from cep_worker.streams import EventStream
from cep_worker.topics import Topics


class MakeRoute(Protocol):
    """Makes a route for a source that sends batches of a schema to an event stream's inflows."""

    def __call__(self, source: Hashable, offered: StreamSchema, stream: EventStream, /) -> Route: ...


class Source(Protocol):
    """Brings events of one stream. All methods are called on the reactor's thread and none blocks."""

    @property
    def error(self) -> str:
        """What is wrong with it since it runs, or nothing."""

    def retry(self, now_ms: int) -> None:
        """There is room again for what waited."""

    def reroute(self, declared: Declared, now_ms: int) -> None:
        """The deployed plans have changed; the source is declared as before, perhaps for other plans."""

    def tick(self, now_ms: int) -> None:
        """Time passes."""

    def close(self) -> None:
        """Nothing more is taken."""


@dataclass(frozen=True, slots=True)
class SourceContext:
    """What every source gets: its declaration and its surroundings. `submit` as of `Intake`, `now_ms` the time of day;
    any thread may call both."""

    declared: Declared
    ingress: IngressConfig
    http: HttpConfig
    files: FileSourcesConfig
    reactor: Reactor
    upkeep: Upkeep
    zmq_context: zmq.Context[zmq.Socket[bytes]]
    fronts: HttpFronts
    make_route: MakeRoute
    submit: Callable[[Hashable, EventStream, pa.RecordBatch], Future[None]]
    topics: Topics
    now_ms: Callable[[], int]
    guard: Guard | None = None
    """What the source may reach; None where the operator declares it."""

    def where(self) -> str:
        """The source as errors name it."""
        connector = self.declared.connector
        return f"@source(type='{connector.type}') of stream {connector.stream}"
