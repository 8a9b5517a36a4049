"""The files and hosts that live workers and the driver allow plans to use, from their reports. Pure."""

from __future__ import annotations

from cep_manager.control.snapshot import ClusterSnapshot
from query_plan.checks.reach import UNKNOWN, WorkerReach


def known_reaches(snapshot: ClusterSnapshot | None) -> WorkerReach:
    """Return what live processes have reported; everything else, and everything without a snapshot, is unknown."""
    if snapshot is None:
        return UNKNOWN
    workers = {
        member.latest.worker: member.latest.reach
        for member in snapshot.live_workers()
        if member.latest.reach is not None
    }
    driver = snapshot.driver
    live = driver is not None and driver.live(snapshot.now_ms, snapshot.lease_ms)
    return WorkerReach(workers, driver.latest.store_urls if driver is not None and live else True)
