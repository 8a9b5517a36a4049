"""A thousand plans on one machine: how soon they run, and what they cost while nothing happens.

    .venv/bin/python -m benchmarks.many_plans [--plans 1000] [--seed 1] [--idle-s 30] [--kill] [--json] [--folder F]

Deploys generated plans in the order of the seed, no two alike (60 % filters and windows, 30 % patterns, 10 % joins and
tables), as one rule set on a system of its own as `cep up` starts it. Prints the seconds until all of them are active
and connected, until one more plan is active, the memory that a plan takes and the processor time of all processes while
no event comes. With `--kill` a plan is moved to a process of its own and back, and a stage host, the driver and the
manager are killed, one after the other: prints the seconds until all plans are active and connected again. Ten more
plans get events all that time, and it prints how many of their results are missing or came twice.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks.many_ledger import Ledger, ledger_text
from cep_cli.system.local_system import LocalSystem, Ports
from cep_common.errors import CepError

POLL_S = 0.05
LIMIT_S = 600.0
SETTLE_S = 15.0
MORE = 5
LEDGER = 10
SEEN_S = 3.0
"""The time after a kill before which an active plan does not count as recovered: the kill may be undetected."""
TICKS_PER_S = os.sysconf("SC_CLK_TCK")
HEAD = """@Plan:name('{name}')
@Import('many.readings{n}:1.0.0') define stream Readings (sensor string, room int, value double, at long);
@Export('many.alerts{n}:1.0.0') define stream Alerts (sensor string, value double);
"""
BODIES = (
    "from Readings[value > {n}.5] select sensor, value insert into Alerts;",
    """from Readings[room == {n}]#window.length({w})
select sensor, avg(value) as value group by sensor insert into Alerts;""",
    "from Readings[value < -{n}.0]#window.lengthBatch({w}) select sensor, max(value) as value insert into Alerts;",
    "from Readings[sensor == 's{n}' and value > 3.0] select sensor, value * {w} as value insert into Alerts;",
    "from Readings#window.time({w} sec)[room > {n}] select sensor, sum(value) as value insert into Alerts;",
    """from Readings[value > {w}.0]#window.externalTime(at, {w} sec)
select sensor, min(value) as value insert into Alerts;""",
    """from every a=Readings[value > {n}.0] -> b=Readings[sensor == a.sensor and value > a.value] within {w} sec
select b.sensor as sensor, b.value as value insert into Alerts;""",
    """from every a=Readings[room == {n}], b=Readings[value > a.value]
select a.sensor as sensor, b.value as value insert into Alerts;""",
    """from every a=Readings[value < {n}.0]<2:4> -> b=Readings[value > {w}.0]
select b.sensor as sensor, b.value as value insert into Alerts;""",
    """define table Last (sensor string, value double);
