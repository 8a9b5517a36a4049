"""What the manager's loop costs with many plans and stage hosts, without processes: which of it grows faster than they.

    .venv/bin/python -m benchmarks.manager_scale [--plans 1000,10000,100000] [--hosts 10,100,1000]

Fills the manager's control plane with plans that run in stage hosts, and measures the processor time of what it is
asked for: a look at all plans, heartbeats of hosts, of the driver and of workers, the start of one more plan, the
snapshot that readers get, and a page of the console's list. The messages are those of PROTOCOL.md, encoded and decoded.
The last column says how much each took for a plan more or less than at the size before: 1.0 grows with the plans.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from dataclasses import dataclass, field

import msgspec

from cep_common.ids import SUPER_TENANT, Endpoint, PlanKey
from cep_common.protocol.codec import decode, encode
from cep_common.protocol.drivers import RegisterDriver, StageHostReport, TopologyReport
from cep_common.protocol.registry import (
    InflowReport,
    Message,
    RegisterEndpoint,
    RegisterWorker,
    Rejected,
    RequestEndpoint,
    StreamBinding,
    WorkerPlanReport,
)
from cep_common.protocol.tasks import ComponentReport, RefreshedTask, RefreshTasks, RegisterTask, StreamCount
from cep_manager.config import QuotasConfig
from cep_manager.control.control_plane import ControlPlane
from cep_manager.monitoring.status import plan_status
from cep_manager.plans.compiled_plan import CompiledPlan, PlannedComponent
from cep_manager.plans.record import PlanToRun
from cep_manager.plans.stored_plan import StoredPlan

HEARTBEAT_MS, LEASE_MS = 1_000, 3_000
PAGE = 50
STREAM = StreamBinding("Readings", "many.readings:1.0.0", (("sensor", "string"), ("value", "double")))
ALERTS = StreamBinding("Alerts", "many.alerts:1.0.0", (("sensor", "string"), ("value", "double")))
COMPILED = CompiledPlan(
    name="Many",
    description="",
    query_plan="<plan>" + 2_000 * "." + "</plan>",
    state_shape="of one stage",
    components=(
        PlannedComponent("EventReceiver", "receiver", 1, ("Readings",), ("Readings",)),
        PlannedComponent("query", "processor", 1, ("Readings",), ("Alerts",)),
        PlannedComponent("EventPublisher", "publisher", 1, ("Alerts",), ("Alerts",)),
    ),
    imported=(STREAM,),
    exported=(ALERTS,),
)
COUNTED = (StreamCount("Readings", 1_000),)


@dataclass
class World:
    """A control plane with plans in stage hosts, and the peers that speak with it."""

    plans: int
    hosts: int
    now_ms: int = 0
    plane: ControlPlane = field(init=False)

    def __post_init__(self) -> None:
        self.plane = ControlPlane(
            HEARTBEAT_MS, LEASE_MS, default_workers=1, revision=1_000, quotas=QuotasConfig(), default_host="shared"
        )
        self.keys = [PlanKey(SUPER_TENANT, f"Many{number}") for number in range(self.plans)]
        for key in self.keys:
            self.put(key)
        self.reports = [TopologyReport(key, 1, "running") for key in self.keys]
        self.number = 1
        self.hear(self.driver())
        for number, key in enumerate(self.keys):
            self.begin(key, number)
            self.hear(RegisterEndpoint("worker", key, 1, "worker-1", Endpoint("10.0.0.3", 9_000, key.plan)))
        self.hear(self.worker(0, tuple(self.served(key) for key in self.keys)))
        self.plane.tick(self.now_ms)
        for host in range(self.hosts):
            self.hear(self.refresh(host, whole=True))
        self.plane.tick(self.now_ms)

    def put(self, key: PlanKey) -> None:
        stored = StoredPlan(key, "", 1, created_ms=1, updated_ms=1)
        self.plane.put_plan(PlanToRun(stored, COMPILED, sent_before=False), self.now_ms)

    def hear(self, message: Message) -> None:
        """Have the manager take the message. Raises ValueError when it refuses it: that would cost something else."""
        answer, _ = self.plane.handle(b"peer", decode(encode(message)).message, self.now_ms)
        if isinstance(answer, Rejected) or getattr(answer, "again", ()) or not getattr(answer, "known", True):
            raise ValueError(f"the manager refuses {message.TYPE}: {str(answer)[:200]}")

    def begin(self, key: PlanKey, number: int) -> None:
        """Have the one task of a plan register, and its receiver."""
        for message in self.beginning(key, number):
            self.hear(message)

    def beginning(self, key: PlanKey, number: int) -> list[Message]:
        return [
            self.task(key, number),
            RegisterEndpoint("receiver", key, 1, "EventReceiver#0", Endpoint("10.0.0.2", 9_000, key.plan)),
            RequestEndpoint("receiver", key, 1, "worker-1", "10.0.0.3", "Readings"),
        ]

    def task(self, key: PlanKey, number: int) -> RegisterTask:
        components = (
            ComponentReport("EventReceiver#0", "EventReceiver", "receiver", (), COUNTED, COUNTED),
            ComponentReport("query#0", "query", "processor", (), COUNTED, ()),
            ComponentReport("EventPublisher#0", "EventPublisher", "publisher", (), (), ()),
        )
        host = f"host-{number % self.hosts}"
        return RegisterTask(key, 1, 0, "10.0.0.2", 200 + number % self.hosts, components, stage_host=host)

    def refresh(self, host: int, *, whole: bool = False) -> RefreshTasks:
        tasks = tuple(RefreshedTask(key, 1, 0, 0) for key in self.keys[host :: self.hosts]) if whole else ()
        return RefreshTasks(f"host-{host}", 1, tasks)

    def driver(self, *, whole: bool = True) -> RegisterDriver:
        hosts = tuple(
            StageHostReport(f"host-{one}", SUPER_TENANT, "up", self.plans // self.hosts, "10.0.0.2", 200 + one, 1, 1, 1)
            for one in range(self.hosts)
        )
        return RegisterDriver(
            "driver", "10.0.0.1", 100, "local[4]", 8, 0, tuple(self.reports) if whole else (), stage_hosts=hosts,
            number=self.number, whole=whole,
        )  # fmt: skip

    def change_one(self) -> RegisterDriver:
        """Return the driver's incremental registration after one topology of all has changed."""
        self.number += 1
        last = self.reports[-1]
        self.reports[-1] = TopologyReport(last.key, 1, "running", begun_from=self.number)
        return msgspec.structs.replace(self.driver(whole=False), topologies=(self.reports[-1],), base=self.number - 1)

    def served(self, key: PlanKey) -> WorkerPlanReport:
        return WorkerPlanReport(
            key, 1, (InflowReport("Readings", connected=True, sent_events=1_000, waiting_events=0),)
        )

    def worker(self, base: int, plans: tuple[WorkerPlanReport, ...] = ()) -> RegisterWorker:
        return RegisterWorker("worker-1", "10.0.0.3", 300, 1, plans, number=1, base=base)


