"""The streams and instances of one partition."""

from __future__ import annotations

from collections.abc import Sequence

from siddhi.analysis import model
from siddhi.column_names import internal_name
from siddhi.engine.jit.arrays import Int64Array
from siddhi.engine.operators.base.operator import OperatorContext
from siddhi.engine.operators.environment import Environment
from siddhi.engine.operators.expressions.compiler import ExpressionCompiler
from siddhi.engine.operators.node import AppNode
from siddhi.engine.operators.partitions.keys import KeyedStream, SharedStream, keyed_stream
from siddhi.engine.operators.partitions.registry import PartitionInstances, PurgeRule


class PartitionPlace:
    """One partition of an app.

    Inner streams are named "`partition`#id", outer ones "`partition`@id".
    """

    def __init__(self, analysed: model.AnalysedPartition) -> None:
        self.analysed = analysed
        self.name = analysed.name
        self.instances = PartitionInstances(_purge_rule(analysed))
        self._nodes: Sequence[AppNode] = ()
        self._inner = {f"#{schema.id}" for schema in analysed.inner_streams}

    def stream(self, key: str) -> str:
        """Return the name of the stream `key` for the queries inside."""
        return self.target(key) if key in self._inner else keyed_stream(self.name, key)

    def target(self, key: str) -> str:
        """Return the name of the stream `key` that a query inside inserts into."""
        return f"{internal_name(self.name)}{key}" if key in self._inner else key

    def entrances(
        self, queries: Sequence[AppNode], context: OperatorContext, environment: Environment
    ) -> list[AppNode]:
        """Return the nodes through which outer streams enter.

        A stream of `partition with` that no query inside reads has no node, so its events create no instances, as in
        Siddhi.
        """
        prefix = keyed_stream(self.name, "")
        sources = [source for query in queries for source in query.sources if source.startswith(prefix)]
        read = dict.fromkeys(source.removeprefix(prefix) for source in sources)
        keys = {key.stream: key for key in self.analysed.keys}
        streams = dict.fromkeys([*(stream for stream in keys if stream in read), *read])
        shared = any(stream not in keys for stream in streams)
        nodes: list[AppNode] = []
        for stream in streams:
            if stream in keys:
                environment.looked_into = set()
                compiler = ExpressionCompiler(context, in_table=environment.in_table)
                node: AppNode = KeyedStream(self.name, stream, keys[stream], self.instances, compiler)
                node.reads = frozenset(environment.looked_into)
                node.writes = frozenset({prefix}) if shared else frozenset()
            else:
                node = SharedStream(self.name, stream, self.instances)
                node.reads = frozenset({prefix})
            nodes.append(node)
        nodes[0].parts = (self.instances, *nodes[0].parts)
        self._nodes = [*nodes, *queries]
        return nodes

    def next_purge_ms(self, opening_clock: int | None = None) -> int:
        """Return the time of the next purge, as `PartitionInstances.next_purge_ms` does."""
        return self.instances.next_purge_ms(opening_clock)

    def purge(self, clock: int) -> None:
        """Drop the instances that are idle at `clock`, with all their state inside."""
        self._close(self.instances.give_up(clock))

    def drop(self, instances: Int64Array) -> None:
        """Drop these instances, with all their state inside."""
        self.instances.drop(instances)
        self._close(instances)

    def _close(self, gone: Int64Array) -> None:
        if len(gone):
            for node in self._nodes:
                node.close_partitions(gone)


def _purge_rule(analysed: model.AnalysedPartition) -> PurgeRule | None:
    if analysed.purge_interval_ms is None or analysed.purge_idle_ms is None:
        return None
    return PurgeRule(max(analysed.purge_interval_ms, 1), analysed.purge_idle_ms)
