"""Driver, workers and tasks as a manager sees them, without Spark: heartbeats and counters of fictitious events."""

from __future__ import annotations

import time
from multiprocessing.connection import Connection
from typing import Any

import zmq

from cep_common.ids import Endpoint, PlanKey
from cep_common.protocol.drivers import RegisterDriver, TopologyReport
from cep_common.protocol.registry import (
    InflowReport,
    Message,
    OutflowReport,
    RegisterEndpoint,
    RegisterWorker,
    WorkerPlanReport,
    WorkerRegistered,
)
from cep_common.protocol.tasks import ComponentReport, RegisterTask, StreamCount
from cep_common.sockets.transport import ControlClient

HEARTBEAT_S = 1.0
WORKERS = 3
RATE = 1_000
"""Events a second of each stage."""


class Peers:
    """One driver, `WORKERS` workers, and a task for each plan."""

    def __init__(self, manager: Endpoint, graphs: list[dict[str, Any]]) -> None:
        """`graphs` are the plans' topologies as the manager expects them."""
        self._context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
        self._clients = {
            name: ControlClient(self._context, [manager], timeout_ms=10_000)
            for name in ("driver", "tasks", *(f"worker-{number}" for number in range(WORKERS)))
        }
        self._graphs = graphs
        self._revision = 0
        self._begun = time.monotonic()
        self.waited_ms: list[float] = []

    def beat(self) -> None:
        """Everybody has beaten once; how long each was made to wait is noted."""
        events = int((time.monotonic() - self._begun) * RATE)
        topologies = tuple(TopologyReport(key_of(graph), graph["epoch"], "running") for graph in self._graphs)
        master = "local[64]"
        self._ask("driver", RegisterDriver("driver", "127.0.0.1", 1, master, 64, 14, topologies))
        for number, graph in enumerate(self._graphs):
            self._ask("tasks", _task(graph, number, events))
            for node in graph["nodes"]:
                if node["kind"] == "receiver":
                    self._ask("tasks", _receiver(graph, node["id"], number))
        plans = tuple(_served(graph, events) for graph in self._graphs)
        for number in range(WORKERS):
            name = f"worker-{number}"
            answer = self._ask(name, RegisterWorker(name, "127.0.0.1", 100 + number, self._revision, plans))
            if isinstance(answer, WorkerRegistered):
                self._revision = answer.revision

    def close(self) -> None:
        """Close all connections."""
        for client in self._clients.values():
            client.close()
        self._context.destroy(linger=0)

    def _ask(self, who: str, message: Message) -> Message:
        client = self._clients[who]
        client.pushed(0)
        asked = time.perf_counter()
        answer = client.request(message)
        self.waited_ms.append((time.perf_counter() - asked) * 1_000)
        return answer


def run_peers(manager: Endpoint, graphs: list[dict[str, Any]], boss: Connection) -> None:
    """Beats each second until told to end; whenever the boss says anything else it is sent the waits since then."""
    peers = Peers(manager, graphs)
    while True:
        begun = time.monotonic()
        peers.beat()
        if boss.poll(max(0.0, HEARTBEAT_S - (time.monotonic() - begun))):
            said = boss.recv()
            boss.send(peers.waited_ms)
            peers.waited_ms = []
            if said == "end":
                break
    peers.close()


def key_of(graph: dict[str, Any]) -> PlanKey:
    """Whose topology it is."""
    return PlanKey(graph["tenant"], graph["plan"])


def _task(graph: dict[str, Any], number: int, events: int) -> RegisterTask:
    edges = graph["edges"]
    stages = [node for node in graph["nodes"] if node["kind"] in ("receiver", "processor", "publisher")]
    components = tuple(
        ComponentReport(
            instance=node["id"],
            component=node["id"].partition("#")[0],
            kind=node["kind"],
            peers=tuple({edge["target"] for edge in edges if edge["source"] == node["id"]}),
            received=_counts({edge["stream"] for edge in edges if edge["target"] == node["id"]}, events),
            emitted=_counts({edge["stream"] for edge in edges if edge["source"] == node["id"]}, events // 2),
            busy_ms=events // 10,
            bundles=events // 100,
            stay_ms=events,
            latencies=((40, events // 2), (60, events // 3), (90, events // 6)),
        )
        for node in stages
    )
    return RegisterTask(key_of(graph), graph["epoch"], 0, "127.0.0.1", 1_000 + number, components)


def _counts(streams: set[str], events: int) -> tuple[StreamCount, ...]:
    return tuple(StreamCount(stream, events) for stream in sorted(streams))


def _receiver(graph: dict[str, Any], instance: str, number: int) -> RegisterEndpoint:
    endpoint = Endpoint("127.0.0.1", 20_000 + number)
    return RegisterEndpoint("receiver", key_of(graph), graph["epoch"], instance, endpoint)


def _served(graph: dict[str, Any], events: int) -> WorkerPlanReport:
    receiver = next(node["id"] for node in graph["nodes"] if node["kind"] == "receiver")
    publishers = tuple(node["id"] for node in graph["nodes"] if node["kind"] == "publisher")
    streams = {kind: {node["stream"] for node in graph["nodes"] if node["kind"] == kind} for kind in ("source", "sink")}
    return WorkerPlanReport(
        key=key_of(graph),
        epoch=graph["epoch"],
        inflow=tuple(InflowReport(stream, True, events, 0, receiver) for stream in sorted(streams["source"])),  # noqa: FBT003
        outflow=tuple(OutflowReport(stream, events // 2) for stream in sorted(streams["sink"])),
        publishers=publishers,
    )
