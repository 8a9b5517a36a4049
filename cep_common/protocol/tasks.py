"""The messages of a topology's tasks.

They carry reports, orders, and the transfer of state from one topology to another. `tasks.md` describes them.
"""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec

from cep_common.ids import Endpoint, InspectionAddress, PlanKey
from cep_common.protocol.error_records import ErrorRecord
from cep_common.protocol.registry import Message

ComponentKind = Literal["receiver", "processor", "trigger", "publisher"]

StatisticsLevel = Literal["off", "basic", "detail"]
"""What stages count in addition to errors and queues: nothing, events and latencies, or also the work of each query."""


class StreamCount(msgspec.Struct, frozen=True):
    """The number of events of one stream that an instance has received or emitted."""

    stream: str
    events: int


class ComponentState(msgspec.Struct, frozen=True):
    """The memory of one part of a running plan.

    `kind` is `query`, `window`, `table`, `aggregation`, `partition` or `strings`; `bytes` is an estimate.
    """

    kind: str
    name: str
    rows: int = 0
    groups: int = 0
    partial_matches: int = 0
    dropped_partial_matches: int = 0
    distinct_values: int = 0
    instances: int = 0
    bytes: int = 0


class QueryReport(msgspec.Struct, frozen=True):
    """What one query of a stage has processed since its task started, while the level was `detail`.

    `latencies` are the events by how long the query took for their batch, as in `ComponentReport`.
    """

    query: str
    events: int
    busy_us: int
    latencies: tuple[tuple[int, int], ...] = ()


class ComponentReport(msgspec.Struct, frozen=True):
    """Counters of one component instance since its task started.

    `peers` are the instances or workers that it sends to over an open link; `busy_ms` is the time spent working, on
    `bundles` of events; `stay_ms` is the sum of the times that events stayed; `held` is its present state.

    At receivers an event stays until all its results have reached a worker or a state, and `latencies` are the events
    by how long that took: the non-empty buckets of `cep_common.monitoring.latency` with their counts.
    """

    instance: str
    component: str
    kind: ComponentKind
    peers: tuple[str, ...] = ()
    received: tuple[StreamCount, ...] = ()
    emitted: tuple[StreamCount, ...] = ()
    dropped_events: int = 0
    queued_events: int = 0
    busy_ms: int = 0
    bundles: int = 0
    stay_ms: int = 0
    latencies: tuple[tuple[int, int], ...] = ()
    errors: int = 0
    last_error: str = ""
    last_error_ms: int = 0
    held: tuple[ComponentState, ...] = ()
    queries: tuple[QueryReport, ...] = ()
    failures: tuple[ErrorRecord, ...] = ()
    """The kinds of errors that `errors` counts."""
    late: tuple[StreamCount, ...] = ()
    """Late events, whether they were dropped or processed."""
    awaits: tuple[str, ...] = ()
    """What time waits for: under event time streams that have not had their first event, under the system clock
    senders whose waiting events must be processed first."""
    behind_ms: int = 0
    """The lag of processing time behind the time of day, under the system clock."""


class SampleOrder(msgspec.Struct, frozen=True):
    """Orders samples of the events that the instances of `component` process.

    About `percent` of a hundred events are reported, for `left_ms` more.
    """

    component: str
    percent: Annotated[float, msgspec.Meta(gt=0, le=100)]
    left_ms: int


class SampledEvent(msgspec.Struct, frozen=True):
    """An event of `stream` that `instance` received (`in`) or emitted (`out`) at the time of day `at_ms`.

    `event` is JSON, cut when it is long.
    """

    instance: str
    direction: Literal["in", "out"]
    stream: str
    at_ms: int
    event: str


TaskOrder = Literal["work", "stand-by", "pause", "give"]
StateTransfer = Literal["", "quiet", "given", "restored"]


class StateSource(msgspec.Struct, frozen=True):
    """The `endpoint` at which `instance` of the plan's topology of `epoch` transfers its state."""

    epoch: int
    instance: str
    endpoint: Endpoint


class RegisterTask(Message, frozen=True):
    """Registers a task of a topology with the manager, with its counters; sent again, it is the heartbeat.

    Its process holds `memory_bytes` of memory of its own, and has used `cpu_ms` of processor time since the task
    started, `up_ms` ago. `state_transfer` is its progress in transferring its state (at `state_endpoint`) to a topology
    that is to take over, or in fetching it. `attempt` is how often the driver had restarted the topology. `left`
    describes, for people, the parts of the restored state that its instances could not use. `samples` are events that
    were sampled since the last registration. The counters of `components` are `counted_ago_ms` old. A task in a
    `stage_host` shares its process with those of other plans: `cpu_ms` is its own, and `memory_bytes` its share, the
    process's memory divided by the number of tasks in it.
    """

    TYPE = "register-task"
    key: PlanKey
    epoch: int
    task: int
    host: str
    process_id: int
    components: tuple[ComponentReport, ...] = ()
    memory_bytes: int = 0
    cpu_ms: int = 0
    state_transfer: StateTransfer = ""
    state_endpoint: Endpoint | None = None
    attempt: int = 0
    left: tuple[str, ...] = ()
    up_ms: int = 0
    insight: InspectionAddress | None = None
    samples: tuple[SampledEvent, ...] = ()
    counted_ago_ms: Annotated[int, msgspec.Meta(ge=0)] = 0
    stage_host: str = ""


class TaskRegistered(Message, frozen=True):
    """Answers `RegisterTask`.

    `order` says what the task is to do: `stand-by` until it takes over from another topology, `work`, `pause` (accept
    no events, fire no timers) and then `give` its state. A task on standby fetches state from `sources`. `managers` are
    all known managers, the leader first. `statistics` is the level at which its stages count, `samples` what to sample
    now. Event time no longer waits for the first events of the streams `released`.
    """

    TYPE = "task-registered"
    heartbeat_ms: int
    lease_ms: int
    order: TaskOrder = "work"
    sources: tuple[StateSource, ...] = ()
    managers: tuple[Endpoint, ...] = ()
    statistics: StatisticsLevel = "basic"
    samples: tuple[SampleOrder, ...] = ()
    released: tuple[str, ...] = ()


class RefreshedTask(msgspec.Struct, frozen=True):
    """A registered task of a stage host."""

    key: PlanKey
    epoch: int
    task: int
    attempt: int


class RefreshTasks(Message, frozen=True):
    """The heartbeat of all tasks of `stage_host` that have not changed since they were registered.

    `version` counts the changes of which tasks these are; `tasks` names them, and is empty when the manager knows the
    version.
    """

    TYPE = "refresh-tasks"
    stage_host: str
    version: int
    tasks: tuple[RefreshedTask, ...] = ()


class TasksRefreshed(Message, frozen=True):
    """Answers `RefreshTasks`.

    The tasks at the positions `again` must register: the manager does not know their present state, or has an order for
    them. Unless `known`, the manager does not know the list of this `version`: then send `tasks`. `managers` are all
    known managers, the leader first.
    """

    TYPE = "tasks-refreshed"
    heartbeat_ms: int
    lease_ms: int
    known: bool = True
    again: tuple[int, ...] = ()
    managers: tuple[Endpoint, ...] = ()


class FetchState(Message, frozen=True):
    """Requests, from a standby task, the state of component instance `instance` of the plan's topology of `epoch`."""

    TYPE = "fetch-state"
    key: PlanKey
    epoch: int
    instance: str


class StateFetched(Message, frozen=True):
    """Answers `FetchState`; the state of `instance` follows in chunks, one body each."""

    TYPE = "state-fetched"
    instance: str
