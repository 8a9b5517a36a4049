"""Commands that run one process of the system: manager, driver, worker."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import TypeVar

import click
import msgspec

from cep_cli.client.options import CONFIG_OPTION
from cep_cli.errors import with_readable_errors
from cep_common.configuration.loading import Loaded, load_with_sources
from cep_common.inspection.config import LogConfig
from cep_common.inspection.endpoint import Inspection
from cep_common.inspection.log_setup import start_log
from cep_common.inspection.settings import settings_of
from siddhi.confinement import end_with_parent

T = TypeVar("T", bound=msgspec.Struct)

LEAVES_WITH_PARENT = "CEP_LEAVES_WITH_PARENT"
"""Set by `cep up` and `cep demo`, so that their processes get SIGTERM when they die."""


@click.command("manager")
@CONFIG_OPTION
@with_readable_errors
def manager_command(config: Path | None) -> None:
    """Run a manager: registry, plan store, REST API and console."""
    from cep_manager.config import ManagerConfig  # noqa: PLC0415 - each process loads its own code only
    from cep_manager.main import run  # noqa: PLC0415

    prepared = _prepare(ManagerConfig, config, "manager")
    run(prepared.config, _insight(prepared, prepared.config.log, f"manager-{prepared.config.control.port}"))


@click.command("driver")
@CONFIG_OPTION
@with_readable_errors
def driver_command(config: Path | None) -> None:
    """Run the driver: the Spark session in which topologies run."""
    from topology.spark.driver_side.config import DriverConfig  # noqa: PLC0415
    from topology.spark.driver_side.driver import run  # noqa: PLC0415

    prepared = _prepare(DriverConfig, config, "driver")
    run(prepared.config, _insight(prepared, prepared.config.log, f"driver-{prepared.config.name}"))


@click.command("worker")
@CONFIG_OPTION
@with_readable_errors
def worker_command(config: Path | None) -> None:
    """Run a worker: sources and sinks of events."""
    from cep_worker.config import WorkerConfig  # noqa: PLC0415
    from cep_worker.main import run  # noqa: PLC0415

    prepared = _prepare(WorkerConfig, config, "worker")
    run(prepared.config, _insight(prepared, prepared.config.log, f"worker-{prepared.config.name or os.getpid()}"))


def _prepare(kind: type[T], path: Path | None, process: str) -> Loaded[T]:
    if os.environ.get(LEAVES_WITH_PARENT):
        end_with_parent(signal.SIGTERM)
    default = Path("conf") / f"{process}.yaml"
    return load_with_sources(kind, path or (default if default.exists() else None), process, os.environ)


def _insight(loaded: Loaded[T], log: LogConfig, name: str) -> Inspection:
    """Return the process's data for inspection, and start keeping log records."""
    return Inspection(start_log(log, name), settings_of(loaded.config, loaded.sources))
