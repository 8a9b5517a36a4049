"""The messages that processes send each other, but for those of tasks (`task_messages`). PROTOCOL.md describes them;
a test keeps the two in step.

Requests are verbs, answers past participles, a refusal is `rejected`. Times are milliseconds. Data frames carry Arrow
record batches behind their header; see `topology.frames`.
"""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

import msgspec

from cep_common.error_records import ErrorRecord
from cep_common.ids import SUPER_TENANT, Endpoint, InsightAddress, PlanKey
from cep_common.worker_reports import ConnectorReport, HeldReport, ListenerReport, PublisherReport, SpoolReport

Sequence = Annotated[int, msgspec.Meta(ge=1, le=2**63 - 1)]
Rows = Annotated[int, msgspec.Meta(ge=0, lt=2**31)]
Watermark = Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1)]
Position = Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)]
"""A place in a sender's log, from 1; 0 is before the first."""


class Message(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One message; `TYPE` is its name on the wire."""

    TYPE: ClassVar[str]


class Rejected(Message, frozen=True):
    """A refusal: `code` is stable, `reason` is for people. A manager that does not lead names the `leader`, if it knows
    of one."""

    TYPE = "rejected"
    code: str
    reason: str
    leader: Endpoint | None = None


# ---- registry: endpoints --------------------------------------------------------------------------------------------

Role = Literal["receiver", "worker"]


class RegisterEndpoint(Message, frozen=True):
    """`instance` takes events of `plan` at `endpoint`: a receiver stage those of workers, a worker those of publisher
    stages. Sent again it is the heartbeat. `connections` names the peers linked to the endpoint now. `attempt` is how
    often the driver had started the topology anew; 0 for workers."""

    TYPE = "register-endpoint"
    role: Role
    key: PlanKey
    epoch: int
    instance: str
    endpoint: Endpoint
    connections: tuple[str, ...] = ()
    attempt: int = 0


class EndpointRegistered(Message, frozen=True):
    """Register again within `heartbeat_ms`; after `lease_ms` of silence the endpoint counts as gone."""

    TYPE = "endpoint-registered"
    heartbeat_ms: int
    lease_ms: int


class RequestEndpoint(Message, frozen=True):
    """`requester` on `host` asks for an endpoint of `role` of the plan: a worker for a receiver (one connection for
    each imported `stream`), a publisher stage for a worker (`stream` is empty). `attempt` is that of the publisher's
    topology. `former` is the instance that the requester was linked to before in this epoch: it is given again while it
    is there."""

    TYPE = "request-endpoint"
    role: Role
    key: PlanKey
    epoch: int
    requester: str
    host: str
    stream: str = ""
    attempt: int = 0
    former: str = ""


class EndpointAssigned(Message, frozen=True):
    """Connect to `endpoint`, registered by `instance`; a receiver of the topology's attempt `attempt`."""

    TYPE = "endpoint-assigned"
    endpoint: Endpoint
    instance: str
    attempt: int = 0


# ---- workers --------------------------------------------------------------------------------------------------------


class InflowReport(msgspec.Struct, frozen=True):
    """One inflow connection of a worker: an imported stream of a plan, and whether it is linked to a receiver.
    `under_way_rows` were sent and are not acknowledged, of at most `window_rows`."""

    stream: str
    connected: bool
    sent_events: int = 0
    waiting_events: int = 0
    receiver: str = ""
    under_way_rows: int = 0
    window_rows: int = 0


class OutflowReport(msgspec.Struct, frozen=True):
    """Events of one exported stream that a worker got from publisher stages."""

    stream: str
    received_events: int = 0


class WorkerPlanReport(msgspec.Struct, frozen=True):
    """What a worker does for one plan; `publishers` are the publisher instances linked to its outflow service, `links`
    tells more of them. `spools` is told of plans that keep logs, `held` of those that deliver exactly once. `errors`
    are those of its sources, sinks and connections since the worker started."""

    key: PlanKey
    epoch: int
    inflow: tuple[InflowReport, ...] = ()
    outflow: tuple[OutflowReport, ...] = ()
    publishers: tuple[str, ...] = ()
    last_error: str = ""
    links: tuple[PublisherReport, ...] = ()
    spools: tuple[SpoolReport, ...] = ()
    held: HeldReport | None = None
    errors: tuple[ErrorRecord, ...] = ()


class RegisterWorker(Message, frozen=True):
    """A worker is alive; sent again it is the heartbeat. `revision` is the plan list that it works from. Its process
    holds `memory_bytes` of memory of its own and has used `cpu_ms` of processor time since it started, `up_ms` ago;
    what it accepts is brought to the disk as `fsync` says. Of `connectors` and `listeners` the first hundreds are
    told."""

    TYPE = "register-worker"
    worker: str
    host: str
    process_id: int
    revision: int
    plans: tuple[WorkerPlanReport, ...] = ()
    http_address: str = ""
    ingress: Endpoint | None = None
    egress: Endpoint | None = None
    insight: InsightAddress | None = None
    up_ms: int = 0
    memory_bytes: int = 0
    cpu_ms: int = 0
    fsync: str = ""
    leaving: bool = False
    connectors: tuple[ConnectorReport, ...] = ()
    listeners: tuple[ListenerReport, ...] = ()


class CheckpointSpan(msgspec.Struct, frozen=True):
    """Results of the topology's attempt `attempt` of `epoch` stand up to checkpoint `last`; once a later attempt has
    begun, those behind it were undone. 0: none stands yet."""

    epoch: int
    attempt: int
    last: int


class PlanCheckpoints(msgspec.Struct, frozen=True):
    """Which results of a plan stand, by attempt, oldest first; the last span is that of the attempt that runs."""

    key: PlanKey
    spans: tuple[CheckpointSpan, ...]


class TenantLimit(msgspec.Struct, frozen=True):
    """A worker takes in at most so many events a second for the tenant's plans."""

    tenant: int
    events_per_s: Annotated[int, msgspec.Meta(ge=1)]


class WorkerRegistered(Message, frozen=True):
    """`revision` is the manager's plan list; a worker with another one asks for it. `limits` are this worker's share of
    what tenants may send; those that are not named may send any number of events. `checkpoints` tell of plans
    whose results wait in workers for their checkpoint. `managers` are all that are known, the leader first."""

    TYPE = "worker-registered"
    heartbeat_ms: int
    revision: int
    limits: tuple[TenantLimit, ...] = ()
    checkpoints: tuple[PlanCheckpoints, ...] = ()
    managers: tuple[Endpoint, ...] = ()


class StreamBinding(msgspec.Struct, frozen=True):
    """A stream of a plan that is tied to the world: `stream` is its id in the plan, `event_stream` its `name:version`
    outside. `attributes` are (name, type) in definition order."""

    stream: str
    event_stream: str
    attributes: tuple[tuple[str, str], ...]


class Connector(msgspec.Struct, frozen=True):
    """A source or sink of a stream, from `@source`/`@sink` in the plan: `type`, its options, and its mapper's."""

    stream: str
    type: str
    options: dict[str, str]
    mapper: str
    mapper_options: dict[str, str]


Delivery = Literal["at-least-once", "exactly-once", "at-most-once"]
"""What becomes of a plan's events and results when something dies, from `@Plan:delivery`."""


class DeployedPlan(msgspec.Struct, frozen=True):
    """All that a worker must know of a deployed plan; while `intake` is False it takes no events for it, while `trace`
    is True it writes the plan's events to its log. `deployed_ms` is when it was first deployed: a plan of the same name
    with another time is another plan, which has nothing to do with what workers have of the former one."""

    key: PlanKey
    epoch: int
    imported: tuple[StreamBinding, ...]
    exported: tuple[StreamBinding, ...]
    playback: bool = False
    sources: tuple[Connector, ...] = ()
    sinks: tuple[Connector, ...] = ()
    intake: bool = True
    trace: bool = False
    delivery: Delivery = "at-least-once"
    deployed_ms: int = 0


class ListPlans(Message, frozen=True):
    TYPE = "list-plans"


class PlansListed(Message, frozen=True):
    """All deployed plans; `revision` grows with every change."""

    TYPE = "plans-listed"
    revision: int
    plans: tuple[DeployedPlan, ...]


# ---- driver ---------------------------------------------------------------------------------------------------------

RunState = Literal["waiting", "starting", "running", "restarting", "failed", "stopping"]


CheckpointState = Literal["taking", "complete", "failed", "abandoned"]
CheckpointTrigger = Literal["interval", "savepoint", "last"]
"""Why a checkpoint is taken: it was time, somebody asked for a savepoint, or its topology is to end."""


class CheckpointReport(msgspec.Struct, frozen=True):
    """One checkpoint of a topology, begun at `began_ms` (time of day). `stored_bytes` of its `size_bytes` were new;
    `alignment_ms` is the longest that an instance waited for markers. `name` is that of a savepoint, else empty. A
    task or the store has `failed`, or it was `abandoned`, since time was up or its topology ended: `error` says
    why. `acknowledged` of `tasks` tasks have done their part."""

    checkpoint: int
    state: CheckpointState
    began_ms: int
    duration_ms: int = 0
    size_bytes: int = 0
    stored_bytes: int = 0
    alignment_ms: int = 0
    name: str = ""
    error: str = ""
    trigger: CheckpointTrigger = "interval"
    tasks: int = 0
    acknowledged: int = 0


class SavepointReport(msgspec.Struct, frozen=True):
    """A savepoint that is kept, or that was asked for and is not there yet, or `failed` for the reason `error`; of one
    that is kept this says why it could not be deleted."""

    key: PlanKey
    name: str
    state: Literal["taking", "stored", "failed"]
    checkpoint: int = 0
    taken_ms: int = 0
    size_bytes: int = 0
    error: str = ""


class TopologyReport(msgspec.Struct, frozen=True):
    """How the driver sees one topology; `reason` says why it waits, restarts or failed. `restarts` is also the attempt
    that runs now, `spans` which results stand (the newest attempts alone), `checkpoints` the newest, oldest first.
    `begun_from` is the checkpoint that it began from, 0 when without state; `failed_checkpoints` came to nothing.
    `failures` are what ended topologies of the plan under this driver."""

    key: PlanKey
    epoch: int
    state: RunState
    reason: str = ""
    restarts: int = 0
    spans: tuple[CheckpointSpan, ...] = ()
    checkpoints: tuple[CheckpointReport, ...] = ()
    begun_from: int = 0
    failed_checkpoints: int = 0
    failures: tuple[ErrorRecord, ...] = ()


class CheckpointSettings(msgspec.Struct, frozen=True):
    """How the driver takes checkpoints: every `interval_ms` (0: only when somebody asks), `pause_ms` after the end of
    the last at the earliest, into the store at `location` (without passwords; empty: none are taken), which keeps the
    newest `retained` of each plan. One that takes `timeout_ms` is given up."""

    location: str
    interval_ms: int
    pause_ms: int
    timeout_ms: int
    retained: int


class ExecutorReport(msgspec.Struct, frozen=True):
    """An executor of the driver's that can be used, there since the time of day `since_ms`."""

    executor: str
    host: str
    slots: int
    since_ms: int


class RegisterDriver(Message, frozen=True):
    """The driver is alive; sent again (at once when a topology's state changes) it is the heartbeat. `started_ms` is
    the time of day at which its process started. `savepoints` are those of all plans, oldest first (the newest of them
    when there are very many)."""

    TYPE = "register-driver"
    driver: str
    host: str
    process_id: int
    master: str
    slots_total: int
    slots_free: int
    topologies: tuple[TopologyReport, ...] = ()
    web_url: str = ""
    started_ms: int = 0
    savepoints: tuple[SavepointReport, ...] = ()
    executors: tuple[ExecutorReport, ...] = ()
    checkpointing: CheckpointSettings | None = None
    insight: InsightAddress | None = None


class DriverRegistered(Message, frozen=True):
    """From now on the driver follows no order of a lower `token` than this. `managers` are all that are known, the
    leader first."""

    TYPE = "driver-registered"
    heartbeat_ms: int
    lease_ms: int
    token: int = 0
    managers: tuple[Endpoint, ...] = ()


class SubmitTopology(Message, frozen=True):
    """Manager to driver: run `query_plan` (XML) as the plan's topology, in `workers` tasks, under `epoch`; after those
    of older epochs have been ended, or, `beside` them, until the manager has one of both killed. It begins from the
    plan's newest checkpoint, or from the savepoint that `restore` names, or, if that is `none`, without state.

    Each task takes `cores` slots of one executor and may hold `memory_bytes` (0: as much as there is); the executors'
    hosts must bear `labels`. `token` is the one under which the manager leads."""

    TYPE = "submit-topology"
    key: PlanKey
    epoch: int
    query_plan: str
    workers: int
    beside: bool = False
    cores: Annotated[int, msgspec.Meta(ge=1)] = 1
    memory_bytes: Annotated[int, msgspec.Meta(ge=0)] = 0
    labels: tuple[str, ...] = ()
    restore: str = ""
    token: int = 0


class KillTopology(Message, frozen=True):
    """Manager to driver: end the plan's topology of `epoch`; 0: of any. `token` is the one under which the manager
    leads."""

    TYPE = "kill-topology"
    key: PlanKey
    epoch: int = 0
    drain: bool = False
    """A last checkpoint is taken first."""
    forget: int = 0
    """The plan's last epoch when it is not deployed any more: its checkpoints go. 0: they stay."""
    token: int = 0


# ---- links: events and their acknowledgements ------------------------------------------------------------------------


class StreamSchema(msgspec.Struct, frozen=True):
    """A stream that a link carries: attributes as (name, type) in definition order."""

    stream: str
    attributes: tuple[tuple[str, str], ...]


class OpenLink(Message, frozen=True):
    """`sender` wants to send events of `streams` to the peer. `key`, `epoch` and `attempt` are those of the plan's
    topology, or None and 0 between a client and a worker; then `tenant` says whose streams are meant. `log` is the
    identity of the log from which the sender can send again; empty when it has none."""

    TYPE = "open-link"
    sender: str
    streams: tuple[StreamSchema, ...]
    key: PlanKey | None = None
    epoch: int = 0
    tenant: int = SUPER_TENANT
    attempt: int = 0
    log: str = ""


class LinkOpened(Message, frozen=True):
    """At most `window_rows` rows may be under way, sent and not yet acknowledged (one frame always may). The server has
    taken the sender's log up to `position` already: what follows is wanted. `secures` says that it will tell with
    `secured` what may be forgotten; otherwise what is acknowledged may be."""

    TYPE = "link-opened"
    window_rows: int
    position: Position = 0
    secures: bool = False


class Data(Message, frozen=True):
    """A record batch of `stream` follows as the frame's body (Arrow IPC message without schema, `rows` rows).

    `sequence` counts a link's frames from 1. Later events of the link have timestamps of at least `watermark_ms`.
    `position` is that of the frame's last events in the sender's log; 0 when they are in none.
    """

    TYPE = "data"
    stream: str
    sequence: Sequence
    rows: Rows
    watermark_ms: Watermark
    epoch: int = 0
    position: Position = 0


class Secured(Message, frozen=True):
    """A checkpoint holds all up to `position` of the sender's log: it need never be sent again."""

    TYPE = "secured"
    position: Position


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
    `checkpoint` it is that checkpoint's marker and nothing else."""

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
