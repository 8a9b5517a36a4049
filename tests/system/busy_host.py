"""A host that is kept busy: processes that compute and nothing else, and what a system on it says meanwhile."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager

from two_managers import ManagerPair

BUSY = "while :; do :; done"


@contextmanager
def busy_processes(count: int) -> Iterator[None]:
    """Run `count` processes that never wait, each in a session of its own, as the scheduler groups those of one."""
    processes = [
        subprocess.Popen(["/bin/sh", "-c", BUSY], start_new_session=True)  # noqa: S603 - our own command
        for _ in range(count)
    ]
    try:
        yield
    finally:
        for process in processes:
            process.kill()
        for process in processes:
            process.wait()


def steps_to_lead(system: ManagerPair) -> int:
    """Return how often a manager has begun to lead."""
    return sum(len(re.findall(r" leads token=", system.log(one))) for one in ("one", "two"))


def recalled(system: ManagerPair) -> list[str]:
    """Return the driver's log lines about topologies that ended, or that it took for lost."""
    log = (system.folder / "driver.log").read_text(encoding="utf-8", errors="replace")
    return [line for line in log.splitlines() if "topology is lost" in line or "topology ended" in line]