Measure = tuple[str, float, int]
"""What was measured, its processor time in milliseconds, and the bytes of its message (0: none)."""


def measure(plans: int, hosts: int) -> list[Measure]:
    """Return what a manager with so many plans, in so many stage hosts, needs."""
    world = World(plans, hosts)
    plane, now_ms = world.plane, world.now_ms
    found: list[Measure] = []

    def time_of(what: str, do: Callable[[], object], message: Message | None = None, times: int = 3) -> None:
        taken = []
        for _ in range(times):
            since_s = time.process_time()
            do()
            taken.append(time.process_time() - since_s)
        found.append((what, 1000 * min(taken), sum(map(len, encode(message))) if message is not None else 0))

    def look() -> None:
        plane.news = True
        plane.tick(now_ms)

    time_of("tick without news", lambda: plane.tick(now_ms))
    time_of("look at all plans after news", look)
    beat = world.refresh(0)
    time_of("heartbeat of one stage host", lambda: world.hear(beat), world.refresh(0, whole=True))
    time_of("heartbeats of all stage hosts", lambda: [world.hear(world.refresh(one)) for one in range(hosts)])
    changed = world.change_one()
    world.hear(changed)
    time_of("driver, one topology changed", lambda: world.hear(world.change_one()), changed)
    quiet = world.driver(whole=False)
    time_of("driver, nothing changed", lambda: world.hear(quiet), quiet)
    idle = world.worker(1)
    time_of("worker, nothing changed", lambda: world.hear(idle), idle)
    key, number = world.keys[-1], plans - 1
    register = world.task(key, number)
    time_of("one task and its receiver begin", lambda: world.begin(key, number), register)
    more = PlanKey(SUPER_TENANT, "More")

    def one_more() -> None:
        world.put(more)
        plane.tick(now_ms)

    time_of("one more plan is submitted", one_more)
    time_of("snapshot for readers", lambda: plane.snapshot(now_ms))

    def page() -> None:
        snapshot = plane.snapshot(now_ms)
        for one in sorted(snapshot.plans)[:PAGE]:
            plan_status(snapshot, one)

    time_of(f"page of {PAGE} plans", page)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--plans", default="1000,10000,100000", help="sizes, smallest first")
    parser.add_argument("--hosts", default="10,100,1000", help="stage hosts, one number for each size")
    options = parser.parse_args()
    sizes = list(zip(map(int, options.plans.split(",")), map(int, options.hosts.split(",")), strict=True))
    before: dict[str, float] = {}
    former = 0
    for plans, hosts in sizes:
        print(f"\n{plans} plans in {hosts} stage hosts\n{'':<34}{'ms':>10}{'bytes':>12}{'growth':>9}")
        for what, taken_ms, size in measure(plans, hosts):
            growth = taken_ms / before[what] / (plans / former) if before.get(what) else 0.0
            print(f"{what:<34}{taken_ms:>10.2f}{size or '':>12}{f'{growth:.2f}' if growth else '':>9}", flush=True)
            before[what] = taken_ms
        former = plans


if __name__ == "__main__":
    main()
