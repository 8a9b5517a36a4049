"""The supervisor of sources, which runs exactly those that plans and artefacts declare."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, replace

import pyarrow as pa

from cep_common.configuration.redaction import redact
from cep_common.configuration.secrets import Secrets
from cep_common.errors import CepError, InputError
from cep_common.ids import PlanKey
from cep_common.monitoring.paced_log import PacedLog
from cep_worker.connector_runtime.labels import ConnectorLabels, labels_of
from cep_worker.failed_events.service import ReplayAttempt
from cep_worker.kafka.source import kafka_source
from cep_worker.plans.connectors import DeclaredConnector, with_secrets
from cep_worker.runtime.error_tracking import PlanError
from cep_worker.runtime.worker_metrics import ConnectorMetrics, connector_metrics
from cep_worker.sources.base import EventSource, ReplayableSource, SourceContext
from cep_worker.sources.file_maker import file_source
from cep_worker.sources.http import http_source
from cep_worker.sources.in_memory import in_memory_source
from cep_worker.sources.zeromq import zeromq_source
from query_plan.connectors.judging import refuse_faults
from query_plan.connectors.reach import refuse_reach

logger = logging.getLogger(__name__)
paced_logger = PacedLog(logger)

REMAKE_MS = 5_000
"""Interval between attempts to create a source that could not be created."""

SOURCE_TYPES: dict[str, Callable[[SourceContext], EventSource]] = {
    "file": file_source,
    "http": http_source,
    "inMemory": in_memory_source,
    "kafka": kafka_source,
    "zeromq": zeromq_source,
}
"""The factory of each type."""


@dataclass(slots=True)
class _RunningSource:
    declared: DeclaredConnector
    source: EventSource | None
    failure: str
    label: str
    """Its type, with a number if the stream has several of it."""
    tried_ms: int = 0

    @property
    def error(self) -> str:
        """Return why it could not be created, or its present error."""
        return redact(self.failure if self.source is None else self.source.error)

    def is_at(self, key: PlanKey, stream: str) -> bool:
        """Return whether it is a source of the plan's stream."""
        return self.declared.plan() == key and self.declared.connector.stream == stream


class SourceSupervisor:
    """Starts and stops sources.

    A source that cannot be created is reported and tried again; the rest of its plan runs.
    """

    def __init__(
        self, context: Callable[[DeclaredConnector], SourceContext], secrets: Secrets, positions: str = ""
    ) -> None:
        """Store labels in the folder `positions`; empty: nowhere."""
        self._context = context
        self._labels = ConnectorLabels(positions, "source")
        self._secrets = secrets
        self._running: list[_RunningSource] = []

    def apply(self, wanted: list[DeclaredConnector], now_ms: int) -> None:
        """Run exactly the sources that `wanted` declares; unchanged ones continue."""
        before, self._running = self._running, []
        kept: list[_RunningSource | None] = []
        for declaration in wanted:
            same = next((running for running in before if _alike(running.declared, declaration)), None)
            if same is not None:
                before.remove(same)
            kept.append(same)
        for running in before:  # before others are started, which may need their ports and paths
            if running.source is not None:
                running.source.close()
        edited = {one.declared.plan() for one in before}
        labels = labels_of(wanted, [None if one is None else one.label for one in kept], edited, self._labels)
        for same, declaration, label in zip(kept, wanted, labels, strict=True):
            if same is None:
                self._running.append(self._start(declaration, label, now_ms))
                continue
            same.declared = declaration
            if same.source is not None:
                same.source.reroute(declaration, now_ms)
            self._running.append(same)

    def delete_labels(self, keys: Collection[PlanKey]) -> None:
        """Delete what is kept of undeployed plans that have no sources any more."""
        self._labels.delete(keys)

    def errors_found(self) -> Iterator[PlanError]:
        """Return the state of each source of each plan."""
        for running in self._running:
            connector = running.declared.connector
            for member in running.declared.stream.members:
                yield PlanError(member.key, f"source {connector.type} of {connector.stream}", "source", running.error)

    def metrics(self) -> tuple[ConnectorMetrics, ...]:
        """Return the metrics of all sources."""
        return tuple(
            connector_metrics("source", one.declared, one.error)
            if one.source is None
            else connector_metrics(
                "source", one.declared, one.error, 0, one.source.dropped_events, one.source.delivered_events,
                one.source.partitions,
            )
            for one in self._running
        )  # fmt: skip

    def replay(self, key: PlanKey, stream: str, label: str, batch: pa.RecordBatch, attempt: ReplayAttempt) -> None:
        """Read failed messages again with the source called `label`.

        `attempt` learns the outcome, or why the source cannot try.
        """
        there = [one for one in self._running if one.is_at(key, stream)]
        found = next((one for one in there if one.label == label), None)
        if found is None:
            names = ", ".join(one.label for one in there) or "none"
            attempt.refuse(
                InputError("no-source", f"{stream} of {key.plan} has no source {label} now; it has: {names}")
            )
        elif not isinstance(found.source, ReplayableSource):
            attempt.refuse(
                InputError("no-source", found.error or f"the source {label} of {stream} does not accept events again")
            )
        else:
            found.source.replay(batch, attempt)

    def retry(self, now_ms: int) -> None:
        """Let all sources retry batches that found no room."""
        for source in self._sources():
            source.retry(now_ms)

    def tick(self, now_ms: int) -> None:
        """Tick all sources."""
        for source in self._sources():
            source.tick(now_ms)
        for place, running in enumerate(self._running):
            if running.source is None and now_ms - running.tried_ms >= REMAKE_MS:
                self._running[place] = self._start(running.declared, running.label, now_ms)

    def close(self) -> None:
        """Close all sources."""
        for source in self._sources():
            source.close()
        self._running = []

    def _sources(self) -> list[EventSource]:
        return [running.source for running in self._running if running.source is not None]

    def _start(self, declaration: DeclaredConnector, label: str, now_ms: int) -> _RunningSource:
        context = replace(self._context(declaration), label=label)
        where = f"{declaration.plan().topology()} {declaration.connector.stream} {label}"
        attributes = [name for name, _ in declaration.stream.schema.attributes]
        try:
            connector = with_secrets(declaration, self._secrets)
            refuse_faults("source", connector, attributes, context.where())
            if context.guard is not None:
                refuse_reach("source", connector, context.guard, context.where(), declaration.given)
            context = replace(context, declared=replace(declaration, connector=connector))
            source = SOURCE_TYPES[connector.type](context)
        except CepError as error:
            paced_logger.problem(where, "source cannot run: %s", error, level=logging.ERROR)
            return _RunningSource(declaration, None, error.message, label, now_ms)
        paced_logger.over(where, "source can run now: %s", context.where())
        return _RunningSource(declaration, source, "", label, now_ms)


def _alike(one: DeclaredConnector, other: DeclaredConnector) -> bool:
    """Return whether both declare the same source, perhaps for other plans or a renamed plan.

    A path that contains the name of the plan makes another source, and so does another delivery.
    """
    if one.delivery != other.delivery:
        return False
    if one.connector.type == "http" and "receiver.url" not in one.connector.options and not _same_names(one, other):
        return False
    return one.is_like(other)


def _same_names(one: DeclaredConnector, other: DeclaredConnector) -> bool:
    return one.plan().plan == other.plan().plan
