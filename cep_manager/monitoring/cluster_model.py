"""The processes of the system as REST and console show them.

REST returns these structs as JSON unchanged. Times of day are milliseconds since 1970, durations milliseconds.
"""

from __future__ import annotations

from typing import Literal

import msgspec

from cep_common.ids import Endpoint
from cep_common.protocol.drivers import RunState
from cep_manager.control.snapshot import ClusterSnapshot
from cep_manager.election.messages import LeaderChange
from cep_manager.monitoring.metric_tables.writer import MetricTablesView
from cep_manager.plans.folder import FileProblem


class DriverTopology(msgspec.Struct, frozen=True):
    """A topology as the driver reports it; `wanted` is False for one that is about to be ended."""

    plan: str
    tenant: int
    epoch: int
    state: RunState
    reason: str
    restarts: int
    wanted: bool


class StageHostView(msgspec.Struct, frozen=True):
    """A stage host: a process of `tenant` in which `plans` plans run, with its own slot."""

    name: str
    tenant: int
    state: str
    plans: int
    host: str
    process_id: int
    memory_bytes: int
    cpu_ms: int
    up_ms: int


class DriverView(msgspec.Struct, frozen=True):
    """The driver that was heard last; `live` is False once it is silent."""

    driver: str
    host: str
    process_id: int
    master: str
    slots_total: int
    slots_free: int
    web_url: str
    live: bool
    up_ms: int
    silent_ms: int
    topologies: tuple[DriverTopology, ...]
    stage_hosts: tuple[StageHostView, ...] = ()


class WorkerView(msgspec.Struct, frozen=True):
    """A worker that lives; `plans` are the topologies that it serves."""

    worker: str
    host: str
    process_id: int
    http_address: str
    ingress: Endpoint | None
    egress: Endpoint | None
    synchronised: bool
    up_ms: int
    silent_ms: int
    plans: tuple[str, ...]


class TaskView(msgspec.Struct, frozen=True):
    """A task of a topology, with the stage instances that run in it."""

    plan: str
    tenant: int
    epoch: int
    task: int
    host: str
    process_id: int
    live: bool
    up_ms: int
    silent_ms: int
    instances: tuple[str, ...]


class EndpointView(msgspec.Struct, frozen=True):
    """A registered endpoint; `connections` counts links that are connected or were just assigned.

    Where a process listens at one port for all of its plans, `channel` distinguishes them.
    """

    role: str
    plan: str
    tenant: int
    epoch: int
    instance: str
    host: str
    port: int
    live: bool
    connections: int
    silent_ms: int
    channel: str = ""


class ManagerInfo(msgspec.Struct, frozen=True):
    """The manager process itself. `insecure`: it accepts connections from anywhere without keys or tokens."""

    host: str
    control_port: int
    process_id: int
    up_ms: int
    version: str
    python: str
    database: str
    lease_ms: int
    heartbeat_ms: int
    insecure: bool = False
    database_problem: str = ""
    """The database is not what it was: another one, or an older one. Told until a person removes the note beside it."""


ManagerRole = Literal["leader", "standby", "silent"]


class ManagerMember(msgspec.Struct, frozen=True):
    """One of the managers that share the database.

    A leader leads under `token` since `since_ms` (time of day); for the others both are 0. `asked` is the one that
    answers the request.
    """

    control: Endpoint
    http_address: str
    role: ManagerRole
    asked: bool
    token: int
    since_ms: int
    silent_ms: int


class NodeView(msgspec.Struct, frozen=True):
    """One of two nodes that replicate each other's accepted events (`cep node`).

    `in_sync`: it has every acknowledged event, and may become active; it is so since `changed_ms` (time of day). The
    worker's status is known only for the node that is `asked`: `protection` is the state of its mirror, `reason` why it
    is not `protected`, and `could_lose` how many accepted batches are on this node only. `under_way` is a command that
    it has not completed yet.
    """

    name: str
    group: str
    role: Literal["active", "passive", "away"]
    asked: bool
    http_address: str
    event_sync: Endpoint
    in_sync: bool
    changed_ms: int
    protection: str = ""
    protection_since_ms: int = 0
    reason: str = ""
    lag_ms: int = 0
    lag_bytes: int = 0
    could_lose: int = 0
    mirrored_bytes: int = 0
    under_way: str = ""


class NodeList(msgspec.Struct, frozen=True):
    """Both nodes; none where the system was not started with `cep node`."""

    nodes: tuple[NodeView, ...]


class ElectionView(msgspec.Struct, frozen=True):
    """The election as the web shows it.

    It says whether this manager leads, which manager leads (None: no manager at the moment), and lists all managers by
    address. `problem` says why the database cannot be reached; empty when it can. `changes` of leader are those that
    this manager has seen.
    """

    leads: bool
    leader: ManagerMember | None
    managers: tuple[ManagerMember, ...]
    problem: str = ""
    changes: tuple[LeaderChange, ...] = ()
    nodes: tuple[NodeView, ...] = ()


class Cluster(msgspec.Struct, frozen=True):
    """Everything that is alive.

    `driver` is None until one registers; `driver_missing` says why none can be asked. `file_problems` names the files
    of the watched folder whose text is not what runs.
    """

    manager: ManagerInfo
    driver: DriverView | None
    driver_missing: str
    workers: tuple[WorkerView, ...]
    tasks: tuple[TaskView, ...]
    endpoints: tuple[EndpointView, ...]
    file_problems: tuple[FileProblem, ...] = ()
    managers: tuple[ManagerMember, ...] = ()
    nodes: tuple[NodeView, ...] = ()
    metric_tables: MetricTablesView | None = None


class Overview(msgspec.Struct, frozen=True):
    """All that the manager knows at one moment, of all tenants.

    `now_ms` is the time of day; the times of `snapshot` are monotonic.
    """

    now_ms: int
    manager: ManagerInfo
    snapshot: ClusterSnapshot


class Health(msgspec.Struct, frozen=True):
    """`ok` is False when the control loop has not moved for a lease. One manager `leads`, the others are standbys."""

    ok: bool
    message: str
    loop_age_ms: int
    leads: bool = True
