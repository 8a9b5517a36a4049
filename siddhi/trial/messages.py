"""What is said to a trial and what it answers. Knows nothing of the engine, so that whoever starts trials need not."""

from __future__ import annotations

from typing import Any, Literal

import msgspec

MOST_EVENTS = 5_000


class TrialEvent(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """An event for `stream`. `data` is its attributes by name (one that is missing is null) or all of them in order;
    without `timestamp`, or an attribute `_timestamp` of type long that says it, it comes a second after the one before.
    """

    stream: str
    data: dict[str, Any] | list[Any]
    timestamp: int | None = None


class TrialRequest(msgspec.Struct, frozen=True):
    """The plan in `text` gets `events` in order, each at its own time, and then `wait_ms` go by.

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
    """A row that came out. `after` is the number of the event that caused it, from 1; 0 is the start, and one more than
    there are events is the time that went by after the last. `expired` rows leave a query's window."""

    after: int
    timestamp: int
    values: list[Any]
    expired: bool = False


class TrialOutput(msgspec.Struct, frozen=True):
    """What came out of a stream or query, or what a table holds at the end. `count` rows came in all, of which `rows`
    are the first."""

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
    """What a part of the plan holds at the end: events (rows), groups, partial matches, instances, about how many
    bytes."""

    kind: str
    name: str
    rows: int
    groups: int
    partial_matches: int
    instances: int
    bytes: int


class TrialResult(msgspec.Struct, frozen=True, tag="result"):
    """What a trial gave. `partial_matches` has an entry whenever the number has changed; of very many events not after
    each. `failures` counts events of a
    stream that failed; `log` is what the plan and the engine logged. Times are milliseconds; `start_ms` to `end_ms` is
    the time that the plan saw, `took_ms` what it took to run."""

    outputs: list[TrialOutput]
    partial_matches: list[PartialMatches]
    state: list[TrialState]
    failures: dict[str, int]
    log: list[str]
    start_ms: int
    end_ms: int
    took_ms: int


class TrialRefused(msgspec.Struct, frozen=True, tag="refused"):
    """The trial could not be run; `event` is the number of the event that is at fault, 0 when none is."""

    code: str
    message: str
    event: int = 0


TrialAnswer = TrialResult | TrialRefused
