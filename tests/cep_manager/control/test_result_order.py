"""Publishers of plans with exactly-once delivery wait for a worker that holds results which come first."""

from __future__ import annotations

import msgspec
import pytest
from manager_world import COMPILED, KEY, LEASE_MS, World, driver, plan, serves, topology, worker

from cep_common.ids import Endpoint
from cep_common.protocol.registry import (
    EndpointAssigned,
    RegisterEndpoint,
    RegisterWorker,
    Rejected,
    RequestEndpoint,
)
from cep_common.protocol.worker_reports import PreparedResultsReport
from cep_manager.control.result_order import RETURN_MS

PUBLISHER = "EventPublisher#0"
HOSTS = {"worker-1": "10.0.0.3", "worker-2": "10.0.0.4"}


def endpoint(name: str) -> RegisterEndpoint:
    return RegisterEndpoint("worker", KEY, 1, name, Endpoint(HOSTS[name], 16_000))


def ask(host: str, attempt: int = 0, former: str = "") -> RequestEndpoint:
    return RequestEndpoint("worker", KEY, 1, PUBLISHER, host, attempt=attempt, former=former)


def report(name: str, results: int = 0, linked: bool = False, process_id: int = 300) -> RegisterWorker:
    of_plan = msgspec.structs.replace(serves(linked=linked), prepared=PreparedResultsReport(results, results, 0))
    return worker(of_plan, name=name, process_id=process_id)


def running(delivery: str = "exactly-once") -> World:
    """Two workers serve the plan, and the publisher was assigned to the first, which holds results."""
    world = World()
    world.put(plan(compiled=msgspec.structs.replace(COMPILED, delivery=delivery)))
    world.hear(driver(topology("running")), report("worker-1"), report("worker-2"))
    world.hear(endpoint("worker-1"), endpoint("worker-2"))
    assert assigned(world, ask(HOSTS["worker-1"])) == "worker-1"
    world.hear(report("worker-1", results=5, linked=True))
    return world


def assigned(world: World, message: RequestEndpoint) -> str:
    answer = world.hear(message)
    return answer.instance if isinstance(answer, EndpointAssigned) else ""


def let_pass(world: World, time_ms: int) -> None:
    """Time in which only the second worker is heard of."""
    for _ in range(0, time_ms, LEASE_MS // 2):
        world.now_ms += LEASE_MS // 2
        world.hear(report("worker-2"), endpoint("worker-2"))


@pytest.mark.parametrize("former", ["", "worker-1"])
def test_a_publisher_waits_for_the_worker_that_has_its_results(former: str) -> None:
    world = running()
    let_pass(world, 2 * LEASE_MS)
    answer = world.hear(ask(HOSTS["worker-2"], attempt=1, former=former))
    assert isinstance(answer, Rejected)
    assert "worker worker-1 has results of Storms" in answer.reason
    let_pass(world, RETURN_MS - 2 * LEASE_MS)
    assert assigned(world, ask(HOSTS["worker-2"], attempt=1, former=former)) == "worker-2"


def test_a_worker_that_returns_gets_the_publisher_wherever_its_task_runs_now() -> None:
    world = running()
    let_pass(world, 2 * LEASE_MS)
    world.hear(worker(name="worker-1", process_id=301))
    assert isinstance(world.hear(ask(HOSTS["worker-2"], attempt=1)), Rejected), "it has not read what is on its disk"
    world.hear(report("worker-1", results=4, process_id=301))
    assert assigned(world, ask(HOSTS["worker-2"], attempt=1)) == "worker-1"
    world.hear(report("worker-1", process_id=301))
    assert assigned(world, ask(HOSTS["worker-2"], attempt=1)) == "worker-2", "all are delivered: the nearest will do"


def test_a_worker_that_does_not_serve_the_plan_any_more_is_not_waited_for_without_end() -> None:
    world = running()
    let_pass(world, 2 * LEASE_MS)
    for _ in range(0, RETURN_MS + LEASE_MS, LEASE_MS // 2):
        world.hear(msgspec.structs.replace(worker(name="worker-1", process_id=301), up_ms=world.now_ms))
        let_pass(world, LEASE_MS // 2)
    assert assigned(world, ask(HOSTS["worker-2"], attempt=1)) == "worker-2"


def test_nothing_waits_where_no_results_do() -> None:
    world = running()
    world.hear(report("worker-1"))
    let_pass(world, 2 * LEASE_MS)
    assert assigned(world, ask(HOSTS["worker-2"], attempt=1)) == "worker-2"
    other = running("at-least-once")
    let_pass(other, 2 * LEASE_MS)
    assert assigned(other, ask(HOSTS["worker-2"], attempt=1)) == "worker-2"


def test_another_manager_knows_it_from_the_workers_reports() -> None:
    world = World()
    world.put(plan(compiled=msgspec.structs.replace(COMPILED, delivery="exactly-once")))
    world.hear(driver(topology("running")), report("worker-1", results=5, linked=True), report("worker-2"))
    world.hear(endpoint("worker-2"))
    assert isinstance(world.hear(ask(HOSTS["worker-2"], attempt=1)), Rejected), "its endpoint is not registered"
    world.hear(endpoint("worker-1"))
    assert assigned(world, ask(HOSTS["worker-2"], attempt=1)) == "worker-1"


def test_a_plan_that_was_removed_is_forgotten() -> None:
    world = running()
    world.plane.remove_plan(KEY, world.now_ms)
    world.hear(worker(name="worker-1"), worker(name="worker-2"))
    world.put(plan(compiled=msgspec.structs.replace(COMPILED, delivery="exactly-once"), epoch=2))
    answer = world.hear(msgspec.structs.replace(ask(HOSTS["worker-2"]), epoch=2))
    assert isinstance(answer, Rejected)
    assert "no live worker" in answer.reason
