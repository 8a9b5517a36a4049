"""Many plans in few slots on real Spark: they share stage hosts, and what happens to one of them is its own."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator

import pytest
from driver_desk import Desk, driver_at_desk, lives

pytestmark = [pytest.mark.spark, pytest.mark.cluster]

PLANS = 12
SOON_S = 5.0
"""For what takes well under a second on a machine that does nothing else."""


@pytest.fixture(scope="module")
def desk(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Desk]:
    with driver_at_desk(tmp_path_factory.mktemp("hosts"), {"CEP_DRIVER__SPARK__MASTER": "local[3]"}) as desk:
        yield desk


def test_more_plans_than_slots_run_in_stage_hosts_and_survive_the_kill_of_one(desk: Desk) -> None:
    names = [f"Plan{number}" for number in range(PLANS)]
    for name in names:
        desk.submit(name, host="shared")
        desk.until(lambda name=name: desk.report(name))
    before = {name: desk.until_started(name)[0] for name in names}
    assert desk.latest is not None
    hosts = {one.process_id: one for one in desk.latest.stage_hosts}
    assert set(before.values()) == set(hosts)
    assert sum(one.plans for one in hosts.values()) == PLANS
    assert desk.latest.slots_free == desk.latest.slots_total - len(hosts), "the hosts hold slots, the plans none"

    desk.submit("Quick", host="shared")
    took_s = desk.until(lambda: desk.state("Quick") == "running")
    assert took_s < SOON_S

    desk.submit("Heavy")
    (heavy,) = desk.until_started("Heavy")
    assert heavy not in hosts, "a plan that asks for it has a task of its own"

    killed = before[names[0]]
    os.kill(killed, signal.SIGKILL)
    lost = [name for name in names if before[name] == killed]
    desk.until(lambda: all((one := desk.report(name)) and one.restarts == 1 for name in lost))
    for name in lost:
        assert killed not in desk.until_started(name)
    report = desk.report(names[0])
    assert report is not None
    assert [(one.code, one.process_id) for one in report.failures] == [("process-died", killed)]
    assert desk.processes("Heavy") == [heavy]

    desk.kill(names[1])
    desk.until(lambda: desk.state(names[1]) == "gone")
    assert all(desk.state(name) == "running" for name in (*names[2:], "Quick", "Heavy"))
    desk.clear()
    desk.until(lambda: desk.latest is not None and desk.latest.slots_free == 3)
    desk.until(lambda: not any(lives(process) for process in (*before.values(), heavy)))
