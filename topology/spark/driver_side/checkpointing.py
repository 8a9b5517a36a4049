"""The driver's part in checkpoints: its coordinator, and what it tells of them."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from cep_common.clock import Clock
from cep_common.protocol.drivers import CheckpointSettings, TopologyReport
from cep_common.security.context import GuardedContext
from topology.checkpoint.coordination.archive import Archive
from topology.checkpoint.coordination.service import CheckpointService
from topology.checkpoint.storage.store import open_store
from topology.spark.driver_side.config import DriverConfig


def start_checkpoints(config: DriverConfig, context: GuardedContext, clock: Clock) -> CheckpointService:
    """Start the coordinator of checkpoints.

    Raises StoreUnreachableError and PortInUseError, which name the keys to check.
    """
    told = config.checkpoint
    archive = Archive(open_store(told.place()), told.retained) if told.location else None
    ports = (told.first_port, told.last_port)
    service = CheckpointService(context, config.host, ports, config.timing(), archive, clock, config.priority)
    service.start()
    return service


def told_of(config: DriverConfig, service: CheckpointService) -> CheckpointSettings:
    """Return how checkpoints are taken, and whether they can be."""
    return msgspec.structs.replace(config.checkpoint.settings(), problem=service.store_problem())


def with_checkpoints(reports: Iterable[TopologyReport], service: CheckpointService) -> tuple[TopologyReport, ...]:
    """Return the reports with what is known of checkpoints."""
    found = []
    for report in reports:
        told = service.told(report.key, report.epoch)
        found.append(
            msgspec.structs.replace(
                report,
                spans=told.spans,
                checkpoints=told.checkpoints,
                begun_from=told.begun_from,
                failed_checkpoints=told.failed,
                unreadable=told.unreadable,
                current=told.current,
            )
        )
    return tuple(found)
