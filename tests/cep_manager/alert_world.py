"""What tests of alerts share: a system with a leader, and its alerts by code."""

from __future__ import annotations

import msgspec
from manager_world import (
    LEADER,
    World,
)

from cep_manager.monitoring.cluster_model import ElectionView, ManagerInfo
from cep_manager.monitoring.overview.alerts import Alert, AlertContext, system_alerts
from cep_manager.monitoring.overview.plan_alerts import plan_alerts

NOW_MS = 1_795_000_000_000


INFO = ManagerInfo("127.0.0.1", 8904, 1, 65_000, "0.1.0", "3.11", "sqlite:///manager.db", 3_000, 1_000)


def picture(world: World, **other: object) -> AlertContext:
    election = ElectionView(leads=True, leader=LEADER, managers=(LEADER,))
    return msgspec.structs.replace(AlertContext(NOW_MS, world.snapshot(), INFO, election), **other)


def found(told: AlertContext, tenant: int | None = None, system: bool = True) -> dict[str, Alert]:
    """By code."""
    about_system = list(system_alerts(told)) if system else []
    return {one.code: one for one in [*about_system, *plan_alerts(told, tenant, system)]}
