"""Event traces: the input and output events of a plan in the worker's log, while the trace is on."""

from __future__ import annotations

import json
import logging
from typing import Literal

import pyarrow as pa

from cep_common.ids import PlanKey
from cep_common.protocol.registry import StreamBinding
from topology.events.frames import event_rows

logger = logging.getLogger("cep.trace")

EVENTS_A_SECOND = 100
"""The maximum number of a stream's events that are written per second, so that a trace does not overload the worker."""

SECOND_MS = 1_000


class EventTrace:
    """Writes the events of one stream of a plan to the log, and the number of events that exceed the limit."""

    def __init__(self, key: PlanKey, binding: StreamBinding, moment: Literal["before", "after"]) -> None:
        self.on = False
        self._what = f"plan={key.topology()} stream={binding.event_stream} ({binding.stream})"
        self._moment = f"{moment} processing"
        self._second = 0
        self._written = 0
        self._omitted = 0

    def note(self, batch: pa.RecordBatch, now_ms: int) -> None:
        """Write the events of `batch`, up to the limit of this second."""
        if now_ms // SECOND_MS != self._second:
            if self._omitted:
                logger.info("%s %s: %d further events in that second", self._what, self._moment, self._omitted)
            self._second, self._written, self._omitted = now_ms // SECOND_MS, 0, 0
        shown = batch.slice(0, EVENTS_A_SECOND - self._written)
        for event in event_rows(shown):
            logger.info("%s %s: %s", self._what, self._moment, json.dumps(event, default=repr))
        self._written += shown.num_rows
        self._omitted += batch.num_rows - shown.num_rows
