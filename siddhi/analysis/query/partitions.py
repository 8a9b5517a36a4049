"""Partitions: keys of streams, and queries with separate state for each key."""

from __future__ import annotations

from dataclasses import replace

from siddhi.analysis.context import Context
from siddhi.analysis.definition.annotations import partition_purge
from siddhi.analysis.expression.scope import Scope, Slot
from siddhi.analysis.model import AnalysedPartition, AnalysedQuery, PartitionKey, Schema, SourceKind
from siddhi.language import ast


def analyse_keys(context: Context, partition: ast.Partition) -> tuple[PartitionKey, ...]:
    """Return the key of each listed stream."""
    keys: dict[str, PartitionKey] = {}
    for key in partition.keys:
        typed = _analyse_key(context, key)
        if key.stream in keys:
            message = f"stream '{key.stream}' has two partition keys"
            context.problems.add("duplicate-partition-key", message, key.span)
        elif typed is not None:
            keys[key.stream] = typed
    return tuple(keys.values())


def keyed_partition(context: Context, partition: ast.Partition) -> ast.Partition:
    """Return the partition without keys of undefined streams.

    Siddhi 3 ignores these if at least one key remains.
    """
    symbols = context.symbols
    known = tuple(
        key for key in partition.keys if key.stream in symbols.broken or symbols.kind_of(key.stream) is not None
    )
    return replace(partition, keys=known) if context.dialect_3x and known else partition


def _analyse_key(context: Context, key: ast.ValuePartition | ast.RangePartition) -> PartitionKey | None:
    found = context.symbols.find_source(ast.SingleInput(key.stream, span=key.span), context.problems)
    if found is None:
        return None
    kind, name, schema = found
    if kind in {SourceKind.TABLE, SourceKind.AGGREGATION}:
        message = f"{kind.value} '{name}' has no events that could have a key"
        context.problems.add("not-a-stream", message, key.span, "give keys to streams and named windows")
        return None
    scope = Scope(
        (Slot(0, name, schema),), aggregates=False, place="a partition key", loose=context.dialect_3x, events=False
    )
    expressions = context.expressions(scope)
    if isinstance(key, ast.ValuePartition):
        typed = expressions.analyse(key.expression)
        return PartitionKey(name, typed) if typed is not None else None
    ranges = []
    for condition, label in key.ranges:
        typed = expressions.analyse_test(condition, "the condition of a range", "bare-range")
        if typed is not None:
            ranges.append((typed, label))
    return PartitionKey(name, ranges=tuple(ranges))


def finish_partition(
    context: Context,
    partition: ast.Partition,
    name: str,
    keys: tuple[PartitionKey, ...],
    queries: tuple[AnalysedQuery, ...],
    inner_streams: dict[str, Schema],
) -> AnalysedPartition:
    """Return the partition with its parts and its purge settings."""
    purge = partition_purge(partition.annotations, context.problems)
    return AnalysedPartition(
        name, keys, queries, tuple(inner_streams.values()), purge.interval_ms, purge.idle_ms, syntax=partition
    )
