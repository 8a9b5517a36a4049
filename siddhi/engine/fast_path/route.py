"""The interface of the routes that a fast path consists of."""

from __future__ import annotations

from typing import Protocol

import pyarrow as pa

from siddhi.engine.ingest.batch_reader import RecordLayout
from siddhi.engine.streams.clock import AppClock

Outcome = tuple[int, int]
"""The number of results, and the latest timestamp of the input rows."""


class FastRoute(Protocol):
    """A route for the rows of a batch through one query, from the input record batch to the output one.

    It takes no more than `most_rows` rows. It adds the `strings` of all rows, attributes of these names, to the app's
    pool.
    """

    most_rows: int
    strings: frozenset[str]

    def lay_out(self, layout: RecordLayout) -> None:
        """Prepare for batches with the columns of `layout`, which has timestamps and nothing to be cast."""

    def run(self, records: pa.RecordBatch, rows: int, clock: AppClock, *, written: bool) -> Outcome | None:
        """Return the result of the `rows` rows of `records`, at least one, where `clock` is the app's clock.

        With `written` any results will be read by `give`. Return None when the rows have to take the general path:
        then the query has not changed.
        """

    def give(self) -> pa.RecordBatch:
        """Return the results of the last `run`.

        Raise OverflowError when a column would have 2 GiB of text or more; the query has processed its rows all the
        same.
        """
