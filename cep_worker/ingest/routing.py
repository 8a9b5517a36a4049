"""A route: where the events of one source go, to one inflow or, when plans share an event stream, to several."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any

import pyarrow as pa

from cep_common.errors import InputError
from cep_worker.inflows.inflow import Inflow
from cep_worker.ingest.tenant_limits import RateLimit
from cep_worker.plans.streams import Attributes, SchemaFit
from cep_worker.storage.records import BatchOrigin
from topology.events.conversion import conversion_problem


class Route:
    """Passes batches with the attributes `offered` to `inflows`, with the columns in the order of each inflow.

    Either every inflow takes a batch or none does, so that a source can wait or retry. `limit` is the rate limit of the
    tenant that owns all the inflows. Events read just before an edit changed the attributes of the stream are
    converted.
    """

    def __init__(self, source: Hashable, offered: Attributes, inflows: Sequence[Inflow], limit: RateLimit) -> None:
        """Lead `source` to `inflows`.

        Raises:
            InputError: `schema-mismatch`, an inflow cannot take events with the attributes `offered`.
        """
        self.source = source
        self.limit = limit
        self.inflows = tuple(inflows)
        self._fits: list[SchemaFit | None] = []
        for inflow in self.inflows:
            wanted = inflow.binding.attributes
            if problem := conversion_problem(offered, wanted):
                raise InputError("schema-mismatch", f"stream {inflow.binding.stream} was edited: {problem}")
            self._fits.append(None if offered == wanted else SchemaFit(wanted))

    def has_room(self) -> bool:
        """Return whether all inflows would take a batch now, and the tenant may send one."""
        return self.limit.has_room() and all(inflow.has_room() for inflow in self.inflows)

    def join(self, now_ms: int) -> None:
        """Register the source with the inflows."""
        for inflow in self.inflows:
            inflow.join(self.source, now_ms)

    def offer(
        self, batch: pa.RecordBatch, body: Any, promised_ms: int, now_ms: int, origin: BatchOrigin | None = None
    ) -> None:
        """Give `batch` to all inflows, once if it has an `origin`; the caller has asked `has_room`.

        Raises:
            WalFullError: one of them cannot take it now; none has taken it then.
            BatchTooLargeError: one of them can never take it; none has taken it then.
        """
        prepared = []
        for inflow, fit in zip(self.inflows, self._fits, strict=True):
            if origin is not None and inflow.has_taken(origin):
                inflow.pass_over(self.source, batch, promised_ms, now_ms)
            elif fit is None:
                body = inflow.prepare(batch, body, origin)  # encoded once for all
                prepared.append((inflow, batch, body))
            else:
                ordered = fit.fitted(batch)
                prepared.append((inflow, ordered, inflow.prepare(ordered, None, origin)))
        if prepared:
            self.limit.take(batch.num_rows)
        for inflow, ordered, its_body in prepared:
            inflow.offer(self.source, ordered, its_body, promised_ms, now_ms, origin)

    def newest_of(self, source: bytes) -> int | None:
        """Return the number of the newest batch of the source that all inflows have taken, if there is one."""
        numbers = [inflow.newest_of(source) for inflow in self.inflows]
        known = [number for number in numbers if number is not None]
        return min(known) if known and len(known) == len(numbers) else None

    def rest(self) -> None:
        """Mark the source as idle."""
        for inflow in self.inflows:
            inflow.rest(self.source)

    def leave(self) -> None:
        """Unregister the source."""
        for inflow in self.inflows:
            inflow.leave(self.source)
