"""The managers that stand by, as processes whose logs can be read. Pure."""

from __future__ import annotations

from cep_common.ids import InsightAddress
from cep_common.security.roles import Role
from cep_manager.election.election import Manager
from cep_manager.election.leadership import Standing
from cep_manager.monitoring.cluster import SILENT_MS
from cep_manager.monitoring.logs.model import Process
from cep_manager.monitoring.logs.processes import Known, manager_id


def other_managers(standing: Standing) -> tuple[Known, ...]:
    """The managers that stand by, those that have been silent for a while too."""
    return tuple(
        _manager(sight.manager, standing.now_ms - sight.heard_ms)
        for sight in standing.sights
        if sight.manager.instance != standing.me.instance
    )


def _manager(manager: Manager, silent_ms: int) -> Known:
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
    return Known(process, Role.MANAGER, InsightAddress(insight, manager.instance) if insight is not None else None)
