"""The standby managers, as processes whose logs can be read. Pure."""

from __future__ import annotations

from cep_common.ids import InspectionAddress
from cep_common.security.roles import Role
from cep_manager.election.leadership import ElectionStatus
from cep_manager.election.messages import ManagerAddress
from cep_manager.monitoring.cluster import SILENT_MS
from cep_manager.monitoring.logs.model import Process
from cep_manager.monitoring.logs.processes import KnownProcess, manager_id


def other_managers(election_status: ElectionStatus) -> tuple[KnownProcess, ...]:
    """Return the standby managers, those that have been silent for a while too."""
    return tuple(
        _manager(sight.manager, election_status.now_ms - sight.heard_ms)
        for sight in election_status.sights
        if sight.manager.instance != election_status.me.instance
    )


def _manager(manager: ManagerAddress, silent_ms: int) -> KnownProcess:
    control, insight = manager.control, manager.insight
    process = Process(
        id=manager_id(control),
        kind="manager",
        name=f"{control.host}:{control.port}",
        host=control.host,
        process_id=0,
        live=silent_ms < SILENT_MS,
        readable=insight is not None,
        up_ms=0,
        silent_ms=silent_ms,
    )
    return KnownProcess(
        process, Role.MANAGER, InspectionAddress(insight, manager.instance) if insight is not None else None
    )
