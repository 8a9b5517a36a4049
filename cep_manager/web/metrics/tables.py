"""Metrics of the metric tables: whether they are written. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from prometheus_client.core import Metric

from cep_common.monitoring.metric_families import MetricFamily, families_for
from cep_manager.monitoring.metric_tables.writer import MetricTablesView

_TABLES: tuple[MetricFamily[MetricTablesView], ...] = (
    MetricFamily("cep_metric_tables_up", "1 while the metric tables can be written", lambda one: not one.problem),
    MetricFamily("cep_metric_tables_rows_total", "Rows written into the metric tables", lambda one: one.written_rows),
    MetricFamily(
        "cep_metric_tables_dropped_rows_total",
        "Rows dropped because the metric tables could not be written in time",
        lambda one: one.dropped_rows,
    ),
)


def table_metrics(view: MetricTablesView) -> Iterator[Metric]:
    """Yield the metrics of the tables; none where no tables are configured."""
    yield from families_for(_TABLES, (), [((), view)] if view.address else [])
