"""A busy host: nothing that is well is taken for lost, and what is really killed is noticed soon.

`CEP_ACCEPTANCE=1` keeps 64 processes busy for five minutes (`BUSY_S` sets another time), else 8 for a few seconds.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator

import pytest
import requests
from busy_host import busy_processes, recalled, steps_to_lead
from late_plan import PLAN
from two_managers import ManagerPair

from cep_cli.plan_commands.plans import wait_until_connected

pytestmark = pytest.mark.spark

ACCEPTANCE = os.environ.get("CEP_ACCEPTANCE") == "1"
PROCESSES = 64 if ACCEPTANCE else 8
BUSY_S = float(os.environ.get("BUSY_S", "300" if ACCEPTANCE else "5"))
NOTICED_S = 4.0
EVERY_S = 0.1
TALLY = """\
@Plan:name('Tally')
@Import('Ticks:1.0.0') define stream Ticks (number long);
@Export('Tallies:1.0.0') define stream Tallies (number long, total long);
from Ticks#window.length(100) select number, sum(number) as total insert into Tallies;
"""


@pytest.fixture
def system(manager_pair: ManagerPair) -> Iterator[ManagerPair]:
    manager_pair.client.deploy(TALLY, replace=False)
    wait_until_connected(manager_pair.client, "Tally", 60)
    yield manager_pair
    manager_pair.client.undeploy("Tally", discard=True)


def _send_for(system: ManagerPair, seconds: float) -> int:
    """Send an event every now and then; return how many were accepted."""
    accepted, until_s = 0, time.monotonic() + seconds
    while time.monotonic() < until_s:
        answer = requests.post(f"{system.worker_http}/events/Ticks", json={"number": accepted}, timeout=30)
        assert answer.status_code == 202, answer.text
        accepted += 1
        time.sleep(EVERY_S)
    return accepted


def test_a_busy_host_makes_nobody_lost_and_hides_nobody_that_is(system: ManagerPair) -> None:
    recalled_before, led_before = len(recalled(system)), steps_to_lead(system)
    with busy_processes(PROCESSES):
        assert _send_for(system, BUSY_S) > 0
        assert recalled(system)[recalled_before:] == []
        assert steps_to_lead(system) == led_before
        assert "driver lost" not in system.log("one") + system.log("two")

        stage = next(task for task in system.client.cluster()["tasks"] if task["plan"] == PLAN)
        os.kill(stage["process_id"], signal.SIGKILL)
        noticed_s = system.until(lambda: recalled(system)[recalled_before:], 60)[1]

        leader = system.leader()
        system.signal_manager(leader, signal.SIGKILL)
        replaced_s = system.until(lambda: steps_to_lead(system) > led_before, 60)[1]
    system.start_manager(leader)
    assert noticed_s < NOTICED_S
    assert replaced_s < NOTICED_S
