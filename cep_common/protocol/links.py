"""The messages on links: events on their way between workers and stages, and their acknowledgements.

Conventions are those of `messages`; PROTOCOL.md describes each, and a test keeps the two in step.
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
"""A place in a sender's log, from 1; 0 is before the first."""


class StreamSchema(msgspec.Struct, frozen=True):
    """A stream that a link carries: attributes as (name, type) in definition order."""

    stream: str
    attributes: tuple[tuple[str, str], ...]


class OpenLink(Message, frozen=True):
    """`sender` wants to send events of `streams` to the peer. `key`, `epoch` and `attempt` are those of the plan's
    topology, or None and 0 between a client and a worker; then `tenant` says whose streams are meant. `log` is the
    identity of the log from which the sender can send again; empty when it has none. A publisher stage draws it anew
    for each run: where epochs are given out a second time it alone tells two runs apart. Results up to `position` were
    acknowledged to a publisher stage before, and no checkpoint that it knows to be complete holds the last of them: a
    worker that has not all of them any more, nor has delivered them, refuses the link with RESULTS_MISSING. 0: there
    are none. A sender that `tells_time` says with each frame when its events were accepted, and whether it is caught
    up: until its first frame the plan's processing time waits for it."""

    TYPE = "open-link"
    sender: str
    streams: tuple[StreamSchema, ...]
    key: PlanKey | None = None
    epoch: int = 0
    tenant: int = SUPER_TENANT
    attempt: int = 0
    log: str = ""
    position: Position = 0
    tells_time: bool = False


STALE_ATTEMPT = "stale-attempt"
"""Why a worker refuses a publisher: it knows of a later start of the topology with the same epoch."""
RESULTS_MISSING = "results-missing"
"""Why a worker refuses a publisher: results that it has acknowledged and that no checkpoint holds are gone."""


class LinkOpened(Message, frozen=True):
    """At most `window_rows` rows may be under way, sent and not yet acknowledged (one frame always may). The server has
    taken the sender's log up to `position` already: what follows is wanted. `secures` says that it will tell with
    `secured` what may be forgotten; otherwise what is acknowledged may be. `now_ms` is the server's time of day; 0: it
    does not tell. A server that `goes_back` begins from a checkpoint: what follows `position` is wanted even if a later
    checkpoint held it, since that cannot be read any more."""

    TYPE = "link-opened"
    window_rows: int
    position: Position = 0
    secures: bool = False
    now_ms: int = 0
    goes_back: bool = False


class Data(Message, frozen=True):
    """A record batch of `stream` follows as the frame's body (Arrow IPC message without schema, `rows` rows).

    `sequence` counts a link's frames from 1. Later events of the link have timestamps of at least `watermark_ms`.
    `position` is that of the frame's last events in the sender's log; 0 when they are in none.

    On a link whose sender `tells_time` the events were accepted at `watermark_ms`, or as `accepted` says: so many rows
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
    """A checkpoint holds all up to `position` of the sender's log, and every checkpoint that a topology may go back to
    all up to `unneeded`: that much need never be sent again, and need not be kept."""

    TYPE = "secured"
    position: Position
    unneeded: Position = 0


class MarkCheckpoint(Message, frozen=True):
    """A publisher stage to a worker: all results before this frame belong to `checkpoint` or earlier ones, all after it
    to later ones. It takes a sequence number; acknowledged, the results are stored until the checkpoint is complete."""

    TYPE = "mark-checkpoint"
    sequence: Sequence
    checkpoint: Annotated[int, msgspec.Meta(ge=1, le=2**63 - 1)]


class Acknowledge(Message, frozen=True):
    """All frames up to `sequence` have been taken over: the sender may send as much again, and forget them unless the
    server `secures`."""

    TYPE = "acknowledge"
    sequence: Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)]


class MarkIdle(Message, frozen=True):
    """The sender has nothing more to send for now; others need not wait for its watermark. It takes a sequence number,
    as a frame of no rows, so that it arrives behind all that was sent before."""

    TYPE = "mark-idle"
    sequence: Sequence


class BeatLink(Message, frozen=True):
    """The link's sender lives; answered with `acknowledge`."""

    TYPE = "beat-link"


class CloseLink(Message, frozen=True):
    """The sender closes the link in order; nothing follows."""

    TYPE = "close-link"


class SendBundle(Message, frozen=True):
    """What component instance `source` gives instance `target` of another task for one ticket; as many bodies follow as
    `batches` names: (stream, rows) each. A bundle may be empty: its ticket must be accounted for all the same. With a
    `checkpoint` it is that checkpoint's marker and nothing else. Under the system clock the rows have the processing
    time `clock_ms`, or, with `clocks`, each its own in the last column of every body."""

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


class SettleBundles(Message, frozen=True):
    """What the bundles with these sequence numbers brought has gone on from their targets: in any order, each once."""

    TYPE = "settle-bundles"
    sequences: tuple[Sequence, ...]


class Subscribe(Message, frozen=True):
    """A listener asks a worker for the events of the tenant's `event_stream`; they come over the same socket as
    `data`."""

    TYPE = "subscribe"
    event_stream: str
    tenant: int = SUPER_TENANT


class Subscribed(Message, frozen=True):
    """The schema of the stream that will be sent."""

    TYPE = "subscribed"
    schema: StreamSchema
