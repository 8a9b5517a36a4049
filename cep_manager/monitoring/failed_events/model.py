"""Data types of the workers' error stores for the web API."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from cep_manager.monitoring.worker_calls import SilentWorker

MOST_IDS = 100
LONGEST_ID = 24
MOST_SHOWN = 100


class FailedEventSelection(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The entries with these `ids`, or `all` of the plan."""

    ids: Annotated[tuple[Annotated[str, Meta(max_length=LONGEST_ID)], ...], Meta(max_length=MOST_IDS)] = ()
    all: bool = False


class FailedEventView(msgspec.Struct, frozen=True):
    """Events that failed together, in a `query` that took them from `stream`, or in the stream's `sink` or source.

    `worker` keeps them since `time_ms`. An event's time is `_timestamp`.
    """

    id: str
    kind: Literal["stream", "sink", "source"]
    stream: str
    sink: str
    query: str
    reason: str
    time_ms: int
    events: tuple[dict[str, Any], ...]
    worker: str = ""


class FailedEventList(msgspec.Struct, frozen=True):
    """The oldest `entries` of the `found` ones of all workers but the `silent` ones."""

    plan: str
    tenant: int
    found: int
    entries: tuple[FailedEventView, ...]
    silent: tuple[SilentWorker, ...]


class RefusedEntry(msgspec.Struct, frozen=True):
    """An entry that stays, and why."""

    id: str
    worker: str
    code: str
    reason: str


class ReplayedEvents(msgspec.Struct, frozen=True):
    """`replayed` entries were removed, their `events` were accepted; `refused` ones stay.

    The events of `under_way` are still being retried by their sinks. `left` entries were not reached in time: repeat
    the request.
    """

    plan: str
    tenant: int
    replayed: int
    events: int
    refused: tuple[RefusedEntry, ...]
    under_way: int
    left: int
    silent: tuple[SilentWorker, ...]


class DiscardedEvents(msgspec.Struct, frozen=True):
    """The number of deleted entries."""

    plan: str
    tenant: int
    discarded: int
    silent: tuple[SilentWorker, ...]
