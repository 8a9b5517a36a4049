"""Where the queries of a partition find their streams, and which instances there are."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from siddhi.analysis import model
from siddhi.engine.node import Node
from siddhi.engine.operator import OperatorContext, Step
from siddhi.engine.partitions.keys import Instances, KeyedStream, SharedStream, keyed_stream


class PartitionPlace:
    """One partition of an app. Inner streams are called `<partition>#<id>`, outer ones come in as
    `<partition>@<id>`."""

    def __init__(self, analysed: model.AnalysedPartition) -> None:
        self.analysed = analysed
        self.name = analysed.name
        self.instances = Instances()
        self._inner = {f"#{schema.id}" for schema in analysed.inner_streams}

    def stream(self, key: str) -> str:
        """What the stream `key` is called for the queries inside."""
        return self.target(key) if key in self._inner else keyed_stream(self.name, key)

    def target(self, key: str) -> str:
        """What the stream `key` that a query inside inserts into is called."""
        return f"{self.name}{key}" if key in self._inner else key

    def entrances(self, queries: Sequence[Node], context: OperatorContext) -> list[Node]:
        """The nodes through which outer streams come in."""
        prefix = keyed_stream(self.name, "")
        read = dict.fromkeys(source for query in queries for source in query.sources if source.startswith(prefix))
        keys = {key.stream: key for key in self.analysed.keys}
        streams = dict.fromkeys([*keys, *(source.removeprefix(prefix) for source in read)])
        shared = any(stream not in keys for stream in streams)
        nodes: list[Node] = []
        for stream in streams:
            if stream in keys:
                node: Node = KeyedStream(self.name, stream, keys[stream], self.instances, context)
                node.writes = frozenset({prefix}) if shared else frozenset()
            else:
                node = SharedStream(self.name, stream, self.instances)
                node.reads = frozenset({prefix})
            nodes.append(node)
        nodes[0].parts = (self.instances,)
        return nodes

    def step(self, step: Step, known: int) -> Step:
        """`step` for a query that has been told of the first `known` instances, with those it has not."""
        new = self.instances.opened[known:]
        if not new:
            return step
        orders = np.array([order if of is step else 0 for of, order, _ in new], dtype=np.int64)
        clocks = np.array([clock for _, _, clock in new], dtype=np.int64)
        place = np.argsort(orders, kind="stable")
        return replace(step, opened=known + place, opened_orders=orders[place], opened_clocks=clocks[place])
