"""The route of a source's events to one inflow, or to several when plans share an event stream."""

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
    """Passes batches with the attributes `offered` to `inflows`, in the column order of each.

    Either every inflow takes a batch or none does, so that a source can wait or retry. `limit` is the rate limit of the
    tenant that owns all the inflows. Events read just before an edit changed the attributes of the stream are
    converted.
    """

    def __init__(self, source: Hashable, offered: Attributes, inflows: Sequence[Inflow], limit: RateLimit) -> None:
        """Create a route from `source` to `inflows`.

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
        """Return whether all inflows have room for a batch, and the tenant is below its limit."""
        return self.limit.has_room() and all(inflow.has_room() for inflow in self.inflows)

    def join(self, now_ms: int) -> None:
        """Register the source with the inflows."""
        for inflow in self.inflows:
            inflow.join(self.source, now_ms)

    def offer(
        self, batch: pa.RecordBatch, body: Any, promised_ms: int, now_ms: int, origin: BatchOrigin | None = None
    ) -> None:
        """Pass `batch` to all inflows, once if it has an `origin`. Call `has_room` first.

        Raises:
            WalFullError: an inflow cannot accept it now; none has accepted it.
            BatchTooLargeError: an inflow can never accept it; none has accepted it.
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
        """Return the number of the source's newest batch that all inflows have accepted, if there is one."""
        numbers = [inflow.newest_of(source) for inflow in self.inflows]
        known = [number for number in numbers if number is not None]
        return min(known) if known and len(known) == len(numbers) else None

    def rest(self) -> None:
        """Mark the source as idle."""
        for inflow in self.inflows:
            inflow.rest(self.source)

    def note_more(self, now_ms: int, *, more: bool) -> None:
        """Note whether the source has more to send, for which event time waits however long it takes."""
        for inflow in self.inflows:
            inflow.note_more(self.source, now_ms, more=more)

    def leave(self) -> None:
        """Unregister the source."""
        for inflow in self.inflows:
            inflow.leave(self.source)
