"""How events find their partition instances."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import numpy as np

from siddhi.analysis import model
from siddhi.engine.arrays import Int64Array
from siddhi.engine.batch import EventBatch, renumber_chunks
from siddhi.engine.expressions.compiler import ExpressionCompiler
from siddhi.engine.expressions.evaluation import Evaluation, Node, to_column
from siddhi.engine.filters import drop_failed
from siddhi.engine.functions.conversion import java_text
from siddhi.engine.node import Node as GraphNode
from siddhi.engine.operator import Step
from siddhi.engine.partitions.registry import Instances


def keyed_stream(partition: str, stream: str) -> str:
    """The stream on which the queries of `partition` see the events of `stream`, each with its instance."""
    return f"{partition}@{stream}"


class KeyedStream(GraphNode):
    """Gives the events of a stream their instance; events without a key stay behind, runs of one key are chunks."""

    inserts = False

    def __init__(
        self, partition: str, stream: str, key: model.PartitionKey, instances: Instances, compiler: ExpressionCompiler
    ) -> None:
        self.name = keyed_stream(partition, stream)
        self.target = self.name
        self.sources = (stream,)
        self.arrival = (0,)
        self.instances = instances
        self.parts = ()
        self.splits = True
        self.pool = compiler.context.pool
        self.node = None if key.expression is None else compiler.compile(key.expression)
        self.ranges: list[tuple[Node, str]] = [(compiler.compile(node), label) for node, label in key.ranges]

    def process(self, inputs: Sequence[EventBatch], step: Step) -> EventBatch:
        (batch,) = inputs
        evaluation = Evaluation(batch)
        rows, ids = self._by_value(evaluation, step) if self.node is not None else self._by_range(evaluation, step)
        if evaluation.failed is not None:
            left = drop_failed(evaluation, step)[rows]
            rows, ids = rows[left], ids[left]
        self.instances.note_events(ids, batch.clocks[rows])
        return with_instances(batch, rows, ids)

    def _by_value(self, evaluation: Evaluation, step: Step) -> tuple[Int64Array, Int64Array]:
        batch, node = evaluation.batch, self.node
        assert node is not None  # noqa: S101 - the caller has looked
        column = to_column(node.evaluate(evaluation), node.type, self.pool, batch.size)
        rows = np.arange(batch.size) if column.valid is None else np.flatnonzero(column.valid)
        values = column.values[rows]
        distinct, first, inverse = np.unique(values, return_index=True, return_inverse=True)
        texts = column.take(rows[first]).to_list()
        ids = np.empty(len(distinct), dtype=np.int64)
        for place in np.argsort(first).tolist():
            row = int(rows[first[place]])
            key = java_text(texts[place], node.type) or ""
            ids[place] = self.instances.id_of(key, step, int(batch.orders[row]), int(batch.clocks[row]))
        return rows, ids[inverse]

    def _by_range(self, evaluation: Evaluation, step: Step) -> tuple[Int64Array, Int64Array]:
        batch = evaluation.batch
        truths = np.column_stack([node.truth(evaluation) for node, _ in self.ranges])
        rows, places = np.nonzero(truths)
        ids = np.empty(len(rows), dtype=np.int64)
        for at, (row, place) in enumerate(zip(rows.tolist(), places.tolist(), strict=True)):
            label = self.ranges[place][1]
            ids[at] = self.instances.id_of(label, step, int(batch.orders[row]), int(batch.clocks[row]))
        return rows, ids


class SharedStream(GraphNode):
    """Gives every event of a stream without key to each instance known so far."""

    inserts = False
    splits = True

    def __init__(self, partition: str, stream: str, instances: Instances) -> None:
        self.name = keyed_stream(partition, stream)
        self.target = self.name
        self.sources = (stream,)
        self.arrival = (0,)
        self.instances = instances
        self.parts = ()

    def process(self, inputs: Sequence[EventBatch], step: Step) -> EventBatch:
        (batch,) = inputs
        known = self.instances.in_order()
        chunks = renumber_chunks(batch.chunk_ids())
        rows: list[int] = []
        ids: list[int] = []
        starts = np.searchsorted(chunks, np.arange(int(chunks[-1]) + 2 if len(chunks) else 1)).tolist()
        for start, stop in itertools.pairwise(starts):
            for instance in known:
                rows.extend(range(start, stop))
                ids.extend([instance] * (stop - start))
        return with_instances(batch, np.array(rows, dtype=np.int64), np.array(ids, dtype=np.int64))


def with_instances(batch: EventBatch, rows: Int64Array, ids: Int64Array) -> EventBatch:
    """The rows `rows` of `batch` in the instances `ids`; neighbours of one chunk and one instance are a chunk."""
    picked = batch.take(rows).with_partitions(ids)
    if batch.chunks is None or not len(rows):
        return picked
    chunks = picked.chunk_ids()
    starts = np.ones(len(rows), dtype=np.int64)
    starts[1:] = (chunks[1:] != chunks[:-1]) | (ids[1:] != ids[:-1])
    return picked.with_chunks(np.cumsum(starts))
