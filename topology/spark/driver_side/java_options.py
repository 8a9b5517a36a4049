"""Java options that shorten the start of Spark's processes, so that a killed driver or executor restarts quickly.

A large part of what a driver or an executor does until it can work is reading classes out of hundreds of jars. Java can
write those that a process has loaded to an archive when it ends, and map them from there the next time (dynamic class
data sharing). A process whose archive is missing, or was made from other jars or by another Java, starts without it.

`python -m topology.spark.driver_side.java_options` makes the archive for this Python environment;
setting it up does so.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

PLAIN_OPTIONS = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
"""Events never pass through Java.

Its work is done once, at the start, which takes a third less time without the second compiler and with the plain
collector, and also takes less memory.
"""

ARCHIVE = Path(sys.prefix) / "share" / "cep" / "spark-classes.jsa"
"""The archive of classes, which belongs to the jars of this environment."""

MADE_WITHIN_S = 240.0


def java_options() -> str:
    """Return the Java options of drivers and executors.

    An executor on a host without the archive works without it.
    """
    return f"{PLAIN_OPTIONS} {_option('SharedArchiveFile', ARCHIVE)}" if ARCHIVE.is_file() else PLAIN_OPTIONS


def make_archive() -> None:
    """Create the archive.

    Raises OSError or subprocess.SubprocessError when it could not be created in time: there is no archive then, and
    no process is left running.
    """
    ARCHIVE.parent.mkdir(parents=True, exist_ok=True)
    ARCHIVE.unlink(missing_ok=True)
    unfinished = ARCHIVE.with_suffix(f".{os.getpid()}")
    environment = {"PYSPARK_PYTHON": sys.executable, **os.environ, "SPARK_LOCAL_IP": "127.0.0.1"}
    maker = subprocess.Popen(  # noqa: S603 - our own command
        [sys.executable, "-m", __spec__.name, str(unfinished)],
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        if maker.wait(MADE_WITHIN_S):
            raise subprocess.CalledProcessError(maker.returncode, "the driver that writes the archive")
        unfinished.replace(ARCHIVE)
    finally:
        with suppress(ProcessLookupError):
            os.killpg(maker.pid, signal.SIGKILL)
        unfinished.unlink(missing_ok=True)


def _write(path: Path) -> None:
    """Run a driver with a typical load, which writes its classes to `path` when it ends.

    These include nearly all classes of an executor.
    """
    builder = SparkSession.builder.master("local-cluster[1,2,512]").appName("class archive")
    builder = builder.config("spark.executor.memory", "512m").config("spark.executor.extraJavaOptions", PLAIN_OPTIONS)
    options = f"{PLAIN_OPTIONS} {_option('ArchiveClassesAtExit', path)}"
    session = builder.config("spark.driver.extraJavaOptions", options).config("spark.log.level", "OFF").getOrCreate()
    context = session.sparkContext
    context.parallelize(range(2), 2).barrier().mapPartitions(list).collect()
    gateway: Any = context._gateway
    session.stop()
    gateway.shutdown()
    gateway.proc.stdin.close()  # makes Java end
    gateway.proc.wait()


def _option(name: str, path: Path) -> str:
    return f'"-XX:{name}={path}"'


if __name__ == "__main__":
    if len(sys.argv) > 1:
        _write(Path(sys.argv[1]))
    else:
        started = time.perf_counter()
        make_archive()
        sys.stderr.write(f"Spark's classes were archived ({time.perf_counter() - started:.0f} s)\n")
