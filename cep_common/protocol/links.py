"""The messages on links: events between workers and stages, and their acknowledgements.

`links.md` describes each, and a test compares the two. Conventions are in `PROTOCOL.md`.
"""

from __future__ import annotations

from typing import Annotated

import msgspec

from cep_common.ids import SUPER_TENANT, PlanKey
from cep_common.protocol.registry import Message

Sequence = Annotated[int, msgspec.Meta(ge=1, le=2**63 - 1)]
Rows = Annotated[int, msgspec.Meta(ge=0, lt=2**31)]
Watermark = Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1)]
Position = Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)]
"""A position in a sender's log, from 1; 0 is before the first event."""


class StreamSchema(msgspec.Struct, frozen=True):
    """A stream that a link carries: attributes as (name, type) in definition order."""

    stream: str
    attributes: tuple[tuple[str, str], ...]


class OpenLink(Message, frozen=True):
    """Asks the peer to open a link over which `sender` sends events of `streams`.

    `key`, `epoch` and `attempt` are those of the plan's topology, or None and 0 between a client and a worker; then
    `tenant` says whose streams are meant. `log` is the identity of the log from which the sender can send again; empty
    when it has none. A publisher stage draws it at random for each run: where epochs are used a second time, it alone
    distinguishes two runs. Results up to `position` were acknowledged to a publisher stage before, and no checkpoint
    that it knows to be complete holds the last of them: a worker that neither has all of them nor has delivered them
    refuses the link with RESULTS_MISSING. 0: there are none. A sender that `sends_times` says with each frame when its
    events were accepted, and whether it is caught up: until its first frame the plan's processing time waits for it.
    """

    TYPE = "open-link"
    sender: str
    streams: tuple[StreamSchema, ...]
    key: PlanKey | None = None
    epoch: int = 0
    tenant: int = SUPER_TENANT
    attempt: int = 0
    log: str = ""
    position: Position = 0
    sends_times: bool = False


STALE_ATTEMPT = "stale-attempt"
"""Why a worker refuses a publisher: the topology has been started again with the same epoch."""
RESULTS_MISSING = "results-missing"
"""Why a worker refuses a publisher: results are gone that it has acknowledged and that no checkpoint contains."""


class LinkOpened(Message, frozen=True):
    """Answers `OpenLink`: at most `window_rows` rows, or one frame, may be unacknowledged.

    The server has the sender's log up to `position` already, and the sender continues from there. `secures` says that
    it will report with `secured` what may be forgotten; otherwise what is acknowledged may be. `now_ms` is the server's
    time of day; 0: not sent. A server that `goes_back` starts from a checkpoint: it wants what follows `position` even
    if a later checkpoint held it, since that can no longer be read. `cleared` are earlier attempts of its epoch that no
    event can have ended, `doubtful` those whose ends prove little.
    """

    TYPE = "link-opened"
    window_rows: int
    position: Position = 0
    secures: bool = False
    now_ms: int = 0
    goes_back: bool = False
    cleared: tuple[int, ...] = ()
    doubtful: tuple[int, ...] = ()


class Data(Message, frozen=True):
    """A record batch of `stream` follows as the frame's body (Arrow IPC message without schema, `rows` rows).

    `sequence` counts a link's frames from 1. Later events of the link have timestamps of at least `watermark_ms`.
    `position` is that of the frame's last events in the sender's log; 0 when they are in none.

    On a link whose sender `sends_times` the events were accepted at `watermark_ms`, or as `accepted` says: so many rows
    each at such a time, in the sender's time of day, which `ahead_ms` turns into the server's. `caught_up` says that
    nothing else waits at the sender; on other frames of such a link it is what MarkIdle says.
    """

    TYPE = "data"
    stream: str
    sequence: Sequence
    rows: Rows
    watermark_ms: Watermark
    epoch: int = 0
    position: Position = 0
    accepted: tuple[tuple[Rows, int], ...] = ()
    ahead_ms: int = 0
    caught_up: bool = False


class Secured(Message, frozen=True):
    """Reports that a checkpoint contains the sender's log up to `position`.

    Every checkpoint that the topology may be restored from contains it up to `unneeded`: the sender need not retain
    that part.
    """

    TYPE = "secured"
    position: Position
    unneeded: Position = 0


class MarkCheckpoint(Message, frozen=True):
    """Marks the frames of a publisher stage that belong to a checkpoint.

    All results before this frame belong to `checkpoint` or earlier ones, all after it to later ones. It takes a
    sequence number. Once it is acknowledged, the results are stored until the checkpoint is complete.
    """

    TYPE = "mark-checkpoint"
    sequence: Sequence
    checkpoint: Annotated[int, msgspec.Meta(ge=1, le=2**63 - 1)]


class Acknowledge(Message, frozen=True):
    """Acknowledges all frames up to `sequence`.

    They no longer count against the window, and the sender may forget them unless the server `secures`.
    """

    TYPE = "acknowledge"
    sequence: Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)]


class MarkIdle(Message, frozen=True):
    """Reports that the sender has nothing more to send for now, so others need not wait for its watermark.

    It takes a sequence number, as a frame of no rows, so that it arrives behind all that was sent before.
    """

    TYPE = "mark-idle"
    sequence: Sequence


class BeatLink(Message, frozen=True):
    """The heartbeat of the link's sender; answered with `acknowledge`."""

    TYPE = "beat-link"


class CloseLink(Message, frozen=True):
    """The sender closes the link in order; nothing follows."""

    TYPE = "close-link"


class SendBundle(Message, frozen=True):
    """Carries what component instance `source` gives instance `target` of another task for one ticket.

    One body follows for each entry (stream, rows) of `batches`. A bundle may be empty, since every ticket must be
    settled. With a `checkpoint` it is only that checkpoint's marker. Under the system clock all rows have the
    processing time `clock_ms`, or, with `clocks`, each row its own in the last column of its body. With a `position`
    the rows are in the topic of a log, from that offset on. `full`: the window of the channel's sender is full, so it
    sends nothing until rows are settled.
    """

    TYPE = "send-bundle"
    sequence: Sequence
    source: str
    target: str
    origin: str
    ticket: int
    channel: str
    streams: tuple[str, ...]
    watermark_ms: Watermark
    idle: bool
    batches: tuple[tuple[str, Rows], ...]
    checkpoint: int = 0
    clock_ms: Watermark = -(2**63)
    clocks: bool = False
    position: Annotated[int, msgspec.Meta(ge=-1, le=2**63 - 1)] = -1
    full: bool = False


class SettleBundles(Message, frozen=True):
    """Reports that the targets have finished the bundles with these sequence numbers: in any order, each once."""

    TYPE = "settle-bundles"
    sequences: tuple[Sequence, ...]


class Subscribe(Message, frozen=True):
    """Subscribes to the events of the tenant's `event_stream` at a worker.

    They come over the same socket as `data`.
    """

    TYPE = "subscribe"
    event_stream: str
    tenant: int = SUPER_TENANT


class Subscribed(Message, frozen=True):
    """The schema of the stream that will be sent."""

    TYPE = "subscribed"
    schema: StreamSchema
