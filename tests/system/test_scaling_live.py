"""A stage with parallel='auto' follows a short ramp of load on real processes: no event is lost or counted twice."""

from __future__ import annotations

import json
import os
import time
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from click.testing import CliRunner
from late_plan import CONNECT_TIMEOUT_S
from test_edit_live import PLAN, SETTLED_S, Posts, hook
from web_hook import WebHook

from cep_cli.main import main
from cep_cli.plan_commands.plans import wait_until_connected
from cep_cli.system.local_system import LocalSystem, Ports

__all__ = ["hook"]  # a fixture

pytestmark = [pytest.mark.spark, pytest.mark.cluster]

KEYS = 8
TEXT = f"""\
@Plan:name('{PLAN}')
@Import('Numbers:1.0.0') define stream Numbers (number long);
@sink(type='http', publisher.url='http://127.0.0.1:PORT/', batch.rows='5000')
@Export('Passed:1.0.0') define stream Passed (number long);

@info(name='perKey') @dist(execGroup='perKey', parallel='auto', min='1', max='2')
partition with (number % {KEYS} of Numbers) begin
  from Numbers#window.length(1000000) select number % {KEYS} + {KEYS} * count() as number insert into Passed;
end;
"""
SLOW_S = 2.0
QUICK = {
    "INTERVAL_MS": "500",
    "GROW_ABOVE": "0.03",
    "TARGET": "0.02",
    "GROW_AFTER_MS": "3000",
    "SHRINK_AFTER_MS": "8000",
    "REST_MS": "5000",
}
"""So that what one client posts is a load, and the test is short."""


@pytest.fixture
def scaling_system(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalSystem]:
    settings = {f"CEP_MANAGER__SCALING__{key}": value for key, value in QUICK.items()}
    folder = tmp_path_factory.mktemp("scaling")
    with LocalSystem(folder, Ports.free(), environment={**os.environ, **settings}) as started:
        yield started


def until(system: LocalSystem, wanted: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
    """What `cep scaling` says, as soon as it is as `wanted` and no change is under way."""
    deadline = time.monotonic() + SETTLED_S
    while True:
        found: dict[str, Any] = system.client.scaling(PLAN)
        if wanted(found) and not system.client.plan(PLAN)["status"]["topology"]["change"]:
            return found
        assert time.monotonic() < deadline, json.dumps(found)
        time.sleep(0.2)


def instances(number: int) -> Callable[[dict[str, Any]], bool]:
    return lambda found: found["stages"][0]["instances"] == number


def test_instances_follow_the_load_up_and_down_and_every_event_is_counted_once(
    scaling_system: LocalSystem, hook: WebHook
) -> None:
    system = scaling_system
    system.client.deploy(TEXT.replace("PORT", str(hook.server.server_port)), replace=False)
    wait_until_connected(system.client, PLAN, CONNECT_TIMEOUT_S)
    with Posts(system) as posts:
        posts.pause_s = SLOW_S
        assert instances(1)(system.client.scaling(PLAN))
        posts.pause_s = 0.0
        until(system, instances(2))
        tasks = [task["task"] for task in system.client.cluster()["tasks"] if task["plan"] == PLAN and task["live"]]
        assert sorted(tasks) == [0, 1]
        posts.pause_s = SLOW_S
        found = until(system, instances(1))
    changes = [(one["instances_before"], one["instances_after"]) for one in reversed(found["history"])]
    assert changes == [(1, 2), (2, 1)]
    assert [one["problem"] for one in found["history"]] == ["", ""]
    assert system.client.plan(PLAN)["status"]["topology"]["state_left"] == []
    shown = CliRunner().invoke(main, ["scaling", PLAN, "--manager", system.client.url])
    assert "perKey: 1 of 1 to 2 instances" in shown.output
    assert "perKey 1 → 2: busiest instance" in shown.output

    expected: dict[int, int] = {}
    counted: Counter[int] = Counter()
    for number in posts.accepted:
        counted[number % KEYS] += 1
        expected[number % KEYS + KEYS * counted[number % KEYS]] = 1
    assert not posts.refused
    deadline = time.monotonic() + SETTLED_S
    while sum(hook.numbers.values()) < len(expected) and time.monotonic() < deadline:
        time.sleep(0.2)
    assert hook.numbers == expected
