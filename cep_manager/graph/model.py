"""Data types of the live graph of a topology."""

from __future__ import annotations

from typing import Literal

import msgspec

from cep_common.protocol.tasks import StreamCount

NodeKind = Literal["source", "receiver", "trigger", "processor", "publisher", "sink"]
NodeState = Literal["live", "failing", "silent", "expected"]


class GraphNode(msgspec.Struct, frozen=True):
    """A stage instance, or a worker's end of a stream. `layer` counts from the sources (0) to the sinks.

    Counts are events since the node's process started, for a sink those that it has delivered; rates are events per
    second over the last seconds. A source or sink is `failing` when it does not work, `last_error` says why. `busy` is
    the share of time spent working, 0 to 1. `task` is -1 where there is none. `stream` is set at the ends; `connectors`
    are the types of the sources or sinks that the plan ties to it. `component` is a stage instance's stage, `capacity`
    the share of the last ten minutes that it spent working, `process_ms` the mean time that an event stayed then.
    """

    id: str
    kind: NodeKind
    label: str
    layer: int
    state: NodeState
    stream: str = ""
    host: str = ""
    task: int = -1
    process_id: int = 0
    received: int = 0
    emitted: int = 0
    received_per_second: float = 0.0
    emitted_per_second: float = 0.0
    waiting: int = 0
    dropped: int = 0
    busy: float = 0.0
    last_error: str = ""
    streams_received: tuple[StreamCount, ...] = ()
    streams_emitted: tuple[StreamCount, ...] = ()
    connectors: tuple[str, ...] = ()
    component: str = ""
    capacity: float = 0.0
    process_ms: float | None = None


class GraphEdge(msgspec.Struct, frozen=True):
    """Events of `stream` from one node to another.

    `events` is None if it cannot be derived from the counters of the ends, as several instances feed several others.
    `grouping` determines how the target's instances divide them. On a link between worker and topology, `under_way` of
    at most `window` events are not acknowledged; when the window is full, the sender waits.
    """

    source: str
    target: str
    stream: str
    connected: bool
    events: int | None = None
    events_per_second: float | None = None
    grouping: str = ""
    under_way: int = 0
    window: int = 0


class GraphConnection(msgspec.Struct, frozen=True):
    """An inflow or outflow connection: a worker, a stream or publisher instance, the other end (empty: none).

    `events` and their rate are None if unknown. `under_way` events of at most `window` are not acknowledged.
    """

    direction: Literal["inflow", "outflow"]
    worker: str
    host: str
    what: str
    peer: str
    connected: bool
    events: int | None
    waiting: int
    events_per_second: float | None = None
    under_way: int = 0
    window: int = 0


class TopologyGraph(msgspec.Struct, frozen=True):
    """All of a plan's topology at one moment.

    A stage with very many instances is cut to the first ones; `hidden_instances` is the number of omitted ones.
    """

    plan: str
    tenant: int
    epoch: int
    nodes: tuple[GraphNode, ...]
    edges: tuple[GraphEdge, ...]
    connections: tuple[GraphConnection, ...]
    hidden_instances: int = 0
