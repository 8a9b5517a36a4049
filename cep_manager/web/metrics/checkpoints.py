"""Metrics of checkpoints: the newest of each plan, and how many failed. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from prometheus_client.core import Metric

from cep_common.ids import PlanKey
from cep_common.monitoring.metric_families import MetricFamily, counter, families_for
from cep_common.protocol.drivers import CheckpointReport
from cep_manager.control.snapshot import ClusterSnapshot

PLAN = ("tenant", "plan")


_NEWEST: tuple[MetricFamily[CheckpointReport], ...] = (
    MetricFamily(
        "cep_plan_checkpoint_completed_timestamp_seconds",
        "Unix time at which the plan's newest checkpoint was complete",
        lambda one: (one.began_ms + one.duration_ms) / 1_000,
    ),
    MetricFamily(
        "cep_plan_checkpoint_duration_seconds",
        "Duration of the plan's newest complete checkpoint",
        lambda one: one.duration_ms / 1_000,
    ),
    MetricFamily(
        "cep_plan_checkpoint_alignment_seconds",
        "Longest wait of an instance for barriers (markers) in the newest complete checkpoint",
        lambda one: one.alignment_ms / 1_000,
    ),
    MetricFamily(
        "cep_plan_checkpoint_size_bytes",
        "Total size of the state in the newest complete checkpoint",
        lambda one: one.size_bytes,
    ),
    MetricFamily(
        "cep_plan_checkpoint_stored_bytes",
        "Bytes that the newest complete checkpoint added to the store",
        lambda one: one.stored_bytes,
    ),
)


def checkpoint_metrics(snapshot: ClusterSnapshot) -> Iterator[Metric]:
    """Yield the checkpoint metrics of each plan's topology, from the driver's last report."""
    reports = snapshot.driver.latest.topologies if snapshot.driver is not None else ()
    current = {
        report.key: report
        for report in reports
        if report.key in snapshot.plans and snapshot.plans[report.key].epoch == report.epoch
    }
    newest: dict[PlanKey, CheckpointReport] = {
        key: one for key, report in current.items() for one in report.checkpoints if one.state == "complete"
    }
    yield from families_for(_NEWEST, PLAN, (((key.tenant, key.plan), one) for key, one in newest.items()))
    yield counter(
        "cep_plan_checkpoint_errors_total",
        "Failed checkpoints of the plan in its current epoch",
        PLAN,
        (((key.tenant, key.plan), report.failed_checkpoints) for key, report in current.items()),
    )
