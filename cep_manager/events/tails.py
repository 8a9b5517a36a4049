"""Live tails: subscribe to a stream at the workers' egress and keep some of its events for viewers.

Each tail has a thread that reads everything at once, so that no plan ever waits for a viewer; events above its
allowance are counted and dropped.
"""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Callable
from types import TracebackType
from typing import Any, Protocol, Self

import pyarrow as pa

from cep_common.clock import Clock
from cep_common.errors import CepError
from cep_common.ids import Endpoint
from cep_common.security.config import SecurityConfig
from cep_common.security.roles import Role
from cep_common.token_bucket import TokenBucket
from cep_manager.config import TailConfig
from cep_manager.errors import TailsBusyError, WorkerFailedError
from cep_manager.events.model import TailFilter, TailReport
from cep_manager.events.sampling import EventMatcher, as_events, sampled
from topology.links.event_listener import EventListener

logger = logging.getLogger(__name__)

LOOK_MS = 50
"""How long a tail waits for one worker before it checks the next."""

MOST_KEPT = 500
"""Maximum number of events not fetched yet; the oldest are dropped first."""

LEAVE_S = 2.0


class StreamConnection(Protocol):
    """A subscription at one worker; see `EventListener`."""

    arrow_schema: pa.Schema

    def receive(self, timeout_ms: int | None = None) -> pa.RecordBatch | None: ...

    def close(self) -> None: ...


Listen = Callable[[Endpoint, str, int], StreamConnection]
"""Subscribes at an endpoint to a tenant's stream. Raises InputError, PeerError."""


def listen_with(security: SecurityConfig) -> Listen:
    """Subscription under the manager's own keys."""

    def listen(endpoint: Endpoint, stream: str, tenant: int) -> StreamConnection:
        return EventListener(endpoint, stream, tenant, security=security, role=Role.MANAGER)

    return listen


class Tails:
    """All live tails of a manager, limited in number. Any thread may call."""

    def __init__(self, config: TailConfig, clock: Clock, listen: Listen) -> None:
        self.config = config
        self._clock = clock
        self._listen = listen
        self._free = threading.BoundedSemaphore(max(1, config.at_once))

    def open(self, endpoints: tuple[Endpoint, ...], stream: str, tenant: int, wanted: TailFilter | None) -> StreamTail:
        """Return a tail of the stream at all `endpoints`; close it.

        Raises TailsBusyError, BadRequestError for the filter, and WorkerFailedError when a worker does not let it
        listen.
        """
        if self.config.at_once == 0:
            raise TailsBusyError(
                "watching streams is switched off; see tail.at_once in the manager's configuration",
                {"config": "tail.at_once"},
            )
        if not self._free.acquire(blocking=False):
            message = f"{self.config.at_once} streams are being watched; try again when one has ended"
            raise TailsBusyError(message, {"config": "tail.at_once", "most": self.config.at_once})
        try:
            return StreamTail(
                self._subscribe(endpoints, stream, tenant), wanted, self.config, self._clock, self._free.release
            )
        except BaseException:
            self._free.release()
            raise

    def _subscribe(self, endpoints: tuple[Endpoint, ...], stream: str, tenant: int) -> list[StreamConnection]:
        listeners: list[StreamConnection] = []
        try:
            for endpoint in endpoints:
                listeners.append(self._listen(endpoint, stream, tenant))  # noqa: PERF401 - what stands is closed on failure
        except CepError as error:
            for listener in listeners:
                listener.close()
            raise WorkerFailedError(f"cannot listen to {stream}: {error.message}") from error
        return listeners


class StreamTail:
    """One watched stream. `take` belongs to one thread, `close` may be called by any, once."""

    def __init__(
        self,
        listeners: list[StreamConnection],
        wanted: TailFilter | None,
        config: TailConfig,
        clock: Clock,
        released: Callable[[], None],
    ) -> None:
        """Start the tail, which owns `listeners` from now on. Raises BadRequestError."""
        self._listeners = listeners
        self._released = released
        self._clock = clock
        try:
            self._filter = EventMatcher(wanted, listeners[0].arrow_schema) if wanted is not None else None
        except CepError:
            self._close_listeners()
            raise
        now_ms = clock.monotonic_ms()
        self._allowance = TokenBucket.per_second(config.events_per_s, now_ms)
        self._until_ms = now_ms + config.longest_ms
        self._kept: deque[dict[str, Any]] = deque(maxlen=MOST_KEPT)
        self._seen = self._matched = self._shown = 0
        self._ended = ""
        self._changed = threading.Condition()
        self._leaving = threading.Event()
        self._thread = threading.Thread(target=self._run, name="live-tail", daemon=True)
        self._thread.start()

    def take(self, timeout_s: float) -> TailReport:
        """Return the events since the last call, as soon as there are some or after `timeout_s`."""
        with self._changed:
            self._changed.wait_for(lambda: self._kept or self._ended, timeout_s)
            events = list(self._kept)
            self._kept.clear()
            return TailReport(events, self._seen, self._matched, self._shown, self._ended)

    def close(self) -> None:
        """Unsubscribe, waiting for it only briefly, and free the slot for another tail."""
        self._leaving.set()
        self._thread.join(timeout=LEAVE_S)
        self._released()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _run(self) -> None:
        try:
            while not self._leaving.is_set() and self._clock.monotonic_ms() < self._until_ms:
                for listener in self._listeners:
                    batch = listener.receive(LOOK_MS)
                    if batch is not None:
                        self._keep(batch)
            self._end("the time limit for watching is reached; watch the stream again")
        except CepError as error:
            self._end(error.message)
        except Exception:
            # The thread's border: viewers get a message, and the log has the reason.
            logger.exception("live tail failed")
            self._end("the manager failed; its log says more")
        finally:
            self._close_listeners()

    def _keep(self, batch: pa.RecordBatch) -> None:
        passed = batch if self._filter is None else self._filter.apply(batch)
        granted = self._allowance.take_up_to(passed.num_rows, self._clock.monotonic_ms())
        events = as_events(sampled(passed, granted)) if granted else []
        with self._changed:
            self._seen += batch.num_rows
            self._matched += passed.num_rows
            self._shown += len(events)
            self._kept.extend(events)
            self._changed.notify_all()

    def _end(self, reason: str) -> None:
        with self._changed:
            self._ended = reason
            self._changed.notify_all()

    def _close_listeners(self) -> None:
        for listener in self._listeners:
            listener.close()
