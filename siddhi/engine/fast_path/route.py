"""The interface of routes, the parts of a fast path."""

from __future__ import annotations

from typing import Protocol

import pyarrow as pa

from siddhi.engine.ingest.batch_reader import RecordLayout
from siddhi.engine.streams.clock import AppClock

Outcome = tuple[int, int]
"""The number of results, and the latest timestamp of the input rows."""


class FastRoute(Protocol):
    """A route for the rows of a batch through one query, from the input record batch to the output one.

    It accepts up to `most_rows` rows. It adds the `strings` of all rows, attributes of these names, to the app's pool.
    """

    most_rows: int
    strings: frozenset[str]

    def lay_out(self, layout: RecordLayout) -> None:
        """Prepare for batches with the columns of `layout`, which has timestamps and needs no casts."""

    def run(self, records: pa.RecordBatch, rows: int, clock: AppClock, *, written: bool) -> Outcome | None:
        """Process the `rows` rows of `records`, at least one, and return the result; `clock` is the app's clock.

        With `written` any results will be read by `give`. Return None when the rows must take the general path: then
        the state of the query is unchanged.
        """

    def give(self) -> pa.RecordBatch:
        """Return the results of the last `run`.

        Raise OverflowError when a column would have 2 GiB of text or more; the query has processed its rows all the
        same.
        """
