"""The request of a trial and its answer.

This module does not depend on the engine, so that code which starts trials need not load it.
"""

from __future__ import annotations

from typing import Any, Literal

import msgspec

MOST_EVENTS = 5_000


class TrialEvent(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """An event for `stream`.

    `data` is its attributes by name (missing ones are null) or all of them in order. Without `timestamp`, or an
    attribute `_timestamp` of type long, it comes a second after the event before it.
    """

    stream: str
    data: dict[str, Any] | list[Any]
    timestamp: int | None = None


class TrialRequest(msgspec.Struct, frozen=True):
    """The plan in `text` receives `events` in order, each at its own time, and then runs for `wait_ms`.

    `start_ms` is the time of the first event when it has none. `script_languages` are those in which the plan may
    define functions. `most_rows` is how many rows the answer has at most; the process may run for `seconds` and use
    `memory_bytes`.
    """

    text: str
    events: tuple[TrialEvent, ...]
    start_ms: int
    wait_ms: int = 0
    script_languages: tuple[str, ...] = ()
    most_rows: int = 1_000
    seconds: int = 20
    memory_bytes: int = 2_147_483_648


class TrialRow(msgspec.Struct, frozen=True):
    """A row of output.

    `after` is the number of the event that caused it, from 1; 0 is the start, and the number of events plus one is
    the time that passed after the last. `expired` rows leave a query's window.
    """

    after: int
    timestamp: int
    values: list[Any]
    expired: bool = False


class TrialOutput(msgspec.Struct, frozen=True):
    """The output of a stream or query, or the rows of a table at the end.

    `count` is the number of all rows, `rows` has the first of them.
    """

    kind: Literal["stream", "query", "table"]
    name: str
    attributes: tuple[tuple[str, str], ...]
    rows: list[TrialRow]
    count: int


class PartialMatches(msgspec.Struct, frozen=True):
    """After event `after` the pattern of `query` waits in `count` places for its next event."""

    after: int
    query: str
    count: int


class TrialState(msgspec.Struct, frozen=True):
    """The state of a part of the plan at the end.

    It counts events (rows), groups, partial matches, instances and an estimate of bytes.
    """

    kind: str
    name: str
    rows: int
    groups: int
    partial_matches: int
    instances: int
    bytes: int


class TrialResult(msgspec.Struct, frozen=True, tag="result"):
    """The result of a trial.

    `partial_matches` has an entry whenever the number has changed, but with very many events not after each. `failures`
    counts failed events by stream; `log` has the log lines of the plan and the engine. Times are in milliseconds; the
    plan's clock ran from `start_ms` to `end_ms`, and the run took `took_ms`.
    """

    outputs: list[TrialOutput]
    partial_matches: list[PartialMatches]
    state: list[TrialState]
    failures: dict[str, int]
    log: list[str]
    start_ms: int
    end_ms: int
    took_ms: int


class TrialRefused(msgspec.Struct, frozen=True, tag="refused"):
    """The trial could not be run; `event` is the number of the faulty event, 0 if there is none."""

    code: str
    message: str
    event: int = 0


TrialAnswer = TrialResult | TrialRefused
