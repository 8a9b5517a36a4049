"""The content of a plan's page and of a stage's page. REST returns these structs unchanged.

Times of day are milliseconds since 1970, durations milliseconds; unknown values are None.
"""

from __future__ import annotations

from typing import Literal

import msgspec

from cep_common.protocol.registry import Delivery
from cep_common.protocol.tasks import ComponentKind, ComponentState, SampledEvent, SampleOrder
from cep_manager.graph.model import GraphConnection
from cep_manager.history.errors import ErrorGroup
from cep_manager.monitoring.status import PlanStatus
from cep_manager.plans.compiled_plan import PlannedQuery

WindowName = Literal["10m", "3h", "1d", "all"]
"""The windows that statistics are kept for."""


class StageError(msgspec.Struct, frozen=True):
    """The newest error of an instance: where and when. `recent`: less than half an hour ago."""

    text: str
    instance: str
    host: str
    task: int
    process_id: int
    at_ms: int
    age_ms: int
    recent: bool


class StageCounts(msgspec.Struct, frozen=True):
    """The work of a stage or of one instance in a window, and its current queues and state.

    `transferred` counts an emitted event once for each stage that takes it. `capacity` is the share of the last ten
    minutes that the busiest instance spent working. `execute_ms` is the mean processing time of an event, `process_ms`
    its mean time in the stage, at receivers until everything derived from it has left; percentiles are the receivers'
    alone. `queued` events, and the state's rows and bytes, are current values.
    """

    received: int = 0
    emitted: int = 0
    transferred: int = 0
    received_per_second: float = 0.0
    emitted_per_second: float = 0.0
    capacity: float = 0.0
    execute_ms: float | None = None
    process_ms: float | None = None
    p50_ms: float | None = None
    p95_ms: float | None = None
    p99_ms: float | None = None
    queued: int = 0
    state_rows: int = 0
    state_bytes: int = 0
    dropped: int = 0
    errors: int = 0
    last_error: StageError | None = None


class StageView(msgspec.Struct, frozen=True):
    """A stage: `executors` of its `tasks` instances live."""

    name: str
    kind: ComponentKind
    executors: int
    tasks: int
    counts: StageCounts


class WindowTotal(msgspec.Struct, frozen=True):
    """Totals of the topology in one window, of which `covered_ms` were counted: events received and events emitted."""

    window: WindowName
    covered_ms: int
    received: int
    emitted: int
    transferred: int
    dropped: int
    received_per_second: float
    emitted_per_second: float
    mean_ms: float | None
    p50_ms: float | None
    p95_ms: float | None
    p99_ms: float | None


class TaskPlace(msgspec.Struct, frozen=True):
    """A task of the topology, and what its process uses."""

    task: int
    host: str
    process_id: int
    live: bool
    up_ms: int
    memory_bytes: int
    cpu_ms: int
    instances: tuple[str, ...]


class LastCheckpoint(msgspec.Struct, frozen=True):
    """The newest checkpoint that is complete; begun at a time of day."""

    checkpoint: int
    began_ms: int
    duration_ms: int
    size_bytes: int


class TopologyHead(msgspec.Struct, frozen=True):
    """The head of a plan's page.

    `identifier` is the topology's id in Storm's form. `executors` of `tasks` instances live, in `places`.
    `restart_reason` says why it was last restarted, empty when it was not.
    """

    plan: str
    tenant: int
    topology: str
    identifier: str
    description: str
    epoch: int
    created_ms: int
    updated_ms: int
    up_ms: int
    status: PlanStatus
    delivery: Delivery
    workers: int
    executors: int
    tasks: int
    restart_reason: str
    last_checkpoint: LastCheckpoint | None
    savepoints: tuple[str, ...]
    places: tuple[TaskPlace, ...]
    samples: tuple[SampleOrder, ...]


class TopologyView(TopologyHead, frozen=True):
    """A plan's page: stages in one window, the whole topology in each, connections with workers."""

    window: WindowName
    windows: tuple[WindowTotal, ...]
    stages: tuple[StageView, ...]
    connections: tuple[GraphConnection, ...]


class HistogramBar(msgspec.Struct, frozen=True):
    """Events whose latency was at most `to_ms` (None: longer than all others) and more than that of the bar before."""

    to_ms: float | None
    events: int


class Instance(msgspec.Struct, frozen=True):
    """An instance of a stage; `expected` until a task has reported it, `silent` when its task is."""

    name: str
    state: Literal["live", "silent", "expected"]
    host: str
    task: int
    process_id: int
    up_ms: int
    counts: StageCounts
    held: tuple[ComponentState, ...] = ()


class StreamIn(msgspec.Struct, frozen=True):
    """A stream that the stage takes: from which stages or `event_stream`, and how its instances share it."""

    stream: str
    producers: tuple[str, ...]
    event_stream: str
    grouping: str
    received: int
    received_per_second: float


class StreamOut(msgspec.Struct, frozen=True):
    """A stream that the stage gives: to which stages or `event_stream`."""

    stream: str
    consumers: tuple[str, ...]
    event_stream: str
    emitted: int
    transferred: int
    emitted_per_second: float


class QueryWorkView(msgspec.Struct, frozen=True):
    """The work of a query since its tasks started, measured while statistics were at `detail`.

    `mean_us` is the mean time per event; `p50_ms` and `p99_ms` are percentiles of the time that a batch of events took.
    """

    query: str
    events: int
    busy_us: int
    mean_us: float | None
    p50_ms: float | None
    p99_ms: float | None


class ComponentView(msgspec.Struct, frozen=True):
    """A stage's page.

    `totals` are its metrics in each window; `errors` are by kind, newest first; `sampled` is what is being sampled,
    `seen` what was.
    """

    plan: str
    tenant: int
    topology: str
    epoch: int
    stage: StageView
    window: WindowName
    totals: tuple[tuple[WindowName, StageCounts], ...]
    instances: tuple[Instance, ...]
    inputs: tuple[StreamIn, ...]
    outputs: tuple[StreamOut, ...]
    errors: tuple[ErrorGroup, ...]
    queries: tuple[PlannedQuery, ...]
    work: tuple[QueryWorkView, ...]
    latencies: tuple[HistogramBar, ...]
    sampled: tuple[SampleOrder, ...]
    seen: tuple[SampledEvent, ...]
