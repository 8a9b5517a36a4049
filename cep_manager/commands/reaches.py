"""What live workers and the driver let plans reach, as they have told. Pure."""

from __future__ import annotations

from cep_manager.control.snapshot import ClusterSnapshot
from query_plan.checks.reach import UNKNOWN, WorkerReach


def known_reaches(snapshot: ClusterSnapshot | None) -> WorkerReach:
    """Return what those that are alive have told; of others nothing is known, and of nobody without a snapshot."""
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
