"""The Spark session of the driver process, and the barrier jobs that it runs."""

from __future__ import annotations

import logging
import os
import re
import sys
import threading
from functools import partial
from typing import Protocol

import msgspec
from pyspark import InheritableThread, SparkContext
from pyspark.sql import SparkSession

from cep_common.ids import PlanKey
from topology.spark.config import SparkConfig
from topology.spark.task import run_task
from topology.stages.settings import TaskAssignment

logger = logging.getLogger(__name__)


class Ended(Protocol):
    """Called when a job is over."""

    def __call__(self, reason: str, *, unfit: bool) -> None:
        """`unfit` says that the plan itself is at fault."""


BASE_CONF = {
    "spark.python.daemon.module": "topology.spark.daemon",
    "spark.python.worker.reuse": "true",
    "spark.task.maxFailures": "1",
    "spark.ui.showConsoleProgress": "false",
    "spark.ui.liveUpdate.period": "0ms",  # the status tracker must know at once that tasks have started
    "spark.scheduler.mode": "FIFO",
    "spark.log.level": "ERROR",
}


def start_session(config: SparkConfig, host: str) -> SparkSession:
    """A session on `config.master`, reachable by its executors at `host`."""
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    builder = SparkSession.builder.master(config.master).appName(config.application)
    conf = BASE_CONF | {"spark.driver.host": host, "spark.driver.bindAddress": host} | config.conf
    for key, value in conf.items():
        builder = builder.config(key, value)
    return builder.getOrCreate()


def warm_up(context: SparkContext) -> None:
    """Python runs on an executor once, so that the first topology need not wait for its start."""
    context.parallelize([0], 1).map(str).collect()


def slots_of(context: SparkContext, config: SparkConfig) -> int:
    """How many tasks can run at once: what the configuration says, else what Spark reports."""
    return config.slots or context.defaultParallelism


class TopologyJob:
    """The barrier job of one topology, in a thread of its own."""

    def __init__(self, context: SparkContext, key: PlanKey, assignment: TaskAssignment, ended: Ended) -> None:
        self._context = context
        self._assignment = assignment
        self._group = f"{key.topology()} epoch {assignment.epoch}"
        self._ended = ended
        self._cancelled = threading.Event()
        self._thread = InheritableThread(target=self._run, name=self._group, daemon=True)

    def start(self) -> None:
        """Submits the job; `ended` is called from its thread when it is over."""
        self._thread.start()

    def cancel(self) -> None:
        """Ends the job; its tasks are gone within a second. One that Spark does not know of yet goes on: when it turns
        out to run, cancel it again."""
        self._cancelled.set()
        self._context.cancelJobGroup(self._group)

    def is_running(self) -> bool:
        """True when all tasks have started."""
        tracker = self._context.statusTracker()
        for job in tracker.getJobIdsForGroup(self._group):
            info = tracker.getJobInfo(job)
            for stage in info.stageIds if info is not None else ():
                stage_info = tracker.getStageInfo(stage)
                if stage_info is not None and stage_info.numActiveTasks == self._assignment.tasks:
                    return True
        return False

    def _run(self) -> None:
        tasks = self._assignment.tasks
        payload = msgspec.json.encode(self._assignment)
        try:
            self._context.setJobGroup(self._group, self._group, interruptOnCancel=True)
            rows = self._context.parallelize(range(tasks), tasks)
            answers = rows.barrier().mapPartitionsWithIndex(partial(run_task, payload)).collect()
            faults = [answer for answer in answers if answer]
            self._ended(faults[0] if faults else "the tasks stopped", unfit=bool(faults))
        except Exception as error:  # noqa: BLE001 - the border of the job's thread: whatever ended it, its slots are free
            reason = "cancelled" if self._cancelled.is_set() else readable_reason(str(error))
            self._ended(reason, unfit=False)


def readable_reason(text: str) -> str:
    """The line of Spark's error text that tells a person what happened."""
    python_errors: list[str] = re.findall(r"^(?:\w+\.)*\w*(?:Error|Exception): .+$", text, re.MULTILINE)
    own = [line for line in python_errors if not line.startswith(("py4j", "org.apache.spark", "java."))]
    if own:
        return own[-1]
    if "Python worker exited unexpectedly" in text or "crashed" in text:
        return "a stage process died"
    if "ExecutorLostFailure" in text or ("Executor" in text and "lost" in text):
        return "an executor was lost"
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[1][:300] if len(lines) > 1 else text[:300]
