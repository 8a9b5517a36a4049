"""Run on-demand queries on a running app's tables, named windows and aggregations."""

from __future__ import annotations

import numpy as np

from siddhi.analysis import model
from siddhi.analysis.expression.walk import has_aggregate
from siddhi.analysis.query.aggregations import TIMESTAMP as AGGREGATION_TIMESTAMP
from siddhi.engine.columnar.batch import EventBatch
from siddhi.engine.columnar.column import Column
from siddhi.engine.jit.arrays import Int64Array
from siddhi.engine.operators.base.operator import OperatorContext, Step
from siddhi.engine.operators.environment import Environment
from siddhi.engine.operators.expressions.compiler import ExpressionCompiler
from siddhi.engine.operators.expressions.evaluation import Evaluation
from siddhi.engine.operators.incremental_aggregation.reader import AggregationReader
from siddhi.engine.operators.selection.selector import Selector
from siddhi.engine.operators.tables.careful import CarefulMatcher
from siddhi.engine.operators.tables.matching import RowMatcher
from siddhi.engine.operators.tables.table import Table
from siddhi.engine.operators.tables.writer import TableWriter
from siddhi.errors import Problem, SiddhiRuntimeError
from siddhi.language.ast import EventType


def run_on_demand(
    query: model.AnalysedOnDemandQuery, environment: Environment, context: OperatorContext, clock: int
) -> EventBatch | None:
    """Return the rows that `query` finds, None if there are none; a change returns no rows.

    Raise `SiddhiRuntimeError` with code `table-refused` when the table refused rows whose primary key was in use, with
    code `query-failed` when a function failed.
    """
    if query.source is not None:
        found = _select(query, _rows(query, environment, context, clock), context)
        return found if found.size else None
    output = query.output
    assert output is not None  # noqa: S101 - a query without source changes a table
    rows = _one_row(clock)
    if query.selection is not None:
        rows = _select(query, rows, context)
    else:  # as in Siddhi, names that are not selected refer to an empty event
        nulls = {name: Column.nulls(type_, context.pool, 1) for name, type_ in output.schema.attributes}
        rows = rows.with_columns(nulls)
    compiler = ExpressionCompiler(context, in_table=environment.in_table)
    step = _step()
    refused = TableWriter(output, environment.tables[output.target], compiler).write(rows, step)
    _raise_failure(step)
    if refused:
        message = f"the primary key is in use in table '{output.target}'"
        raise SiddhiRuntimeError(Problem("table-refused", message))
    return rows.slice(0, 0)


def _rows(
    query: model.AnalysedOnDemandQuery, environment: Environment, context: OperatorContext, clock: int
) -> EventBatch:
    """Return the rows of the source that satisfy `on`, as one chunk.

    Aggregates in `on` process one row after another.
    """
    source = str(query.source)
    if query.kind is model.SourceKind.TABLE and (query.on is None or not has_aggregate(query.on)):
        return _rows_of_table(query, environment.tables[source], environment, context, clock)
    rows = _all_rows(query, source, environment, context, clock)
    if query.on is None:
        return rows
    condition = ExpressionCompiler(context, in_table=environment.in_table).compile(query.on)
    found = condition.truth(evaluation := Evaluation(rows))
    if evaluation.failed is not None:
        raise _failure(evaluation.message)
    return rows.take(np.flatnonzero(found))


def _rows_of_table(
    query: model.AnalysedOnDemandQuery, table: Table, environment: Environment, context: OperatorContext, clock: int
) -> EventBatch:
    """Return the rows of `table` that meet `on`, found with an index if it has one."""
    if query.on is None:
        places = table.places()
    else:
        compiler = ExpressionCompiler(context, in_table=environment.in_table)
        places = _found(query.on, table, compiler, clock)
    return _chunk(np.full(len(places), clock, dtype=np.int64), table.columns(places), clock)


def _found(on: model.TypedExpression, table: Table, compiler: ExpressionCompiler, clock: int) -> Int64Array:
    careful = CarefulMatcher.if_needed(on, table, compiler, row_name=_attribute, row_column=str, makes_index=False)
    if careful is None:
        matcher = RowMatcher(on, table, compiler, row_name=_attribute, row_column=str, makes_index=False)
        return matcher.pairs(_one_row(clock)).places
    verdicts = careful.verdicts(_one_row(clock))
    if verdicts.fails:
        raise _failure(verdicts.reasons.first)
    return verdicts.places


def _attribute(expression: model.TypedExpression) -> str | None:
    return expression.name if isinstance(expression, model.AttributeValue) else None


def _all_rows(
    query: model.AnalysedOnDemandQuery, source: str, environment: Environment, context: OperatorContext, clock: int
) -> EventBatch:
    if query.kind is model.SourceKind.WINDOW:
        stamps, columns = environment.windows[source].window.contents()
        return _chunk(stamps, columns, clock)
    if query.kind is model.SourceKind.TABLE:
        table = environment.tables[source]
        places = table.places()
        return _chunk(np.full(len(places), clock, dtype=np.int64), table.columns(places), clock)
    assert query.per is not None  # noqa: S101 - analysis refuses an aggregation that is read without period
    reader = AggregationReader(environment.aggregations[source], query.within, query.per, context)
    columns = reader.read(_one_row(clock))
    return _chunk(columns[AGGREGATION_TIMESTAMP].values, columns, clock)


def _chunk(
    stamps: np.ndarray[tuple[int, ...], np.dtype[np.int64]], columns: dict[str, Column], clock: int
) -> EventBatch:
    size = len(stamps)
    orders, clocks = np.ones(size, dtype=np.int64), np.full(size, clock, dtype=np.int64)
    return EventBatch(stamps, np.zeros(size, dtype=np.int8), orders, clocks, columns, np.zeros(size, dtype=np.int64))


def _one_row(clock: int) -> EventBatch:
    return _chunk(np.full(1, clock, dtype=np.int64), {}, clock)


def _select(query: model.AnalysedOnDemandQuery, rows: EventBatch, context: OperatorContext) -> EventBatch:
    selection = query.selection
    assert selection is not None  # noqa: S101 - a question selects
    selector = Selector(selection, EventType.CURRENT, ExpressionCompiler(context), context)
    step = _step()
    found = selector.process(rows, step)
    _raise_failure(step)
    return found


def _step() -> Step:
    return Step(np.zeros(1, dtype=np.int64))


def _raise_failure(step: Step) -> None:
    """Raise `SiddhiRuntimeError` when rows failed in `step`."""
    failures = step.taken_failures()
    if failures is not None:
        raise _failure(failures.messages[0])


def _failure(message: str) -> SiddhiRuntimeError:
    return SiddhiRuntimeError(Problem("query-failed", f"the query failed: {message}"))
