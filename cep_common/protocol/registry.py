"""The base of all messages between processes, and the messages of the registry: endpoints and workers.

Other messages have their own modules (`message_types` lists all). `registry.md` and the pages beside it describe the
messages, `PROTOCOL.md` the conventions; a test compares them with the code.

Requests are verbs, answers past participles, a refusal is `rejected`. Times are milliseconds. Data frames carry Arrow
record batches behind their header; see `topology.events.frames`.
"""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

import msgspec

from cep_common.ids import Endpoint, InspectionAddress, PlanKey
from cep_common.protocol.error_records import ErrorRecord
from cep_common.protocol.worker_reports import (
    ConnectorReport,
    ListenerReport,
    OrphanReport,
    PreparedResultsReport,
    PublisherReport,
    WalReport,
)
from cep_common.reach.guard import Reach


class Message(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One message; `TYPE` is its name on the wire."""

    TYPE: ClassVar[str]


class Rejected(Message, frozen=True):
    """A refusal: `code` is stable, `reason` is for people.

    A manager that is not the leader names the `leader`, if it knows one.
    """

    TYPE = "rejected"
    code: str
    reason: str
    leader: Endpoint | None = None


# ---- registry: endpoints --------------------------------------------------------------------------------------------

Role = Literal["receiver", "worker"]


class RegisterEndpoint(Message, frozen=True):
    """Registers `endpoint`, at which `instance` accepts events of `plan`.

    A receiver stage accepts those of workers, a worker those of publisher stages. Sent again, the message is the
    heartbeat. `connections` names the peers linked to the endpoint now. `attempt` is how often the driver had restarted
    the topology; 0 for workers.
    """

    TYPE = "register-endpoint"
    role: Role
    key: PlanKey
    epoch: int
    instance: str
    endpoint: Endpoint
    connections: tuple[str, ...] = ()
    attempt: int = 0


class EndpointRegistered(Message, frozen=True):
    """Answers `RegisterEndpoint`: register again within `heartbeat_ms`; the registration expires after `lease_ms`."""

    TYPE = "endpoint-registered"
    heartbeat_ms: int
    lease_ms: int


class RequestEndpoint(Message, frozen=True):
    """Asks for an endpoint of `role` of the plan, for `requester` on `host`.

    A worker asks for a receiver (one connection for each imported `stream`), a publisher stage for a worker (`stream`
    is empty). `attempt` is that of the publisher's topology. `former` is the instance that the requester was linked
    to before in this epoch: it is chosen again while it is up.
    """

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
    """Answers `RequestEndpoint`: connect to `endpoint` of `instance`, started in the topology's `attempt`."""

    TYPE = "endpoint-assigned"
    endpoint: Endpoint
    instance: str
    attempt: int = 0


# ---- workers --------------------------------------------------------------------------------------------------------


class InflowReport(msgspec.Struct, frozen=True):
    """One inflow connection of a worker: an imported stream of a plan, and whether it is connected to a receiver.

    `in_flight_rows` were sent and are not acknowledged, of at most `window_rows`.
    """

    stream: str
    connected: bool
    sent_events: int = 0
    waiting_events: int = 0
    receiver: str = ""
    in_flight_rows: int = 0
    window_rows: int = 0


class OutflowReport(msgspec.Struct, frozen=True):
    """Events of one exported stream that a worker got from publisher stages.

    It counts those that sinks and listeners have delivered; `waiting_events` wait for these in memory, in addition to
    those that `PreparedResultsReport` counts.
    """

    stream: str
    received_events: int = 0
    delivered_events: int = 0
    waiting_events: int = 0


class WorkerPlanReport(msgspec.Struct, frozen=True):
    """The state of one plan at a worker.

    `publishers` are the publisher instances linked to its outflow service, described by `links`. `write_ahead_logs` is
    for plans that keep logs, `prepared` for exactly-once plans. `errors` are those of its sources, sinks and
    connections since the worker started. With `needs_epoch` the worker takes no results of the plan yet: its epoch was
    used before, by a database that was replaced, so the worker's data would be mistaken for the plan's. It does under
    that epoch, or a later one that its manager's database has counted; 0: it takes them. With `accepts_events` False no
    source accepts events for the plan any more.
    """

    key: PlanKey
    epoch: int
    inflow: tuple[InflowReport, ...] = ()
    outflow: tuple[OutflowReport, ...] = ()
    publishers: tuple[str, ...] = ()
    last_error: str = ""
    links: tuple[PublisherReport, ...] = ()
    write_ahead_logs: tuple[WalReport, ...] = ()
    prepared: PreparedResultsReport | None = None
    errors: tuple[ErrorRecord, ...] = ()
    needs_epoch: int = 0
    accepts_events: bool = True


class RegisterWorker(Message, frozen=True):
    """Registers a worker with the manager; sent again, it is the heartbeat.

    `revision` is the plan list that it works from. Its process holds `memory_bytes` of memory of its own and has used
    `cpu_ms` of processor time since it started, `up_ms` ago; `fsync` says how accepted events are written to disk.
    Only the first hundreds of `connectors` and `listeners` are sent. `system` is the identity of the system whose
    plans the worker serves, empty before it knows one, and `refused_system` that of the manager whose plans it
    refuses, empty when it refuses none. `identity` is drawn at random when the worker's folder is created, `instance`
    when its process starts; a folder that was copied or restored is a `copy_of` another identity's. `orphans` lists
    what is set aside on its disk, since its plan was missing. `number` is the version of the plan reports and
    increases when any of them changes. With a `base` above 0 the report is incremental: `plans` holds only the reports
    that changed since version `base`, and the set of plans and their order are unchanged.
    """

    TYPE = "register-worker"
    worker: str
    host: str
    process_id: int
    revision: int
    plans: tuple[WorkerPlanReport, ...] = ()
    http_address: str = ""
    ingress: Endpoint | None = None
    egress: Endpoint | None = None
    insight: InspectionAddress | None = None
    up_ms: int = 0
    memory_bytes: int = 0
    cpu_ms: int = 0
    fsync: str = ""
    leaving: bool = False
    connectors: tuple[ConnectorReport, ...] = ()
    listeners: tuple[ListenerReport, ...] = ()
    system: str = ""
    refused_system: str = ""
    identity: str = ""
    copy_of: str = ""
    instance: str = ""
    orphans: tuple[OrphanReport, ...] = ()
    reach: Reach | None = None
    number: int = 0
    base: int = 0


class CheckpointSpan(msgspec.Struct, frozen=True):
    """Says up to which checkpoint (`last`) results of the topology's attempt `attempt` of `epoch` are final.

    Once a later attempt has begun, results after it were undone. 0: none is final yet.
    """

    epoch: int
    attempt: int
    last: int


class PlanCheckpoints(msgspec.Struct, frozen=True):
    """Which results of a plan are final, by attempt, oldest first.

    The last span is that of the running attempt. `deployed_ms` says when the plan was first deployed (0: unknown):
    while an earlier plan of the same name is being stopped, there is one record for each.
    """

    key: PlanKey
    spans: tuple[CheckpointSpan, ...]
    deployed_ms: int = 0


class TenantLimit(msgspec.Struct, frozen=True):
    """The maximum rate at which a worker accepts events for the tenant's plans."""

    tenant: int
    events_per_s: Annotated[int, msgspec.Meta(ge=1)]


class WorkerRegistered(Message, frozen=True):
    """Answers `RegisterWorker`: `revision` is the manager's plan list, which a worker with another one requests.

    `limits` are this worker's share of what tenants may send; tenants without one may send any number of events.
    `checkpoints` is for plans whose results wait in workers for their checkpoint. `managers` are all known managers,
    the leader first. `system` is the identity of the managers' database: a worker that serves another system ignores
    the answer, unless a person has said that this one `adopts` it. The answer renews the registrations of the worker's
    endpoints, except for the plans at the positions `again` of its list: it must register those. `knows` is the version
    (`number`) of the plan reports that the manager now has. 0 in answer to an incremental report: the manager does not
    have its `base`; the worker ignores the other fields and at once sends a complete report.
    """

    TYPE = "worker-registered"
    heartbeat_ms: int
    revision: int
    limits: tuple[TenantLimit, ...] = ()
    checkpoints: tuple[PlanCheckpoints, ...] = ()
    managers: tuple[Endpoint, ...] = ()
    system: str = ""
    adopts: bool = False
    again: tuple[int, ...] = ()
    knows: int = 0


class StreamBinding(msgspec.Struct, frozen=True):
    """A stream of a plan that is imported or exported.

    `stream` is its id in the plan, `event_stream` its `name:version` outside. `attributes` are (name, type) in
    definition order.
    """

    stream: str
    event_stream: str
    attributes: tuple[tuple[str, str], ...]


class Connector(msgspec.Struct, frozen=True):
    """A source or sink of a stream, from `@source`/`@sink` in the plan: `type`, its options, and its mapper's.

    The planner creates one that `carries` events from one execution group to another: such a source is active even
    while the plan accepts no events from outside.
    """

    stream: str
    type: str
    options: dict[str, str]
    mapper: str
    mapper_options: dict[str, str]
    carries: bool = False


Delivery = Literal["at-least-once", "exactly-once", "at-most-once"]
"""The delivery guarantee of a plan, from `@Plan:delivery`."""


class DeployedPlan(msgspec.Struct, frozen=True):
    """What a worker must know about a deployed plan.

    While `intake` is False the worker takes no events for it, while `trace` is True it writes the plan's events to
    its log. `deployed_ms` is when it was first deployed: a plan of the same name with another time is another plan,
    which takes none of the events that workers have for the former one. `former_names` are those that the plan had
    before it was renamed, and that no plan has now.
    """

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
    former_names: tuple[str, ...] = ()


class ListPlans(Message, frozen=True):
    """Requests the list of deployed plans."""

    TYPE = "list-plans"


class RemovedPlan(msgspec.Struct, frozen=True):
    """A plan that a person has undeployed: the one of `key` that was deployed first at `deployed_ms`.

    If it is `drained`, all accepted events were processed before it was undeployed.
    """

    key: PlanKey
    deployed_ms: int
    drained: bool = False


class PlansListed(Message, frozen=True):
    """All deployed plans; `revision` grows with every change.

    Plans that are `kept` are deployed, too, but cannot run now: workers retain the events that they have accepted for
    them, and do nothing else. Workers may delete their data of plans that were `removed` on purpose. They set the data
    of any other plan aside: a plan that is missing is no order to delete its events. `system` is the identity of the
    managers' database, empty when it is not sent.
    """

    TYPE = "plans-listed"
    revision: int
    plans: tuple[DeployedPlan, ...]
    kept: tuple[PlanKey, ...] = ()
    removed: tuple[RemovedPlan, ...] = ()
    system: str = ""
