"""How the driver gives jobs to Spark, without Spark."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest

from cep_common.ids import PlanKey
from cep_common.protocol.drivers import SubmitTopology
from topology.checkpoint.coordination.runs import RunId
from topology.checkpoint.coordination.service import RunOpened
from topology.driver.lifecycle import TopologyAction, TopologyRuns
from topology.spark.driver_side.driver import Driver

KEY = PlanKey(1, "p")
START_MS, ASKED_MS = 60_000, 150_000
RUN = RunId(KEY, 1, 0)


class FakeJob:
    started = False

    def start(self) -> None:
        self.started = True


def test_tasks_have_their_time_to_start_from_when_spark_has_their_job_however_long_the_store_was_asked() -> None:
    submission = SubmitTopology(KEY, 1, "<query-plan/>", 1)
    job = FakeJob()
    driver: Any = object.__new__(Driver)  # one with a session needs Spark
    driver._runs = runs = TopologyRuns((1,), 500, 4_000, START_MS)
    driver._opening, driver._jobs, driver._job = {RUN: submission}, {}, lambda *_: job
    runs.submit(submission)
    assert [one.action for one in runs.on_time(0)] == [TopologyAction.START_JOB]
    assert runs.on_time(ASKED_MS) == []
    driver._start(RunOpened(RUN), ASKED_MS)
    assert job.started
    assert runs.on_time(ASKED_MS + START_MS - 1) == []
    assert [one.action for one in runs.on_time(ASKED_MS + START_MS)] == [TopologyAction.CANCEL_JOB]


@pytest.mark.cluster
def test_a_driver_does_not_load_the_engine() -> None:
    """More than half of what its Python takes to start, and of its memory, would be what only executors need."""
    names = ("numba", "siddhi.engine.app_runtime")
    code = f"import sys, topology.spark.driver_side.driver; print([name for name in {names} if name in sys.modules])"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)  # noqa: S603 - ours
    assert found.stdout.strip() == "[]"