from Readings[room != {n}] select sensor, value update or insert into Last on Last.sensor == sensor;
from Readings[value > {w}.0] join Last on Readings.sensor == Last.sensor
select Readings.sensor as sensor, Last.value as value insert into Alerts;""",
)


@dataclass(frozen=True, slots=True)
class ProcessUse:
    """What one process of the system uses: seconds of processor time so far, and private memory."""

    role: str
    cpu_s: float
    memory_bytes: int


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--plans", type=int, default=1_000)
    parser.add_argument("--seed", type=int, default=1, help="draws the order of the plans")
    parser.add_argument("--idle-s", type=float, default=30.0)
    parser.add_argument("--hold-s", type=float, default=0.0, help="leave the system running for so long, to look at it")
    parser.add_argument("--kill", action="store_true", help="move a plan, and kill a host, the driver and the manager")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--folder", type=Path, help="leave the plans and the system's folder, with its logs, in there")
    options = parser.parse_args()
    with ExitStack() as opened:
        folder = options.folder or Path(opened.enter_context(tempfile.TemporaryDirectory()))
        system = opened.enter_context(LocalSystem(folder / "system", Ports.free()))
        measures = measure(system, folder / "plans", options.plans, options.idle_s, options.seed)
        if not options.json:  # at once: a plan that does not come back after a kill ends the run
            show(measures)
        if options.kill:
            found = moves(system) | kills_with_ledger(system, measures["plans"])
            measures |= found
            if not options.json:
                show(found)
        if options.hold_s:
            print(json.dumps({**measures, "pids": pids(system)}), flush=True)
            time.sleep(options.hold_s)
    if options.json:
        print(json.dumps(measures))


def show(measures: dict[str, Any]) -> None:
    """Print what was measured, a line each."""
    for name, value in measures.items():
        print(f"{name:<28} {value}", flush=True)


def plan_text(name: str, number: int) -> str:
    """Return a plan that no other number has."""
    body = BODIES[number % len(BODIES)].format(n=number, w=2 + number % 50)
    return HEAD.format(name=name, n=number) + body + "\n"


def measure(system: LocalSystem, folder: Path, plans: int, idle_s: float, seed: int = 1) -> dict[str, Any]:
    """Deploy `plans` plans and return what they cost."""
    folder.mkdir(parents=True)
    for place, number in enumerate(random.Random(seed).sample(range(plans), plans)):
        (folder / f"many{place}.siddhiql").write_text(plan_text(f"Many{place}", number))
    system.client.deploy(plan_text("First", plans + MORE), replace=False)
    until_active(system, 1)
    time.sleep(3)
    before = by_role(processes(system))
    started = time.monotonic()
    command = [sys.executable, "-m", "cep_cli", "rules", "deploy", str(folder), "--manager", system.client.url]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)  # noqa: S603 - the project's own command
    accepted_s = time.monotonic() - started
    active_s, connected_s = until_active(system, plans + 1, started)
    more = [one_more(system, plans + number) for number in range(MORE)]
    time.sleep(SETTLE_S)
    idle, after = idle_cores(system, idle_s)
    grown = {role: after[role].memory_bytes - before[role].memory_bytes for role in after if role in before}
    return {
        "plans": plans + 1 + MORE,
        "accepted_s": round(accepted_s, 2),
        "active_s": round(active_s, 2),
        "connected_s": round(connected_s, 2),
        "one_more_active_ms": round(1000 * median(more)),
        "idle_core_percent": {role: round(100 * cores, 1) for role, cores in idle.items()},
        "idle_core_percent_in_all": round(100 * sum(idle.values()), 1),
        "memory_mib_of_a_plan": {role: round(size / plans / 2**20, 2) for role, size in grown.items()},
        "memory_mib_of_a_plan_in_all": round(
            (sum(one.memory_bytes for one in after.values()) - sum(one.memory_bytes for one in before.values()))
            / plans
            / 2**20,
            2,
        ),
        "stage_hosts": [one["plans"] for one in system.client.cluster()["driver"]["stage_hosts"]],
    }


def until_active(system: LocalSystem, plans: int, started: float | None = None) -> tuple[float, float]:
    """Return the seconds since `started` until so many plans were active, and connected."""
    started = time.monotonic() if started is None else started
    active_s = 0.0
    while True:
        system.watch()  # what was killed is started again
        try:
            found = [plan["status"] for plan in system.client.plans()]
        except CepError:  # the manager was killed
            found = []
        active = [one for one in found if one["topology"]["state"] == "active"]
        passed_s = time.monotonic() - started
        if len(active) == plans > 0:
            active_s = active_s or passed_s
            if all(one["connected"] for one in active):
                return active_s, passed_s
        if passed_s > LIMIT_S:
            states = Counter((one["topology"]["state"], one["topology"]["reason"][:80]) for one in found)
            raise SystemExit(f"not all {plans} plans run after {LIMIT_S:.0f} s: {states}")
        time.sleep(POLL_S * (1 + plans / 50))


def one_more(system: LocalSystem, number: int) -> float:
    """Return the seconds from deploying one more plan until it is active."""
    started = time.monotonic()
    system.client.deploy(plan_text(f"More{number}", number), replace=False)
    while system.client.plan(f"More{number}")["status"]["topology"]["state"] != "active":
        if time.monotonic() - started > LIMIT_S:
            raise SystemExit(f"More{number} is not active")
        time.sleep(0.005)
    return time.monotonic() - started


def moves(system: LocalSystem) -> dict[str, Any]:
    """Move a plan out of its stage host and back, and return the seconds that took."""
    taken = {}
    for host in ("own", "shared"):
        started = time.monotonic()
        system.client.act("First", "rebalance", host=host)
        while _topology(system, "First")["change"] or _topology(system, "First")["state"] != "active":
            if time.monotonic() - started > LIMIT_S:
                raise SystemExit(f"First did not move: {_topology(system, 'First')}")
            time.sleep(POLL_S)
        taken[f"moved_{host}_s"] = round(time.monotonic() - started, 2)
    return taken


def kills_with_ledger(system: LocalSystem, plans: int) -> dict[str, Any]:
    """Return what `kills` measures, and what came out meanwhile of plans that got events."""
    numbers = range(plans + MORE, plans + MORE + LEDGER)
    for number in numbers:
        system.client.deploy(ledger_text(number), replace=False)
    until_active(system, plans + LEDGER)
    with Ledger(system, numbers) as ledger:
        time.sleep(SEEN_S)
        taken = kills(system, plans + LEDGER)
        return taken | ledger.result()


def kills(system: LocalSystem, plans: int) -> dict[str, Any]:
    """Kill a stage host, the driver and the manager, and return the seconds until all plans ran again."""
    taken = {}
    for role in ("host", "driver", "manager"):
        hosts = system.client.cluster()["driver"]["stage_hosts"]
        pid = max(hosts, key=lambda host: host["plans"])["process_id"] if role == "host" else system.pid(role)
        started = time.monotonic()
        os.kill(pid, signal.SIGKILL)
        time.sleep(SEEN_S)
        taken[f"killed_{role}_s"] = round(until_active(system, plans, started)[1], 2)
        print(f"after the {role} was killed: {taken[f'killed_{role}_s']} s", file=sys.stderr, flush=True)
    return taken


def _topology(system: LocalSystem, plan: str) -> dict[str, Any]:
    topology: dict[str, Any] = system.client.plan(plan)["status"]["topology"]
    return topology


def idle_cores(system: LocalSystem, idle_s: float) -> tuple[dict[str, float], dict[str, ProcessUse]]:
    """Return the cores that each kind of process keeps busy while no event comes, and what they use then."""
    before, started = by_role(processes(system)), time.monotonic()
    time.sleep(idle_s)
    after, passed_s = by_role(processes(system)), time.monotonic() - started
    return {
        role: (one.cpu_s - (before[role].cpu_s if role in before else 0.0)) / passed_s for role, one in after.items()
    }, after


def pids(system: LocalSystem) -> dict[str, list[int]]:
    """Return the process ids of each kind of process."""
    found: dict[str, list[int]] = {}
    for role in ("manager", "driver", "worker"):
        for pid in [system.pid(role), *_descendants(system.pid(role))]:
            found.setdefault(_role_of(role, pid), []).append(pid)
    return found


def processes(system: LocalSystem) -> list[ProcessUse]:
    """Return all processes of the system."""
    found = []
    for role, of_role in pids(system).items():
        for pid in of_role:
            with contextlib.suppress(FileNotFoundError, ProcessLookupError):  # it has ended meanwhile
                found.append(_read(role, pid))
    return found


def by_role(found: list[ProcessUse]) -> dict[str, ProcessUse]:
    """Return the sum of what the processes of each kind use."""
    sums: dict[str, ProcessUse] = {}
    for one in found:
        had = sums.get(one.role, ProcessUse(one.role, 0.0, 0))
        sums[one.role] = ProcessUse(one.role, had.cpu_s + one.cpu_s, had.memory_bytes + one.memory_bytes)
    return sums


def _role_of(parent: str, pid: int) -> str:
    if parent != "driver":
        return parent
    command = Path(f"/proc/{pid}/cmdline").read_bytes()
    if b"java" in command.split(b"\0")[0]:
        return "jvm"
    return "hosts" if b"daemon" in command else "driver"


def _descendants(pid: int) -> list[int]:
    children: list[int] = []
    for task in Path(f"/proc/{pid}/task").iterdir():
        children += [int(one) for one in (task / "children").read_text().split()]
    return [one for child in children for one in (child, *_descendants(child))]


def _read(role: str, pid: int) -> ProcessUse:
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    rollup = Path(f"/proc/{pid}/smaps_rollup").read_text()
    private = [line for line in rollup.splitlines() if line.startswith("Private_")]
    size = sum(int(line.split()[1]) for line in private) * 1024
    return ProcessUse(role, (int(fields[11]) + int(fields[12])) / TICKS_PER_S, size)


if __name__ == "__main__":
    main()
