"""Spark's Python daemon with the code of stages and the compiled engine preloaded, so that its workers start at once.

Spark starts it by name (`spark.python.daemon.module`) wherever an executor runs.
"""

from __future__ import annotations

import gc
import sys
from importlib import import_module
from importlib.machinery import PathFinder
from pathlib import Path

from topology.spark.executor_side.heartbeat_monitor import HEARTBEAT_MONITOR

SHARED = (
    "pyspark.worker",
    "topology.spark.executor_side.task_entry",
    "topology.spark.executor_side.task",
    "topology.spark.executor_side.stage_host",
)
"""Modules that are loaded once here and shared by all forked workers."""


def without_archives(path: list[str]) -> list[str]:
    """Return `path` without the archives of Spark's own Python sources, if these belong to an installed pyspark.

    Executors put them in front of everything else, and Python compiles modules of an archive again each time, which
    takes most of the time until an executor can run its first stage.
    """
    installed = PathFinder.find_spec("pyspark", [entry for entry in path if not entry.endswith(".zip")])
    if installed is None or installed.origin is None:
        return path
    home = Path(installed.origin).parent
    return [entry for entry in path if not Path(entry).is_relative_to(home)]


def main() -> None:
    """Serve Spark's executor until that closes the connection."""
    HEARTBEAT_MONITOR.hire()  # first, while nothing is loaded that it does not need
    sys.path[:] = without_archives(sys.path)
    daemon = import_module("pyspark.daemon")
    for name in SHARED:
        import_module(name)
    import_module("topology.warm_up").warm_up()
    gc.collect()
    gc.freeze()  # a garbage collection in a worker would write to, and so copy, all shared memory
    daemon.manager()


if __name__ == "__main__":
    main()
