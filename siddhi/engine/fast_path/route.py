"""What a short cut consists of."""

from __future__ import annotations

from typing import Protocol

import pyarrow as pa

from siddhi.engine.ingest.batch_reader import RecordLayout
from siddhi.engine.streams.clock import AppClock

Outcome = tuple[int, int]
"""How many results there are, and the latest timestamp of the rows that came."""


class FastRoute(Protocol):
    """Takes the rows of a batch through one query, from the record batch that comes to the one that leaves, where there
    are no more than `most_rows`. It puts the `strings` of all rows, attributes of these names, into the app's pool."""

    most_rows: int
    strings: frozenset[str]

    def lay_out(self, layout: RecordLayout) -> None:
        """Batches have their columns as `layout` says, which has timestamps and nothing to be cast."""

    def run(self, records: pa.RecordBatch, rows: int, clock: AppClock, *, written: bool) -> Outcome | None:
        """Return what comes of the `rows` rows of `records`, at least one, where `clock` is the app's clock; `written`
        says that the results will be asked for if there are any, by `give`. None when the rows have to go the long way:
        then nothing has happened to the query."""

    def give(self) -> pa.RecordBatch:
        """Return the results of the last `run`. OverflowError when a column would have 2 GiB of text or more: the query
        has had its rows all the same."""
