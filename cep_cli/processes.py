"""Commands that run one process of the system: manager, driver, worker."""

from __future__ import annotations

import ctypes
import logging
import os
import signal
from pathlib import Path
from typing import TypeVar

import click
import msgspec

from cep_cli.errors import with_readable_errors
from cep_common.config import load_config

T = TypeVar("T", bound=msgspec.Struct)

CONFIG_OPTION = click.option(
    "--config",
    type=click.Path(dir_okay=False, path_type=Path),
    help="The process's YAML file; default conf/<process>.yaml where that exists.",
)
LEAVES_WITH_PARENT = "CEP_LEAVES_WITH_PARENT"
"""Set by `cep up` and `cep demo`: a process that they started gets SIGTERM when they die without stopping it."""

PR_SET_PDEATHSIG = 1
"""The option of Linux's prctl for that."""

LOG_FORMAT = "%(asctime)s %(levelname)s %(name)s %(message)s"


@click.command("manager")
@CONFIG_OPTION
@with_readable_errors
def manager_command(config: Path | None) -> None:
    """Run a manager: registry, plan store, REST API and console."""
    from cep_manager.config import ManagerConfig  # noqa: PLC0415 - each process loads its own code only
    from cep_manager.main import run  # noqa: PLC0415

    run(_prepare(ManagerConfig, config, "manager"))


@click.command("driver")
@CONFIG_OPTION
@with_readable_errors
def driver_command(config: Path | None) -> None:
    """Run the driver: the Spark session in which topologies run."""
    from topology.spark.config import DriverConfig  # noqa: PLC0415
    from topology.spark.driver import run  # noqa: PLC0415

    run(_prepare(DriverConfig, config, "driver"))


@click.command("worker")
@CONFIG_OPTION
@with_readable_errors
def worker_command(config: Path | None) -> None:
    """Run a worker: sources and sinks of events."""
    from cep_worker.config import WorkerConfig  # noqa: PLC0415
    from cep_worker.main import run  # noqa: PLC0415

    run(_prepare(WorkerConfig, config, "worker"))


def _prepare(kind: type[T], path: Path | None, process: str) -> T:
    logging.basicConfig(level=logging.INFO, format=LOG_FORMAT)
    if os.environ.get(LEAVES_WITH_PARENT):
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGTERM)
    default = Path("conf") / f"{process}.yaml"
    return load_config(kind, path or (default if default.exists() else None), process, os.environ)
