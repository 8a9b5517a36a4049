"""The Spark session of the driver process, and the barrier jobs that it runs."""

from __future__ import annotations

import os
import socket
import sys
import threading
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Protocol

import msgspec
from pyspark import InheritableThread, SparkContext
from pyspark.resource import ResourceProfileBuilder, TaskResourceRequests
from pyspark.sql import SparkSession

from cep_common.ids import PlanKey
from topology.spark.driver_side.config import SparkConfig
from topology.spark.driver_side.java_options import java_options
from topology.spark.executor_side.task_entry import run_host, run_task
from topology.spark.reasons import Ending, read_ending
from topology.stages.settings import HostAssignment, TaskAssignment

CANCELLED = Ending("cancelled")

BASE_CONF = {
    "spark.python.daemon.module": "topology.spark.executor_side.daemon",
    "spark.python.worker.reuse": "false",  # do not reuse Python workers, so that a topology leaves no memory behind
    "spark.python.task.killTimeout": "500ms",  # how soon a hung stage is killed after its job was cancelled
    "spark.task.maxFailures": "1",
    # The web page of Spark has no authentication: it is served only where `spark.conf` asks for it, and can then kill
    # nothing. The driver reads tasks and executors from Spark's status store, which needs no page.
    "spark.ui.enabled": "false",
    "spark.ui.killEnabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.ui.liveUpdate.period": "0ms",  # the status store must know at once of tasks and executors
    "spark.scheduler.mode": "FIFO",
    "spark.log.level": "ERROR",
    # A job that was admitted while an executor was being lost fails at once, and its topology waits where users see it.
    "spark.scheduler.barrier.maxConcurrentTasksCheck.maxFailures": "1",
    "spark.scheduler.barrier.maxConcurrentTasksCheck.interval": "1s",
}

HEARTBEATS_IN_LEASE = 10


def lease_conf(lease_ms: int) -> dict[str, str]:
    """Return the configuration by which executors and driver consider each other lost after `lease_ms` of silence.

    The driver then runs the topologies elsewhere, and the executor ends itself and its stages.
    """
    interval_ms = max(1, lease_ms // HEARTBEATS_IN_LEASE)
    return {
        "spark.executor.heartbeatInterval": f"{interval_ms}ms",
        # Each heartbeat that fails may take an interval itself, and is followed by another.
        "spark.executor.heartbeat.maxFailures": str(HEARTBEATS_IN_LEASE // 2),
        "spark.storage.blockManagerHeartbeatTimeoutMs": f"{lease_ms}ms",
        "spark.network.timeoutInterval": f"{2 * interval_ms}ms",
    }


def address_of(host: str) -> str:
    """Return the address of `host`, or `host` itself if its name is unknown, which Spark then reports."""
    try:
        return str(socket.getaddrinfo(host, None, proto=socket.IPPROTO_TCP)[0][4][0])
    except OSError:
        return host


def start_session(config: SparkConfig, host: str) -> SparkSession:
    """Start a session on `config.master`, reachable by its executors at `host`."""
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    # Spark's web page has no setting for its address: it listens where this variable says, and else on all addresses.
    os.environ.setdefault("SPARK_LOCAL_IP", address_of(host))
    builder = SparkSession.builder.master(config.master).appName(config.application)
    address = {"spark.driver.host": host, "spark.driver.bindAddress": host}
    java = {f"spark.{process}.extraJavaOptions": java_options() for process in ("driver", "executor")}
    conf = BASE_CONF | java | lease_conf(config.executor_lease_ms) | config.label_conf() | address | config.conf
    for key, value in conf.items():
        builder = builder.config(key, value)
    return builder.getOrCreate()


class SparkJob(Protocol):
    """The job that runs the tasks of one topology."""

    def start(self) -> None:
        """Start the tasks."""

    def cancel(self) -> None:
        """End the tasks."""

    def is_running(self) -> bool:
        """Return whether all tasks have started."""


class BarrierJob:
    """A barrier job, in a separate thread."""

    def __init__(
        self,
        context: SparkContext,
        group: str,
        body: Callable[[int, Iterable[object]], Iterator[None]],
        tasks: int,
        cores: int,
        hosts: Callable[[], dict[str, str]],
        ended: Callable[[Ending], None],
    ) -> None:
        """Create a job of which each of `tasks` tasks runs `body` in `cores` slots.

        `hosts` returns where executors are or were, by their ids; `ended` is called when the job is over.
        """
        self._context = context
        self._hosts = hosts
        self._body = body
        self._tasks = tasks
        self._cores = cores
        self._group = group
        self._ended = ended
        self._cancelled = threading.Event()
        self._thread = InheritableThread(target=self._run, name=group, daemon=True)

    def start(self) -> None:
        """Submit the job; `ended` is called from its thread when it is over."""
        self._thread.start()

    def cancel(self) -> None:
        """Cancel the job; its tasks end within a second.

        A job that Spark does not know yet continues: when it turns out to run, cancel it again.
        """
        self._cancelled.set()
        self._context.cancelJobGroup(self._group)

    def is_running(self) -> bool:
        """Return whether all tasks have started."""
        tracker = self._context.statusTracker()
        for job in tracker.getJobIdsForGroup(self._group):
            info = tracker.getJobInfo(job)
            for stage in info.stageIds if info is not None else ():
                stage_info = tracker.getStageInfo(stage)
                if stage_info is not None and stage_info.numActiveTasks == self._tasks:
                    return True
        return False

    def _run(self) -> None:
        tasks, cores = self._tasks, self._cores
        try:
            # not interrupted: Java's thread would then wait for Python's end in a busy loop
            self._context.setJobGroup(self._group, self._group, interruptOnCancel=False)
            rows = self._context.parallelize(range(tasks), tasks)
            if cores > 1 and not str(self._context.master).startswith("local"):
                # Local mode knows no profiles; there the driver's own count of slots is what keeps cores free.
                requests = TaskResourceRequests().cpus(cores)
                rows = rows.withResources(ResourceProfileBuilder().require(requests).build)
            rows.barrier().mapPartitionsWithIndex(self._body).collect()
            self._ended(Ending("the tasks stopped"))
        except Exception as error:  # noqa: BLE001 - the border of the job's thread: whatever ended it, its slots are free
            self._ended(CANCELLED if self._cancelled.is_set() else read_ending(str(error), self._hosts()))


class TopologyJob(BarrierJob):
    """The job of a topology with its own Spark tasks."""

    def __init__(
        self,
        context: SparkContext,
        key: PlanKey,
        assignment: TaskAssignment,
        hosts: Callable[[], dict[str, str]],
        ended: Callable[[Ending], None],
    ) -> None:
        group = f"{key.topology()} epoch {assignment.epoch} attempt {assignment.attempt}"
        body = partial(run_task, msgspec.json.encode(assignment))
        super().__init__(context, group, body, assignment.tasks, assignment.cores, hosts, ended)


class HostJob(BarrierJob):
    """The job of a stage host."""

    def __init__(
        self,
        context: SparkContext,
        assignment: HostAssignment,
        hosts: Callable[[], dict[str, str]],
        ended: Callable[[Ending], None],
    ) -> None:
        body = partial(run_host, msgspec.json.encode(assignment))
        super().__init__(context, f"stage host {assignment.host}", body, 1, 1, hosts, ended)
