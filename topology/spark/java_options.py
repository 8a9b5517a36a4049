"""How the Java of Spark's processes starts: soon, since a killed driver or executor shall be back soon.

A large part of what a driver or an executor does until it can work is reading classes out of hundreds of jars. Java can
write those that a process has loaded to an archive when it ends, and map them from there the next time (dynamic class
data sharing). A process whose archive is not there, or was made of other jars or by another Java, starts without it.

`python -m topology.spark.java_options` makes the archive for this Python environment; setting it up does so.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from pyspark import BarrierTaskContext
from pyspark.sql import SparkSession

PLAIN_OPTIONS = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
"""Events never pass through Java. What it does is done once, at the start, which is a third shorter without the second
compiler and with the plain collector; and it holds less memory so."""

ARCHIVE = Path(sys.prefix) / "share" / "cep" / "spark-classes.jsa"
"""It belongs to the jars of this environment."""

ENDS_WITHIN_S = 120.0


def java_options() -> str:
    """The options of drivers and executors; an executor on a host that has no such archive does without."""
    return f"{PLAIN_OPTIONS} {_option('SharedArchiveFile', ARCHIVE)}" if ARCHIVE.is_file() else PLAIN_OPTIONS


def make_archive() -> None:
    """The archive is there, written by a driver that did once what drivers do and has ended; nearly all classes of
    executors are among its own."""
    ARCHIVE.parent.mkdir(parents=True, exist_ok=True)
    unfinished = ARCHIVE.with_suffix(f".{os.getpid()}")
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    builder = SparkSession.builder.master("local-cluster[1,2,512]").appName("class archive")
    builder = builder.config("spark.executor.memory", "512m").config("spark.executor.extraJavaOptions", PLAIN_OPTIONS)
    options = f"{PLAIN_OPTIONS} {_option('ArchiveClassesAtExit', unfinished)}"
    session = builder.config("spark.driver.extraJavaOptions", options).config("spark.log.level", "OFF").getOrCreate()
    context = session.sparkContext
    context.parallelize(range(2), 2).barrier().mapPartitions(_meet).collect()
    gateway: Any = context._gateway
    session.stop()
    gateway.shutdown()
    gateway.proc.stdin.close()  # the sign for Java to end; it writes the archive then
    gateway.proc.wait(ENDS_WITHIN_S)
    unfinished.replace(ARCHIVE)


def _meet(_rows: Iterable[int]) -> list[int]:
    return [len(BarrierTaskContext.get().allGather("here"))]


def _option(name: str, path: Path) -> str:
    return f'"-XX:{name}={path}"'


if __name__ == "__main__":
    started = time.perf_counter()
    make_archive()
    sys.stderr.write(f"Spark's classes are archived ({time.perf_counter() - started:.0f} s)\n")
