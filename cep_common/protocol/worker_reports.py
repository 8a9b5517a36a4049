"""What a worker reports with each heartbeat: links, logs, prepared results, sources, sinks, listeners."""

from __future__ import annotations

from typing import Literal

import msgspec

MOST_CONNECTORS = 256
"""Maximum number of sources and sinks in a report."""
MOST_PARTITIONS = 128
"""The maximum number of partitions of a source in a report: those with the greatest lag."""
MOST_LISTENERS = 64
"""Maximum number of listeners in a report."""
MAX_ORPHANS = 64
"""Maximum number of orphaned logs and results in a report: those with the most events."""


class PublisherReport(msgspec.Struct, frozen=True):
    """A link from a publisher instance.

    `in_flight_rows` of at most `window_rows` are not acknowledged yet; it `waits` while a consumer is full.
    """

    instance: str
    in_flight_rows: int
    window_rows: int
    waits: bool = False


class WalReport(msgspec.Struct, frozen=True):
    """The log of an imported stream.

    It takes `size_bytes` of at most `maximum_bytes` in `segments` files. The oldest event that the topology may request
    again is `oldest_ms` old (0: there is none). `lost_events` could not be read; `problem` says why nothing more can be
    stored, if so. Damaged files that were set aside take `damaged_file_bytes`. With `secured` the topology will request
    none of its events again.
    """

    stream: str
    size_bytes: int
    maximum_bytes: int
    segments: int
    oldest_ms: int = 0
    lost_events: int = 0
    problem: str = ""
    damaged_file_bytes: int = 0
    secured: bool = True


class PreparedResultsReport(msgspec.Struct, frozen=True):
    """Results that wait on disk, for their checkpoint or for sinks; the oldest for `oldest_ms`.

    `lost_events` could not be read; damaged files that were set aside take `damaged_file_bytes`. `released_events` wait
    for sinks only: their checkpoint is complete, or their plan delivers at least once. It is `full` when those take
    `maximum_bytes`: publishers wait then.
    """

    events: int
    size_bytes: int
    oldest_ms: int
    lost_events: int = 0
    damaged_file_bytes: int = 0
    released_events: int = 0
    maximum_bytes: int = 0
    full: bool = False


class OrphanReport(msgspec.Struct, frozen=True):
    """Data that a worker set aside at `since_ms` (time of day) because its plan was missing but not undeployed.

    These are accepted events of a `stream` (`kind` log), or results that wait for their checkpoint or sinks. They are
    deleted at `until_ms`.
    """

    id: str
    kind: Literal["log", "results"]
    tenant: int
    plan: str
    events: int
    since_ms: int
    until_ms: int
    stream: str = ""


class PartitionReport(msgspec.Struct, frozen=True):
    """A partition of a topic that a source of the worker reads.

    Events before `position` are in the worker's log, those up to `committed` were committed to the brokers, and the
    next message will have the offset `end`; -1: not known yet.
    """

    topic: str
    partition: int
    position: int
    committed: int = -1
    end: int = -1

    @property
    def lag(self) -> int:
        """Return the number of messages that are not read yet, as far as is known."""
        return max(0, self.end - self.position) if self.position >= 0 else 0


class WrittenTopicReport(msgspec.Struct, frozen=True):
    """A topic that a sink of the worker writes to, and how many messages it has written since it started."""

    topic: str
    messages: int


class TransactionReport(msgspec.Struct, frozen=True):
    """The numbers of committed and aborted transactions of a sink since it started.

    `checkpoint` is that of the last committed results (0: none); `in_doubt`: the brokers have not answered the last
    commit.
    """

    committed: int
    aborted: int
    checkpoint: int = 0
    in_doubt: bool = False


class ConnectorReport(msgspec.Struct, frozen=True):
    """A source or sink of a worker.

    It names the plan that declares it (empty: a file does), its stream, and its present `error` (empty: none) since
    the time of day `since_ms`. Of its events `waiting_events` are in its queue, `delivered_events` were passed on. A
    source of topics reads `partitions`, of which at most `MOST_PARTITIONS` are sent; a sink of topics tells what it has
    `written`, and its `transactions` when it delivers in such.
    """

    direction: Literal["source", "sink"]
    type: str
    tenant: int
    plan: str
    stream: str
    error: str = ""
    waiting_events: int = 0
    dropped_events: int = 0
    delivered_events: int = 0
    since_ms: int = 0
    partitions: tuple[PartitionReport, ...] = ()
    written: tuple[WrittenTopicReport, ...] = ()
    transactions: TransactionReport | None = None


class ListenerReport(msgspec.Struct, frozen=True):
    """A client that listens to an exported event stream.

    It counts the events that wait for it, the rows that it has not acknowledged, and the age of the oldest of these.
    """

    tenant: int
    event_stream: str
    waiting_events: int
    in_flight_rows: int
    lag_ms: int
