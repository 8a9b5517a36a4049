"""A plan whose query fails for some departures, and the failed events that it gives."""

from __future__ import annotations

import json

import msgspec
import pyarrow as pa
from worker_world import DEPARTURES, PLAN

from cep_common.protocol.links import StreamSchema
from cep_common.protocol.registry import Connector, DeployedPlan, StreamBinding
from topology.events.frames import arrow_schema

FAULTS = (*DEPARTURES, ("_error", "object"))


def storing(imported: tuple[StreamBinding, ...] = PLAN.imported) -> DeployedPlan:
    """A plan as the compiler makes it of a stream with `@OnError(action='STORE')`."""
    return msgspec.structs.replace(
        PLAN,
        imported=imported,
        exported=(*PLAN.exported, StreamBinding("Departures_errors", "Departures_errors", FAULTS)),
        sinks=(Connector("Departures_errors", "error-store", {"stream": "Departures"}, "", {}),),
    )


def faults(*rows: tuple[int, str, int, str]) -> pa.RecordBatch:
    """Failed departures of (timestamp, carrier, dep_delay, message)."""
    schema = arrow_schema(StreamSchema("Departures_errors", FAULTS))
    told = [json.dumps({"query": "Ratios", "message": message}).encode() for *_, message in rows]
    columns = [[row[0] for row in rows], [0] * len(rows), [row[1] for row in rows], [row[2] for row in rows]]
    columns += [[1.5] * len(rows), told]
    arrays = [pa.array(column, field.type) for column, field in zip(columns, schema, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)
