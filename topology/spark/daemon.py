"""Spark's Python daemon with the stages' code and the engine's loops already loaded: its workers start at once.

Spark starts it by name (`spark.python.daemon.module`) wherever an executor runs.
"""

from __future__ import annotations

import gc

from pyspark import daemon

import topology.spark.task  # noqa: F401 - loaded once here, shared by all forked workers
from siddhi.engine.warm_up import warm_up

if __name__ == "__main__":
    warm_up()
    gc.collect()
    gc.freeze()  # a collection in a worker would touch, and so copy, all that it shares with this process
    daemon.manager()
