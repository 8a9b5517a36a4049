"""Find the partition instances of events."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from siddhi.analysis import model
from siddhi.column_names import internal_name
from siddhi.engine.columnar.batch import EventBatch, renumber_chunks
from siddhi.engine.columnar.column import Column
from siddhi.engine.jit.arrays import Int64Array
from siddhi.engine.operators.base.operator import Step
from siddhi.engine.operators.expressions.compiler import ExpressionCompiler
from siddhi.engine.operators.expressions.evaluation import Evaluation, ExpressionNode, to_column
from siddhi.engine.operators.expressions.leaves import ColumnNode
from siddhi.engine.operators.filters import drop_failed
from siddhi.engine.operators.node import AppNode
from siddhi.engine.operators.partitions.key_index import KeyIndex
from siddhi.engine.operators.partitions.registry import PartitionInstances
from siddhi.language.ast import AttributeType


def keyed_stream(partition: str, stream: str) -> str:
    """Return the stream on which the queries of `partition` see the events of `stream`, each with its instance."""
    return f"{internal_name(partition)}@{stream}"


class KeyedStream(AppNode):
    """Assigns each event of a stream to its instance.

    Events without a key are dropped, and each run of one key is a chunk.
    """

    inserts = False
    hands_in = True

    def __init__(
        self,
        partition: str,
        stream: str,
        key: model.PartitionKey,
        instances: PartitionInstances,
        compiler: ExpressionCompiler,
    ) -> None:
        self.name = keyed_stream(partition, stream)
        self.target = self.name
        self.sources = (stream,)
        self.arrival = (0,)
        self.instances = instances
        self.splits = True
        self.splits_chunks = key.expression is not None
        self.pool = compiler.context.pool
        self.node = None if key.expression is None else compiler.compile(key.expression)
        self.computes = not isinstance(self.node, ColumnNode)
        self.ranges = [compiler.compile(node) for node, _ in key.ranges]
        self.labels = pa.array([label for _, label in key.ranges], pa.utf8())
        self.index = KeyIndex(AttributeType.STRING if self.node is None else self.node.type, instances)
        self.parts = (self.index,)

    def process(self, inputs: Sequence[EventBatch], step: Step) -> EventBatch:
        (batch,) = inputs
        others = self.instances.opened_in(step)
        picked = self._by_range(batch, step) if self.node is None else self._by_value(batch, self.node, step)
        self.instances.note_events(picked, step, brings_forward=others)
        return picked

    def _by_value(self, batch: EventBatch, node: ExpressionNode, step: Step) -> EventBatch:
        if isinstance(node, ColumnNode):
            column = batch.columns[node.column]
        else:
            evaluation = Evaluation(batch)
            column = to_column(node.evaluate(evaluation), node.type, self.pool, batch.size)
            if evaluation.failed is not None:
                left = np.flatnonzero(drop_failed(evaluation, step))
                batch, column = batch.take(left), column.take(left)
        ids, complete = self.index.ids(column, batch, step)
        if complete:
            return with_instances(batch, ids)
        rows = np.flatnonzero(ids >= 0)
        return with_instances(batch.take(rows), ids[rows])

    def _by_range(self, batch: EventBatch, step: Step) -> EventBatch:
        evaluation = Evaluation(batch)
        truths = np.column_stack([node.truth(evaluation) for node in self.ranges])
        if evaluation.failed is not None:
            truths &= drop_failed(evaluation, step)[:, np.newaxis]
        rows, places = np.nonzero(truths)
        picked = batch.take(rows)
        labels = Column(AttributeType.STRING, self.pool, arrow=self.labels.take(pa.array(places)))
        ids, _ = self.index.ids(labels, picked, step)
        return with_instances(picked, ids)


class SharedStream(AppNode):
    """Sends every event of a stream without a key to each instance known so far."""

    inserts = False
    hands_in = True
    splits = True

    def __init__(self, partition: str, stream: str, instances: PartitionInstances) -> None:
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
        return with_instances(batch.take(np.array(rows, dtype=np.int64)), np.array(ids, dtype=np.int64))


def with_instances(batch: EventBatch, ids: Int64Array) -> EventBatch:
    """Return the rows of `batch` in the instances `ids`.

    Adjacent rows of one chunk and one instance are a chunk.
    """
    picked = batch.with_partitions(ids)
    if batch.chunks is None or not batch.size:
        return picked
    chunks = batch.chunks
    starts = np.ones(batch.size, dtype=np.int64)
    starts[1:] = (chunks[1:] != chunks[:-1]) | (ids[1:] != ids[:-1])
    return picked.with_chunks(np.cumsum(starts))
