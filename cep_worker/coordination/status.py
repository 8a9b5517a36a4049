"""The status of the data plane's parts: collected by the data thread, read by any thread."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any

from cep_common.ids import PlanKey
from cep_common.protocol.error_records import ErrorRecord
from cep_common.protocol.worker_reports import MOST_CONNECTORS, ListenerReport
from cep_worker.connector_runtime.running_sinks import SinkSupervisor
from cep_worker.connector_runtime.running_sources import SourceSupervisor
from cep_worker.failed_events.store import FailedEventStore
from cep_worker.ingest.tenant_limits import TenantLimits
from cep_worker.outflows.egress import Egress
from cep_worker.plan_links.topic_registry import TopicRegistry
from cep_worker.runtime.error_tracking import ErrorTracker, PlanError
from cep_worker.runtime.worker_metrics import ConnectorMetrics, WorkerMetrics, WorkerParts
from cep_worker.serving.plan_flow import PlanFlow, PlanSnapshot
from cep_worker.serving.served_plans import ServedPlans


class StatusCollector:
    """Collects the status of the data plane's parts.

    The data thread calls `look` and `keep`. Any thread may call the rest, whose results are at most one tick old.
    """

    def __init__(
        self,
        served: ServedPlans,
        sources: SourceSupervisor,
        sinks: SinkSupervisor,
        egress: Egress,
        topics: TopicRegistry,
        limits: TenantLimits,
        errors: FailedEventStore,
    ) -> None:
        self._served = served
        self._sources = sources
        self._sinks = sinks
        self._egress = egress
        self._topics = topics
        self._limits = limits
        self._errors = errors
        self._error_tracker = ErrorTracker()
        self._connectors: tuple[ConnectorMetrics, ...] = ()
        self._since: dict[tuple[str, ...], int] = {}
        """When each failing connector began to fail, in time of day."""
        self._listeners: tuple[ListenerReport, ...] = ()
        self._taken: tuple[tuple[int, int], ...] = ()
        self._snapshots: dict[PlanKey, tuple[PlanSnapshot, str, tuple[ErrorRecord, ...]]] = {}
        """The last snapshot of each plan, with the errors that it contains."""
        self._wrong: set[PlanKey] = set()
        """Plans with an error at the last inspection."""
        self._served_then = -1
        self.plans: tuple[PlanSnapshot, ...] = ()
        """The current state of the plans."""

    def keep(self, plans: Collection[PlanKey]) -> None:
        """Remove the errors of all plans except these."""
        self._error_tracker.keep(plans)

    def look(self, problems: Mapping[PlanKey, str], now_ms: int, day_ms: int) -> None:
        """Inspect all parts.

        `problems` are those of plans' declarations (empty: none), `now_ms` is monotonic, `day_ms` the time of day.
        """
        on_disk = {
            (key, stream, name): rows
            for key, flow in self._stirred()
            for (stream, name), rows in flow.outflows.waiting_rows().items()
        }
        self._connectors = self._with_since((*self._sources.metrics(), *self._sinks.metrics(on_disk)), day_ms)
        self._listeners = self._egress.reports(now_ms)
        self._taken = self._limits.taken()
        sources, sinks = list(self._sources.errors_found()), list(self._sinks.errors_found())
        fed = self._topics.problems()
        errors = list(self._find_errors(problems, sources, sinks))
        self._error_tracker.look(errors, day_ms)
        wrong = _first_texts(sources), _first_texts(sinks), fed
        flows = self._served.flows
        before, self._wrong = self._wrong, {one.key for one in errors}.union(*wrong)
        looks: Iterable[tuple[PlanKey, PlanFlow]] = flows.items()
        news = self._served_then != self._served.served
        if news:
            self._served_then = self._served.served
            self._snapshots = {key: self._snapshots[key] for key in flows if key in self._snapshots}
        else:
            # Unchanged plans keep their snapshots, so that a thousand idle plans cost nothing.
            keys = {flow.plan.key for flow in self._served.changed} | before | self._wrong
            looks = [(key, flows[key]) for key in keys if key in flows]
        for key, flow in looks:
            error = problems.get(key) or next((texts[key] for texts in wrong if key in texts), "")
            known = self._snapshots.get(key)
            records = self._error_tracker.of(key)
            if known is not None and not flow.changed and known[1:] == (error, records):
                continue
            flow.changed = flow.stirred
            if not flow.changed:
                self._served.changed.pop(flow, None)
            self._snapshots[key] = (flow.snapshot(error, records), error, records)
            news = True
        if news:
            self.plans = tuple(self._snapshots[key][0] for key in flows)

    def _stirred(self) -> Iterator[tuple[PlanKey, PlanFlow]]:
        """Yield the deployed plans that have changed."""
        flows = self._served.flows
        for flow in self._served.stirred:
            key = flow.plan.key
            if flows.get(key) is flow:
                yield key, flow

    def parts(self, *, leaving: bool) -> WorkerParts:
        """Return the status of everything that does not belong to one plan."""
        connectors = tuple(one.report() for one in self._connectors[:MOST_CONNECTORS])
        return WorkerParts(connectors, self._listeners, leaving)

    def metrics(self, *, leaving: bool) -> WorkerMetrics:
        """Return the metrics of the worker."""
        plans = self.plans
        reports = tuple(plan.report for plan in plans)
        write_ahead_logs = tuple((plan.report.key, wal) for plan in plans for wal in plan.write_ahead_logs)
        prepared = tuple((plan.report.key, plan.prepared) for plan in plans if plan.prepared is not None)
        names = {plan.report.key: plan.report.key for plan in plans}
        kept = tuple((names.get(key, key), count) for key, count in self._errors.counts().items())
        return WorkerMetrics(reports, write_ahead_logs, prepared, self._connectors, self._taken, leaving, kept)

    def health(self) -> list[dict[str, Any]]:
        """Return the status of all plans as JSON values."""
        return [
            {
                "tenant": plan.report.key.tenant,
                "plan": plan.report.key.plan,
                "epoch": plan.report.epoch,
                "inflows": len(plan.report.inflow),
                "inflows_connected": sum(inflow.connected for inflow in plan.report.inflow),
                "publishers": len(plan.report.publishers),
                "wal": [dataclasses.asdict(wal) for wal in plan.write_ahead_logs],
                "prepared": None if plan.prepared is None else dataclasses.asdict(plan.prepared),
                "last_error": plan.report.last_error,
            }
            for plan in self.plans
        ]

    def _with_since(self, found: tuple[ConnectorMetrics, ...], day_ms: int) -> tuple[ConnectorMetrics, ...]:
        """Return the metrics with the time since which each connector fails."""
        before, self._since = self._since, {}
        alike: Counter[tuple[str, ...]] = Counter()
        noted = []
        for one in found:
            kind = (one.direction, one.type, str(one.tenant), one.plan, one.stream)
            alike[kind] += 1
            if one.error:
                name = (*kind, str(alike[kind]))
                self._since[name] = before.get(name, day_ms)
                noted.append(dataclasses.replace(one, since_ms=self._since[name]))
            else:
                noted.append(one)
        return tuple(noted)

    def _find_errors(
        self, problems: Mapping[PlanKey, str], sources: Iterable[PlanError], sinks: Iterable[PlanError]
    ) -> Iterator[PlanError]:
        """Yield the parts with an error or with dropped events; parts without may be omitted."""
        for one in (*sources, *sinks):
            if one.text or one.dropped_events:
                yield one
        yield from self._topics.errors_found()
        for key, problem in problems.items():
            if problem:
                yield PlanError(key, "declarations", "connector", problem)
        for key, flow in self._stirred():
            # A plan with an error is never idle.
            for part, code, text in flow.errors_found():
                if text:
                    yield PlanError(key, part, code, text)


def _first_texts(errors: Iterable[PlanError]) -> dict[PlanKey, str]:
    """Return the first error of each plan that has one."""
    found: dict[PlanKey, str] = {}
    for one in errors:
        if one.text:
            found.setdefault(one.key, one.text)
    return found
