"""A real standalone Spark cluster on this machine: one master and workers, started from the pyspark package."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

import pyspark
import requests

from topology.spark.driver_side.java_options import java_options

T = TypeVar("T")

START_TIMEOUT_S = 90.0
STOP_TIMEOUT_S = 10.0
POLL_S = 0.2
EXECUTORS = {"spark.executor.memory": "512m"}


@dataclass(frozen=True, slots=True)
class Host:
    """A machine, or what stands for one: its address, and what precedes a command that shall run there."""

    address: str = "127.0.0.1"
    prefix: tuple[str, ...] = ()


@dataclass
class StandaloneCluster:
    """Runs while its context is open; `url` is the master's, for `spark.master`."""

    folder: Path
    workers: int = 2
    cores_each: int = 1
    environment: Mapping[str, str] = field(default_factory=lambda: dict(os.environ))
    hosts: Sequence[Host] = (Host(),)
    """The master runs on the first of them, the workers on each in turn."""
    url: str = ""
    _processes: list[subprocess.Popen[bytes]] = field(default_factory=list)

    def __enter__(self) -> StandaloneCluster:
        try:
            log = self._start("master", self.hosts[0], "master.Master", "--port", "0", "--webui-port", "0")
            self.url = self._wait_for(lambda: _found(r"Starting Spark master at (spark://\S+)", log), log)
            console = self._wait_for(lambda: _found(r"Bound MasterWebUI .*, and started at (http://\S+)", log), log)
            for _ in range(self.workers):
                self.add_worker()
            self._wait_for(lambda: _alive_workers(console) == self.workers, log)
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def driver_settings(self, conf: Mapping[str, str] = EXECUTORS) -> dict[str, str]:
        """The environment in which a driver runs its topologies here, with the Spark settings `conf`."""
        return {"CEP_DRIVER__SPARK__MASTER": self.url, "CEP_DRIVER__SPARK__CONF": json.dumps(conf)}

    def add_worker(self, cores: int = 0) -> None:
        """One more worker is about to join, with as many cores as the others unless it is said."""
        number = len(self._processes)
        self._start(
            f"worker-{number}", self.hosts[(number - 1) % len(self.hosts)], "worker.Worker",
            "--port", "0", "--webui-port", "0", "--cores", str(cores or self.cores_each), "--memory", "1g",
            "--work-dir", str(self.folder / f"work-{number}"), self.url,
        )  # fmt: skip

    def kill_worker_of(self, process_id: int) -> None:
        """The worker under which this process runs has ended without warning."""
        workers = {process.pid: process for process in self._processes[1:]}
        while process_id not in workers:
            assert process_id > 1, "no worker has started this process"
            process_id = parent_of(process_id)
        workers[process_id].kill()
        workers[process_id].wait()

    def workers_without_python(self) -> set[int]:
        """The workers of which no executor has started Spark's Python daemon."""
        workers = {process.pid for process in self._processes[1:] if process.poll() is None}
        for path in Path("/proc").glob("[0-9]*/cmdline"):
            with suppress(OSError):  # a process that ends meanwhile
                if b"topology.spark.executor_side.daemon" in path.read_bytes():
                    executor = parent_of(int(path.parent.name))
                    workers.discard(parent_of(executor))
        return workers

    def stop(self) -> None:
        """Workers, then the master, have left, and their executors with them."""
        for process in reversed(self._processes):
            process.send_signal(signal.SIGTERM)
        for process in reversed(self._processes):
            try:
                process.wait(STOP_TIMEOUT_S)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        self._processes.clear()

    def _start(self, name: str, host: Host, main_class: str, *arguments: str) -> Path:
        home = Path(pyspark.__file__).parent
        environment = {
            **self.environment,
            "SPARK_HOME": str(home),
            "SPARK_LOCAL_IP": host.address,
            "SPARK_DAEMON_MEMORY": "512m",
            "SPARK_DAEMON_JAVA_OPTS": java_options(),
        }
        spark_class, full_name = str(home / "bin" / "spark-class"), f"org.apache.spark.deploy.{main_class}"
        command = [*host.prefix, spark_class, full_name, "--host", host.address, *arguments]
        log = self.folder / f"{name}.log"
        with log.open("wb") as output:
            self._processes.append(
                subprocess.Popen(  # noqa: S603 - our own command
                    command,
                    env=environment,
                    stdin=subprocess.DEVNULL,
                    stdout=output,
                    stderr=output,
                    start_new_session=True,
                )
            )
        return log

    def _wait_for(self, find: Callable[[], T | None], log: Path) -> T:
        deadline = time.monotonic() + START_TIMEOUT_S
        while not (found := find()):
            ended = [process.args for process in self._processes if process.poll() is not None]
            text = log.read_text(errors="replace")[-2_000:]
            assert not ended, f"{ended} ended; {log}:\n{text}"
            assert time.monotonic() < deadline, f"not there after {START_TIMEOUT_S:.0f} s; {log}:\n{text}"
            time.sleep(POLL_S)
        return found


def parent_of(process_id: int) -> int:
    """The process that started this one: of a stage Spark's Python daemon, of that the executor."""
    lines = Path(f"/proc/{process_id}/status").read_text(encoding="utf-8").splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("PPid:"))


def _found(pattern: str, log: Path) -> str | None:
    found = re.search(pattern, log.read_text(errors="replace"))
    return found[1] if found else None


def _alive_workers(console: str) -> int:
    try:
        return int(requests.get(f"{console}/json/", timeout=5).json()["aliveworkers"])
    except (requests.ConnectionError, requests.Timeout):  # on a busy host it answers later: the caller asks again
        return 0
