"""Tracks which results of plans with exactly-once delivery are final, for the workers that store them. Pure."""

from __future__ import annotations

from collections.abc import Mapping

from cep_common.ids import PlanKey
from cep_common.protocol.drivers import RegisterDriver
from cep_common.protocol.registry import CheckpointSpan, PlanCheckpoints
from cep_manager.control.members import ClusterMember
from cep_manager.plans.record import PlanRecord


def standing_results(
    plans: Mapping[PlanKey, PlanRecord], driver: ClusterMember[RegisterDriver] | None
) -> tuple[PlanCheckpoints, ...]:
    """Return which results of exactly-once plans are committed, according to the driver's store.

    While a plan is changed, two of its topologies report their results; so does the topology of another plan of the
    same name that is being stopped. The plan that was deployed last comes last.
    """
    found: dict[tuple[PlanKey, int], dict[tuple[int, int], CheckpointSpan]] = {}
    for report in driver.latest.topologies if driver is not None else ():
        record = plans.get(report.key)
        if record is not None and record.compiled is not None and record.compiled.delivery == "exactly-once":
            spans = {(span.epoch, span.attempt): span for span in report.spans}
            found.setdefault((report.key, report.deployed_ms), {}).update(spans)
    return tuple(
        PlanCheckpoints(key, tuple(spans[run] for run in sorted(spans)), deployed_ms)
        for (key, deployed_ms), spans in sorted(found.items())
        if spans
    )
