"""A worker of many plans asks for each of them, and sends its heartbeats meanwhile."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from cep_common.clock import ManualClock
from cep_common.errors import RequestRejectedError
from cep_common.ids import Endpoint, PlanKey
from cep_common.protocol.registry import EndpointRegistered, RegisterEndpoint, RequestEndpoint
from cep_worker.config import WorkerConfig
from cep_worker.coordination.control_loop import ControlLoop

REQUEST_MS = 50
PLANS = 100


class SlowManager:
    """Takes its time for each request, and has no receiver for any plan."""

    def __init__(self, clock: ManualClock) -> None:
        self.clock = clock
        self.beats_ms: list[int] = []
        self.asked = 0

    def register(self) -> bool:
        self.clock.advance(REQUEST_MS)
        self.beats_ms.append(self.clock.monotonic_ms())
        return True

    def request(self, message: object) -> object:
        self.clock.advance(REQUEST_MS)
        if isinstance(message, RequestEndpoint):
            self.asked += 1
        raise RequestRejectedError("no-endpoint", "ask again")

    def manager(self) -> Endpoint:
        return Endpoint("127.0.0.1", 1)


class Flows:
    """Plans of which no stream is connected."""

    def snapshots(self) -> tuple[Any, ...]:
        missing = (SimpleNamespace(stream="S", former=""),)
        return tuple(
            SimpleNamespace(
                report=SimpleNamespace(key=PlanKey(1, f"p{number}"), epoch=1, publishers=()),
                outflow=None,
                unconnected=missing,
            )
            for number in range(PLANS)
        )

    def parts(self) -> Any:
        return SimpleNamespace(leaving=False, connectors=(), listeners=(), orphans=())


def test_heartbeats_do_not_wait_for_the_requests_of_all_plans() -> None:
    clock, flows = ManualClock(), Flows()
    config = WorkerConfig()
    context: Any = None
    control: Any = flows
    loop: Any = ControlLoop(config, "w", context, clock, control)
    loop._client = manager = SlowManager(clock)
    loop._send_registration = manager.register
    loop._attend(clock.monotonic_ms())
    assert manager.asked == PLANS
    gaps = [later - sooner for sooner, later in zip(manager.beats_ms, manager.beats_ms[1:], strict=False)]
    assert len(gaps) >= PLANS * REQUEST_MS // config.registry.heartbeat_ms - 1
    assert max(gaps) <= config.registry.heartbeat_ms + 2 * REQUEST_MS


def test_what_the_manager_needs_again_is_heard_in_heartbeats_between_requests() -> None:
    config, clock = WorkerConfig(), ManualClock()
    context: Any = None
    flows: Any = Flows()
    loop: Any = ControlLoop(config, "w", context, clock, flows)
    reports = [snapshot.report for snapshot in flows.snapshots()]
    endpoint = Endpoint("127.0.0.1", 2)
    flows.snapshots = lambda: [SimpleNamespace(report=report, outflow=endpoint, unconnected=()) for report in reports]
    last = reports[-1].key
    loop._reported = {last: (1, endpoint, ())}
    registered: list[PlanKey] = []

    def request(message: Any) -> Any:
        assert isinstance(message, RegisterEndpoint)
        registered.append(message.key)
        return EndpointRegistered(config.registry.heartbeat_ms, 1_000)

    def beat() -> bool:
        loop._reported.pop(last, None)  # the answer names it
        return True

    loop._client, loop._send_registration = SimpleNamespace(request=request), beat
    loop._register_outflows()
    assert registered == [report.key for report in reports]
    loop._register_outflows()
    assert len(registered) == PLANS, "the manager knows all of them by now"
