"""The events of simulations: each has a number of its own."""

from __future__ import annotations

import pyarrow as pa

from cep_common.protocol.links import StreamSchema
from topology.events.frames import CURRENT, arrow_schema

SCHEMA = arrow_schema(StreamSchema("In", (("number", "long"),)))


def batch_of(ids: list[int]) -> pa.RecordBatch:
    """The events with these numbers."""
    kinds = pa.array([CURRENT] * len(ids), pa.int8())
    times, numbers = pa.array(ids, pa.int64()), pa.array(ids, pa.int64())
    return pa.RecordBatch.from_arrays([times, kinds, numbers], schema=SCHEMA)


def ids_of(batch: pa.RecordBatch) -> list[int]:
    """The numbers of the events in a batch."""
    return list(batch.column(2).to_pylist())
