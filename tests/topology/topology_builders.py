"""Small batches, bundles and plans for the tests of this folder."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pyarrow as pa

from cep_common.ids import PlanKey
from cep_common.protocol.links import StreamSchema
from query_plan.model import (
    Grouping,
    ProcessingStage,
    PublisherStage,
    QueryPlan,
    ReceiverStage,
    StageInput,
)
from siddhi.language import ast
from topology.acks import Ack
from topology.events.bundle import Bundle
from topology.events.frames import CURRENT, arrow_schema
from topology.events.watermarks import NO_WATERMARK
from topology.model import Topology
from topology.stages.kinds.processor import Processor

KEY = PlanKey(-1234, "P")
EPOCH = 7
NUMBER = (("number", "long"),)


def schema_of(stream: str) -> StreamSchema:
    """The schema of every stream here: one attribute, `number`."""
    return StreamSchema(stream, NUMBER)


def numbers(stream: str, rows: Sequence[tuple[int, int]]) -> pa.RecordBatch:
    """A batch of (time, number) rows."""
    columns = [
        pa.array([time for time, _ in rows], pa.int64()),
        pa.array([CURRENT] * len(rows), pa.int8()),
        pa.array([number for _, number in rows], pa.int64()),
    ]
    return pa.record_batch(columns, schema=arrow_schema(schema_of(stream)))


def rows_of(batch: pa.RecordBatch) -> list[tuple[int, int]]:
    return list(zip(batch.column("_timestamp").to_pylist(), batch.column("number").to_pylist(), strict=True))


def bundle(
    *batches: tuple[str, Sequence[tuple[int, int]]],
    origin: str = "EventReceiver#0",
    source: str = "",
    ticket: int = 0,
    channel: str = "c",
    streams: tuple[str, ...] | None = None,
    watermark_ms: int = NO_WATERMARK,
    idle: bool = False,
    settled: Callable[[], None] | None = None,
    full: bool = False,
) -> Bundle:
    """A bundle of (stream, rows) batches; its streams are those of the batches unless given."""
    return Bundle(
        source=source or origin,
        origin=origin,
        ticket=ticket,
        channel=channel,
        streams=tuple(stream for stream, _ in batches) if streams is None else streams,
        watermark_ms=watermark_ms,
        idle=idle,
        batches=tuple((stream, numbers(stream, rows)) for stream, rows in batches),
        receipt=None if settled is None else Ack(settled),
        full=full,
    )


def stream(name: str) -> ast.StreamDefinition:
    return ast.StreamDefinition(name, (ast.AttributeDefinition("number", ast.AttributeType.LONG),))


def stage(
    name: str, inputs: Sequence[tuple[str, Grouping]], outputs: Sequence[str], parallel: int = 1
) -> ProcessingStage:
    return ProcessingStage(
        name=name,
        parallel=parallel,
        enforce_parallel=False,
        inputs=tuple(StageInput(stream(one), grouping) for one, grouping in inputs),
        outputs=tuple(stream(one) for one in outputs),
        elements=(),
    )


def plan_of(
    imported: Sequence[str],
    stages: Sequence[ProcessingStage],
    exported: Sequence[str],
    receivers: int = 1,
    publishers: int = 1,
) -> QueryPlan:
    return QueryPlan(
        name="P",
        receiver=ReceiverStage(receivers, tuple(stream(one) for one in imported)),
        processors=tuple(stages),
        triggers=(),
        publisher=PublisherStage(publishers, tuple(stream(one) for one in exported)),
    )


def topology_of(plan: QueryPlan, tasks: int = 1) -> Topology:
    return Topology(KEY, EPOCH, plan, tasks)


def open_links(processor: Processor, now_ms: int) -> None:
    """A worker has opened a link for each stream that the stage takes in, and nothing waits there."""
    receiver = "EventReceiver#0"
    for ticket, one in enumerate(processor.inputs):
        opened = Bundle(receiver, receiver, ticket, f"worker/{one}", (one,), idle=True)
        processor.on_bundle(opened, now_ms)
