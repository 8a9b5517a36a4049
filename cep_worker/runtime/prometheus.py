"""A worker's metrics in Prometheus's format, collected for each scrape.

Pure.

The manager's metrics include workers, too (`cep_worker_…`, as of the last heartbeats). These have other names, so that
a sum over all processes counts nothing twice.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator

from prometheus_client.core import Metric

from cep_common.ids import PlanKey
from cep_common.monitoring.metric_families import Labelled, MetricFamily, counter, families_for, gauge
from cep_common.protocol.registry import InflowReport
from cep_common.protocol.worker_reports import PartitionReport
from cep_worker.runtime.worker_metrics import ConnectorMetrics, PreparedResultsMetrics, WalMetrics, WorkerMetrics

PLAN = ("tenant", "plan")
STREAM = (*PLAN, "stream")
CONNECTOR = (*STREAM, "type")
PARTITION = (*STREAM, "topic", "partition")


def worker_metrics(metrics: WorkerMetrics) -> Iterator[Metric]:
    """Return all families of a worker."""
    yield gauge("cep_stopping", "1 while the worker is shutting down", (), [((), metrics.leaving)])
    yield counter(
        "cep_accepted_events_total",
        "Events that the worker accepted for plans of the tenant",
        ("tenant",),
        (((tenant,), events) for tenant, events in metrics.taken),
    )
    inflows = (((*_of(plan.key), one.stream), one) for plan in metrics.plans for one in plan.inflow)
    yield from families_for(_INFLOWS, STREAM, inflows)
    yield from _outflows(metrics)
    yield from families_for(_WALS, STREAM, (((*_of(key), one.stream), one) for key, one in metrics.write_ahead_logs))
    yield from families_for(_PREPARED, PLAN, ((_of(key), one) for key, one in metrics.prepared))
    yield gauge(
        "cep_failed_events",
        "Entries of the error store",
        PLAN,
        ((_of(key), entries) for key, entries in metrics.kept),
    )
    yield gauge(
        "cep_orphaned_events",
        "Accepted events (log) and results of plans that are missing, which are set aside",
        (*PLAN, "kind"),
        _of_missing_plans(metrics),
    )
    yield from _connectors(metrics.connectors)


def _of_missing_plans(metrics: WorkerMetrics) -> Labelled:
    events: Counter[tuple[object, ...]] = Counter()
    for one in metrics.orphans:
        events[one.tenant, one.plan, one.kind] += one.events
    return events.items()


_INFLOWS: tuple[MetricFamily[InflowReport], ...] = (
    MetricFamily(
        "cep_inflow_connected", "1 while the stream has a connection to a receiver", lambda one: one.connected
    ),
    MetricFamily("cep_inflow_sent_events_total", "Events sent into the topology", lambda one: one.sent_events),
    MetricFamily("cep_inflow_waiting_events", "Events that wait for the topology", lambda one: one.waiting_events),
)

_WALS: tuple[MetricFamily[WalMetrics], ...] = (
    MetricFamily(
        "cep_wal_bytes",
        "Bytes of accepted events on disk that the topology may request again",
        lambda one: one.size_bytes,
    ),
    MetricFamily(
        "cep_wal_recycled_bytes",
        "Bytes of spare files that will be reused for accepted events",
        lambda one: one.spare_bytes,
    ),
    MetricFamily(
        "cep_wal_damaged_bytes",
        "Bytes of damaged files that were set aside and stay until they are removed",
        lambda one: one.damaged_file_bytes,
    ),
    MetricFamily("cep_wal_full", "1 while the log is full and sources wait", lambda one: one.full),
    MetricFamily(
        "cep_wal_lost_events_total",
        "Accepted events that could not be read from the disk again",
        lambda one: one.lost_events,
    ),
)

_PREPARED: tuple[MetricFamily[PreparedResultsMetrics], ...] = (
    MetricFamily(
        "cep_prepared_results", "Results on disk that wait for their checkpoint or for sinks", lambda one: one.events
    ),
    MetricFamily("cep_prepared_results_bytes", "Bytes of the files of prepared results", lambda one: one.size_bytes),
    MetricFamily(
        "cep_prepared_results_oldest_seconds",
        "Age of the oldest prepared results",
        lambda one: one.oldest_ms / 1_000,
    ),
    MetricFamily(
        "cep_prepared_results_lost_total",
        "Prepared results that could not be read from the disk again",
        lambda one: one.lost_events,
    ),
    MetricFamily(
        "cep_prepared_results_damaged_bytes",
        "Bytes of damaged files that were set aside and stay until they are removed",
        lambda one: one.damaged_file_bytes,
    ),
)


def _outflows(metrics: WorkerMetrics) -> Iterator[Metric]:
    yield gauge(
        "cep_outflow_publishers",
        "Publishers of the topology that are connected",
        PLAN,
        ((_of(plan.key), len(plan.publishers)) for plan in metrics.plans),
    )
    yield counter(
        "cep_outflow_received_events_total",
        "Events received from the topology in its current epoch",
        STREAM,
        (((*_of(plan.key), one.stream), one.received_events) for plan in metrics.plans for one in plan.outflow),
    )


def _of(key: PlanKey) -> tuple[object, ...]:
    return key.tenant, key.plan


def _connectors(connectors: tuple[ConnectorMetrics, ...]) -> Iterator[Metric]:
    """Yield the metrics of sources and sinks, summed by type and stream."""
    for direction in ("source", "sink"):
        mine = [one for one in connectors if one.direction == direction]
        yield gauge(
            f"cep_{direction}s", f"The {direction}s of the stream", CONNECTOR, _together((one, 1) for one in mine)
        )
        yield gauge(
            f"cep_{direction}s_failing",
            f"The {direction}s of the stream that currently have an error",
            CONNECTOR,
            _together((one, one.failing) for one in mine),
        )
    yield from _partitions(connectors)
    sinks = [one for one in connectors if one.direction == "sink"]
    yield from _topics_written(sinks)
    yield gauge(
        "cep_sink_waiting_events",
        "Events that the sinks have not delivered yet",
        CONNECTOR,
        _together((one, one.waiting_events) for one in sinks),
    )
    yield counter(
        "cep_sink_dropped_events_total",
        "Events that the sinks dropped because they could not be delivered",
        CONNECTOR,
        _together((one, one.dropped_events) for one in sinks),
    )


_PARTITIONS: tuple[MetricFamily[PartitionReport], ...] = (
    MetricFamily(
        "cep_kafka_source_lag",
        "Messages of the partition that the worker has not read yet",
        lambda one: one.lag,
    ),
    MetricFamily(
        "cep_kafka_source_position",
        "The offset of the next message that the worker reads: those before it are in its log",
        lambda one: one.position,
    ),
    MetricFamily(
        "cep_kafka_source_committed",
        "The offset that was committed to the brokers last; -1 before that",
        lambda one: one.committed,
    ),
)


def _partitions(connectors: tuple[ConnectorMetrics, ...]) -> Iterator[Metric]:
    """Yield the metrics of partitions; if several sources read one partition for a stream, those of the last."""
    found = {
        (one.tenant, one.plan, one.stream, each.topic, each.partition): each
        for one in connectors
        for each in one.partitions
    }
    yield from families_for(_PARTITIONS, PARTITION, found.items())


def _topics_written(sinks: list[ConnectorMetrics]) -> Iterator[Metric]:
    messages: Counter[tuple[object, ...]] = Counter()
    transactions: Counter[tuple[object, ...]] = Counter()
    for one in sinks:
        for topic in one.written:
            messages[one.tenant, one.plan, one.stream, topic.topic] += topic.messages
        if one.transactions is not None:
            for outcome in ("committed", "aborted"):
                number = getattr(one.transactions, outcome)
                transactions[one.tenant, one.plan, one.stream, outcome] += number
    yield counter(
        "cep_kafka_sink_messages_total",
        "Messages of the sinks that the brokers have acknowledged",
        (*STREAM, "topic"),
        messages.items(),
    )
    yield counter(
        "cep_kafka_sink_transactions_total",
        "Transactions of the sinks that were committed or aborted",
        (*STREAM, "outcome"),
        transactions.items(),
    )


def _together(values: Iterable[tuple[ConnectorMetrics, int]]) -> Labelled:
    sums: Counter[tuple[object, ...]] = Counter()
    for one, value in values:
        sums[one.tenant, one.plan, one.stream, one.type] += value
    return sums.items()
