"""From the join of a query to its operator."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from siddhi.analysis import model
from siddhi.engine.aggregation.reader import AggregationReader
from siddhi.engine.arrays import Int64Array
from siddhi.engine.batch import Column
from siddhi.engine.chain import build_chain
from siddhi.engine.environment import Environment
from siddhi.engine.expressions.compiler import ExpressionCompiler
from siddhi.engine.joins.join import Contents, JoinOperator, Side
from siddhi.engine.operator import OperatorContext
from siddhi.engine.scope import source_key
from siddhi.engine.strings import StringPool
from siddhi.engine.tables.table import Table
from siddhi.engine.windows.window import Window
from siddhi.language.ast import AttributeType, JoinKind

_STATIC = (model.SourceKind.TABLE, model.SourceKind.WINDOW)


def build_join(
    join: model.Join, compiler: ExpressionCompiler, context: OperatorContext, environment: Environment
) -> JoinOperator:
    """The operator of `join` for a selection compiled with `compiler`."""
    on = None if join.on is None else compiler.compile(join.on)
    unmatched = (
        join.kind in (JoinKind.LEFT_OUTER, JoinKind.FULL_OUTER),
        join.kind in (JoinKind.RIGHT_OUTER, JoinKind.FULL_OUTER),
    )
    reader = _aggregation_reader(join, context, environment)
    if reader is not None:
        compiler.columns |= reader.columns
    left, right = (
        _side(slot, source, compiler, context, environment, join.triggers[slot], unmatched[slot], reader)
        for slot, source in enumerate((join.left, join.right))
    )
    return JoinOperator((left, right), on, context.pool)


def _side(
    slot: int,
    source: model.SourceInput,
    compiler: ExpressionCompiler,
    context: OperatorContext,
    environment: Environment,
    triggers: bool,
    keeps_unmatched: bool,
    reader: AggregationReader | None,
) -> Side:
    prefix = f"{slot}."
    types = {name: source.output.type_of(name) for name in source.output.names() if prefix + name in compiler.columns}
    if source.kind is model.SourceKind.AGGREGATION:
        nothing = _nothing(types, context.pool)
        return Side(
            slot, None, [], None, nothing, types, triggers=False, keeps_unmatched=keeps_unmatched, reader=reader
        )
    if source.kind is model.SourceKind.TABLE:
        contents = _of_table(environment.tables[source.source])
        return Side(slot, None, [], None, contents, types, triggers=False, keeps_unmatched=keeps_unmatched)
    chain = build_chain(source, types, context, expired=True, selected=(), in_table=environment.in_table)
    window = next((operator for operator in chain if isinstance(operator, Window)), None)
    before = [operator for operator in chain if operator is not window]
    contents = _nothing(types, context.pool) if window is None else window.contents
    if source.kind is model.SourceKind.WINDOW:
        contents = environment.windows[source.source].window.contents
    bare = window is None and source.kind is not model.SourceKind.WINDOW
    return Side(slot, source_key(source), before, window, contents, types, triggers, keeps_unmatched, bare)


def _aggregation_reader(
    join: model.Join, context: OperatorContext, environment: Environment
) -> AggregationReader | None:
    """What reads the aggregation that is a side of `join`, if one is."""
    for slot, source in enumerate((join.left, join.right)):
        if source.kind is model.SourceKind.AGGREGATION and join.per is not None:
            environment.looked_into.add(source.source)
            aggregation = environment.aggregations[source.source]
            return AggregationReader(aggregation, join.within, join.per, context, slot=1 - slot)
    return None


def _of_table(table: Table) -> Contents:
    def contents() -> tuple[Int64Array, dict[str, Column]]:
        places = table.places()
        return places, table.columns(places)

    return contents


def _nothing(types: Mapping[str, AttributeType], pool: StringPool) -> Contents:
    def contents() -> tuple[Int64Array, dict[str, Column]]:
        return np.zeros(0, dtype=np.int64), {name: Column.nulls(type_, pool, 0) for name, type_ in types.items()}

    return contents
