"""Listening to an exported stream at all workers.

The results of a stream are at the worker to which a publisher of its plan is connected, which may change. So this
listens at all live workers, including those that start later.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, Protocol

import pyarrow as pa

from cep_common.errors import CepError, InputError, PeerError
from cep_common.ids import Endpoint

LOOK_AGAIN_S = 2.0
"""Seconds between checks for new workers."""
QUIET_S = 5.0
"""Seconds without events after which the reason is reported, and again every `REPEAT_S`."""
REPEAT_S = 60.0
STEP_MS = 50
"""How long to wait for each worker in turn."""

PLANS_CHANGE = frozenset({"unknown-stream", "schema-changed"})
"""Refusals after which the subscription is retried, since the worker's plans are changing."""


class Listens(Protocol):
    """A subscription at a worker."""

    def receive(self, timeout_ms: int | None = None) -> pa.RecordBatch | None:
        """Return the next batch of events.

        Args:
            timeout_ms: How long to wait, in ms; None waits without a limit.

        Returns:
            The batch, or None when none arrived in time.
        """

    def close(self) -> None:
        """Close the subscription."""


Addresses = Callable[[], dict[str, Endpoint]]
"""Returns the live workers by name, with their endpoints for listeners. Raises CepError."""


@dataclass
class StreamListener:
    """Subscriptions at all workers.

    `tell` gets messages for the user, such as that workers join or leave, or why nothing is published (from `quiet`).
    """

    addresses: Addresses
    listen: Callable[[Endpoint], Listens]
    quiet: Callable[[], str]
    tell: Callable[[str], None]
    clock: Callable[[], float] = time.monotonic
    pause: Callable[[float], None] = time.sleep
    _listeners: dict[str, Listens] = field(default_factory=dict)
    _problems: dict[str, str] = field(default_factory=dict)
    _looked_s: float | None = None

    def batches(self, timeout_s: float | None) -> Iterator[pa.RecordBatch]:
        """Yield batches as they arrive, until none has arrived for `timeout_s` (None: forever).

        Raises CepError when no worker can be listened to at the beginning, or one refuses permanently.
        """
        self._look(first=True)
        heard_s = self.clock()
        told_s: float | None = None
        while True:
            batch = self._next()
            now_s = self.clock()
            if self._looked_s is None or now_s - self._looked_s >= LOOK_AGAIN_S:
                self._look(first=False)
            if batch is not None:
                heard_s, told_s = now_s, None
                yield batch
                continue
            if timeout_s is not None and now_s - heard_s >= timeout_s:
                return
            if now_s - heard_s >= QUIET_S and (told_s is None or now_s - told_s >= REPEAT_S):
                told_s = now_s
                self.tell(self.quiet())

    def close(self) -> None:
        """End all subscriptions."""
        for listener in self._listeners.values():
            listener.close()
        self._listeners.clear()

    def _next(self) -> pa.RecordBatch | None:
        """Return the next batch of any worker, or None if none arrived in a turn.

        Batches that have arrived are returned first, and their worker moves to the end of the queue, so that a busy
        worker neither waits for silent ones nor blocks others.
        """
        step_ms = max(1, STEP_MS // max(1, len(self._listeners)))
        turns = [(timeout_ms, name) for timeout_ms in (0, step_ms) for name in self._listeners]
        for timeout_ms, name in turns:
            listener = self._listeners.get(name)
            if listener is None:
                continue
            try:
                batch = listener.receive(timeout_ms)
            except InputError as error:
                if error.reason_code not in PLANS_CHANGE:
                    raise
                self._lose(name, error)
            except PeerError as error:
                self._lose(name, error)
            else:
                if batch is not None:
                    self._listeners[name] = self._listeners.pop(name)
                    return batch
        if not self._listeners:
            self.pause(STEP_MS / 1_000)
        return None

    def _look(self, *, first: bool) -> None:
        """Subscribe at new workers, and retry those that failed before."""
        self._looked_s = self.clock()
        try:
            workers = self.addresses()
        except CepError as error:
            if first:
                raise
            self._say("manager", f"cannot find the workers: {error.message}")
            return
        self._problems.pop("manager", None)
        failures: list[CepError] = []
        for name, endpoint in workers.items():
            if name in self._listeners:
                continue
            try:
                self._listeners[name] = self.listen(endpoint)
            except (InputError, PeerError) as error:
                failures.append(error)
                if not first:
                    self._say(name, f"{name} cannot be listened to: {error.message}")
            else:
                if not first:
                    self.tell(f"now also listening to {name}")
                self._problems.pop(name, None)
        if first and not self._listeners:
            raise failures[0] if failures else PeerError("no worker is alive")
        if first:
            for failure in failures:
                self.tell(f"a worker cannot be listened to: {failure.message}")

    def _lose(self, name: str, error: CepError) -> None:
        self._listeners.pop(name).close()
        self._say(name, f"stopped listening to {name}: {error.message}")
        self._looked_s = None if isinstance(error, InputError) else self._looked_s

    def _say(self, subject: str, text: str) -> None:
        """Report a problem once."""
        if self._problems.get(subject) != text:
            self._problems[subject] = text
            self.tell(text)


def why_quiet(stream: str, workers: list[Any]) -> str:
    """Return why no events arrive on `stream`, by the reports of workers."""
    name = stream.rpartition("/")[2].partition(":")[0]
    wanted = stream.partition("/")[0] if "/" in stream else None
    live = [one for one in workers if one["state"] != "lost"]
    if not live:
        return "no events: no worker is alive"
    serving = [
        (worker["worker"], plan, out)
        for worker in live
        for plan in worker["plans"]
        for out in plan["outflow"]
        if out["stream"] == name and wanted in (None, plan["plan"])
    ]
    if not serving:
        return f"no events on {stream}: no worker serves a plan that exports it now"
    linked = [(at, plan) for at, plan, _ in serving if plan["publishers"]]
    plans = ", ".join(sorted({plan["plan"] for _, plan, _ in serving}))
    if not linked:
        return f"no events on {stream}: no publisher of {plans} is connected to a worker; see `cep status {plans}`"
    where = ", ".join(sorted({at for at, _ in linked}))
    so_far = sum(out["received_events"] for _, _, out in serving)
    return f"no events are published on {stream} now: {plans} sends its results to {where}, {so_far:,} events so far"
