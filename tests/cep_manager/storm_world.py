"""A system that has run for twenty minutes, always the same, for tests of what is told of it."""

from __future__ import annotations

import msgspec
from manager_world import COMPILED, FakeView, World, driver, plan, receiver, serves, task, topology, worker

from cep_common.monitoring.latency import bucket
from cep_common.protocol.drivers import CheckpointReport, ExecutorReport, StageHostReport
from cep_common.protocol.tasks import ComponentReport, ComponentState, RegisterTask

PER_SECOND = 100
RUNS_S = 1_200
CREATED_MS = 1_767_225_600_000
NOW_MS = CREATED_MS + RUNS_S * 1_000
ID = "Storms-1234-1767225600"
QUERY_PLAN = """\
<query-plan name="Storms">
    <event-processor name="lateness"><input-streams><stream grouping="shuffle"/></input-streams></event-processor>
    <event-processor name="aircraft">
        <input-streams><stream grouping="global"/><stream grouping="global"/></input-streams>
    </event-processor>
    <event-processor name="storms"><input-streams><stream grouping="field(origin)"/></input-streams></event-processor>
</query-plan>
"""
SHOWN = msgspec.structs.replace(COMPILED, query_plan=QUERY_PLAN, memory_bytes=2**30)


def running_driver() -> object:
    executors = (
        ExecutorReport("0", "10.0.0.2", 2, CREATED_MS - 60_000),
        ExecutorReport("1", "10.0.0.9", 2, CREATED_MS + 600_000),
    )
    checkpoint = CheckpointReport(7, "complete", CREATED_MS + 500_000, 250, 20_000, 1_500, 10)
    running = msgspec.structs.replace(topology("running"), checkpoints=(checkpoint,), failed_checkpoints=2)
    hosts = (StageHostReport("driver-1-1", -1234, "up", 12, "10.0.0.2", 4_712, 190_000_000, 1_500, 60_000),)
    return msgspec.structs.replace(driver(running), executors=executors, stage_hosts=hosts)


def working_task(second: int) -> RegisterTask:
    """The plan's one task after so many seconds."""
    events = second * PER_SECOND
    seen = task(events=events)
    components = tuple(_worked(component, second) for component in seen.components)
    return msgspec.structs.replace(
        seen, components=components, up_ms=second * 1_000, memory_bytes=209_715_200, cpu_ms=second * 300
    )


def _worked(component: ComponentReport, second: int) -> ComponentReport:
    received = sum(one.events for one in component.received)
    worked = msgspec.structs.replace(component, bundles=second * 10, stay_ms=received * 2)
    match component.instance:
        case "EventReceiver#0":
            acked = ((bucket(2_000_000), received - received // 100), (bucket(40_000_000), received // 100))
            return msgspec.structs.replace(worked, latencies=acked, stay_ms=received * 3)
        case "lateness#0":
            return msgspec.structs.replace(worked, busy_ms=second * 120, dropped_events=second // 10)
        case "storms#0":
            held = (
                ComponentState("window", "Late", rows=12, bytes=4_096),
                ComponentState("strings", "all", rows=3, bytes=100),
            )
            at_ms = CREATED_MS + 900_000
            return msgspec.structs.replace(
                worked, held=held, errors=2, last_error="no such key: " + "x" * 300, last_error_ms=at_ms
            )
    return worked


def running_view() -> FakeView:
    """The view of a manager that has heard all of it."""
    world = World()
    world.put(plan(compiled=SHOWN))
    world.hear(driver(), peer=b"driver")
    for second in range(0, RUNS_S + 1, 10):
        world.now_ms = second * 1_000
        world.hear(running_driver(), peer=b"driver")
        world.hear(working_task(second), receiver(connections=("worker-1/Arrivals", "worker-1/Departures")))
        report = serves(events=second * PER_SECOND)
        world.hear(worker(report, revision=world.snapshot().revision))
    view = FakeView(world)
    view.now_ms = NOW_MS
    return view
