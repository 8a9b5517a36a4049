"""Logs and configurations of real processes: manager, driver, worker, and a task that Spark started."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path
from typing import Any

import pytest
from late_plan import PLAN, deploy_late

from cep_cli.errors import CommandRefusedError
from cep_cli.system.local_system import LocalSystem

pytestmark = [pytest.mark.spark, pytest.mark.cluster]


def told(system: LocalSystem, process: str) -> str:
    return "\n".join(record["text"] for record in system.client.log(process)["records"])


def settings(system: LocalSystem, process: str) -> dict[str, Any]:
    return {one["key"]: one for one in system.client.configuration(process)["settings"]}


def stands_still(process_id: int) -> bool:
    """True once the signal has reached every thread."""
    threads = Path(f"/proc/{process_id}/task").glob("*/stat")
    states = [path.read_text().rpartition(")")[2].split()[0] for path in threads]
    return set(states) == {"T"}


def test_every_process_of_a_running_system_tells_its_log_and_its_configuration(system: LocalSystem) -> None:
    deploy_late(system)
    processes = {one["kind"]: one["id"] for one in system.client.processes()}

    assert processes.keys() == {"manager", "driver", "worker", "task"}
    assert all(one["readable"] for one in system.client.processes())
    assert f"plan deployed plan={PLAN}[-1234] " in told(system, processes["manager"])
    assert f"submitted: topology={PLAN}[-1234]" in told(system, processes["driver"])
    assert f"plan starts: plan={PLAN}[-1234] " in told(system, processes["worker"])
    found = system.client.search_logs(plan=PLAN)
    assert all(one["answered"] for one in found["answers"])
    assert processes["driver"] in {one["process"] for one in found["records"]}

    port = settings(system, processes["manager"])["http.port"]
    assert (port["value"], port["origin"]) == (str(system.ports.console), "environment")
    assert port["where"] == "CEP_MANAGER__HTTP__PORT"
    assert settings(system, processes["task"])["managers"]["origin"] == "driver"
    assert settings(system, processes["driver"])["spark.master"]["meaning"]


def test_a_process_that_hangs_is_given_up_in_time_and_holds_up_nobody(system: LocalSystem) -> None:
    os.kill(system.pid("worker"), signal.SIGSTOP)
    try:
        while not stands_still(system.pid("worker")):
            time.sleep(0.01)
        began = time.monotonic()
        with pytest.raises(CommandRefusedError, match=r"did not answer at .* within 2 s \[process-silent\]"):
            system.client.log("worker:worker-1")
        found = system.client.search_logs(level="INFO")
        took_s = time.monotonic() - began
    finally:
        os.kill(system.pid("worker"), signal.SIGCONT)
    assert took_s < 3.9, "the search does not wait for its 2 s, too"
    assert [one["process"]["id"] for one in found["answers"] if not one["answered"]] == ["worker:worker-1"]
    assert found["records"]
