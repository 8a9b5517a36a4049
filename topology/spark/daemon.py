"""Spark's Python daemon with the stages' code already loaded: the workers that it forks start at once.

Spark starts it by name (`spark.python.daemon.module`) wherever an executor runs.
"""

from __future__ import annotations

from pyspark import daemon

import topology.spark.task  # noqa: F401 - loaded once here, shared by all forked workers

if __name__ == "__main__":
    daemon.manager()
