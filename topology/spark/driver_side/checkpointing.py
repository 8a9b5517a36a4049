"""The driver's part in checkpoints: its coordinator and its reports."""

from __future__ import annotations

import msgspec

from cep_common.clock import Clock
from cep_common.protocol.drivers import CheckpointSettings
from cep_common.security.context import GuardedContext
from topology.checkpoint.coordination.archive import Archive
from topology.checkpoint.coordination.service import CheckpointService
from topology.checkpoint.storage.store import open_store
from topology.spark.driver_side.config import DriverConfig


def start_checkpoints(config: DriverConfig, context: GuardedContext, clock: Clock) -> CheckpointService:
    """Start the coordinator of checkpoints.

    Raises StoreUnreachableError and PortInUseError, which name the keys to check.
    """
    settings = config.checkpoint
    archive = Archive(open_store(settings.place()), settings.retained) if settings.location else None
    ports = (settings.first_port, settings.last_port)
    service = CheckpointService(context, config.host, ports, config.timing(), archive, clock, config.priority)
    service.start()
    return service


def checkpoint_settings(config: DriverConfig, service: CheckpointService) -> CheckpointSettings:
    """Return the checkpoint settings and whether the store is usable, for reports."""
    return msgspec.structs.replace(config.checkpoint.settings(), problem=service.store_problem())
