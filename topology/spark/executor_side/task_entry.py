"""Entry points of Spark's tasks, which the driver passes to Spark.

They import the code of tasks lazily, so that only executors load it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator


def run_task(payload: bytes, index: int, rows: Iterable[object]) -> Iterator[None]:
    """Run `topology.spark.executor_side.task.run_task`."""
    from topology.spark.executor_side import task  # noqa: PLC0415 - where it runs

    return task.run_task(payload, index, rows)


def run_host(payload: bytes, index: int, rows: Iterable[object]) -> Iterator[None]:
    """Run `topology.spark.executor_side.stage_host.run_host`."""
    from topology.spark.executor_side import stage_host  # noqa: PLC0415 - where it runs

    return stage_host.run_host(payload, index, rows)
