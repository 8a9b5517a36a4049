"""What a short cut consists of."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import pyarrow as pa

from siddhi.engine.inlet import Layout

Outcome = tuple[int, int, Sequence[pa.RecordBatch]]
"""How many results there are, the latest timestamp of the rows that came, and the results in batches, if these are to
be written."""


class Way(Protocol):
    """Takes the rows of a batch through one query, from the record batch that comes to those that leave, where there
    are no more than `most_rows`."""

    most_rows: int

    def lay_out(self, layout: Layout) -> None:
        """Batches have their columns as `layout` says, which has timestamps and nothing to be cast."""

    def run(self, records: pa.RecordBatch, rows: int, clock: int, *, written: bool) -> Outcome | None:
        """What comes of the `rows` rows of `records`, at least one; the app's clock stands at `clock`. Nobody has been
        told yet. None when these have to go the long way: then nothing has happened."""
