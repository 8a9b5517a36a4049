"""Compute groups and aggregates of an edited query from the rows that its window stored before the edit."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np

from siddhi.analysis import model
from siddhi.analysis.expression.walk import walk
from siddhi.analysis.parts import parts_of
from siddhi.engine.columnar.batch import EventBatch
from siddhi.engine.columnar.column import DTYPES, Column
from siddhi.engine.columnar.hashing import NULL_KEY
from siddhi.engine.columnar.state_tree import Codes, State
from siddhi.engine.columnar.strings import NULL_CODE, StringPool
from siddhi.engine.jit.arrays import Int64Array
from siddhi.engine.operators.base.operator import OperatorContext, Step
from siddhi.engine.operators.expressions.compiler import ExpressionCompiler
from siddhi.engine.operators.fused_windows.fused import FusedSelection
from siddhi.engine.operators.selection.groups import NULL_TEXT
from siddhi.engine.operators.windows.base.row_window import RowWindow
from siddhi.engine.operators.windows.base.window import WINDOWS, WindowContext, WindowOperator
from siddhi.engine.operators.windows.keyed.window import KeyedWindow
from siddhi.language import ast
from siddhi.language.ast import AttributeType, EventType

if TYPE_CHECKING:
    from siddhi.engine.planner.query import QueryNode

Rows = tuple[Int64Array, dict[str, Column]]
"""The timestamps and columns of stored rows, in order."""


def missing_columns(query: QueryNode, rows: State) -> list[str]:
    """Return the attributes of earlier rows that `query` needs but `rows` did not store."""
    held = {(name, type_) for name, type_ in _held(rows) if name}
    read = _read_of_held(query)
    needed = {(name, type_) for name, type_ in _kept(query).items() if name in read} | _read_by_window(query)
    return sorted({name for name, type_ in needed if (name, type_.value) not in held})


def recompute(query: QueryNode, rows: State, state: State, context: OperatorContext, clock: int) -> None:
    """Fill the empty `query` with the stored rows in `state` (in the form `rows`) and everything derived from them."""
    stamps, columns = _read(query, rows, state, context, clock)
    count = len(stamps)
    if not count:
        return
    nobody = {name: type_ for name, type_ in _kept(query).items() if name not in columns}
    columns |= {name: Column.nulls(type_, context.pool, count) for name, type_ in nobody.items()}
    clocks = np.minimum(np.maximum.accumulate(stamps), clock)
    orders = 2 * np.arange(count, dtype=np.int64) + 1
    batch = EventBatch(stamps, np.zeros(count, dtype=np.int8), orders, clocks, columns)
    step = Step(clocks, int(clocks[0]))
    chain = query.chain
    window = next((place for place, part in enumerate(chain) if isinstance(part, WindowOperator)), len(chain))
    for operator in chain[window:]:
        batch = operator.process(batch, step)
    if batch.size:
        query.selector.process(batch, step)


def _held(rows: State) -> list[tuple[str | None, str]]:
    how, place_or_lines, columns = rows
    lines = place_or_lines if how == "fused" else []
    return [(name, type_) for name, type_ in [*lines, *columns]]


def _read_by_window(query: QueryNode) -> set[tuple[str, AttributeType]]:
    """Return the attributes by which rows leave the window, which it may store in a form of its own."""
    source = query.analysed.input
    window = source.window if isinstance(source, model.SourceInput) else None
    arguments = () if window is None else window.arguments
    return {(part.name, part.type) for part in parts_of(arguments) if isinstance(part, model.AttributeValue)}


def _read_of_held(query: QueryNode) -> set[str]:
    """Return the attributes that are read of stored rows.

    These include all selected attributes only if rows are emitted again.
    """
    analysed = query.analysed
    source, selection = analysed.input, analysed.selection
    shown = analysed.output.events is not EventType.CURRENT or isinstance(analysed.rate, ast.SnapshotRate)
    if shown or not isinstance(source, model.SourceInput):
        return set(_kept(query))
    expressions = [*(one.expression for one in selection.attributes)]
    if selection.having is not None:
        expressions.append(selection.having)
    aggregates = [one for whole in expressions for one in walk(whole) if isinstance(one, model.Aggregate)]
    read = (source.window, source.after, selection.group_by, tuple(aggregates))
    return {part.name for part in parts_of(read) if isinstance(part, model.AttributeValue)}


def _kept(query: QueryNode) -> Mapping[str, AttributeType]:
    """Return the attributes that are stored of each row."""
    if isinstance(query.selector, FusedSelection):
        return query.selector.columns
    window = next(part for part in query.chain if isinstance(part, WindowOperator))
    return window.slots.types if isinstance(window, RowWindow | KeyedWindow) else window.store.types


def _read(query: QueryNode, rows: State, state: State, context: OperatorContext, clock: int) -> Rows:
    how, place, columns = rows
    if how == "fused":
        return _of_fused(state[-1], place, columns, context.pool, clock)
    source = query.analysed.input
    assert isinstance(source, model.SourceInput)  # noqa: S101 - only those have rows that can be read
    assert source.window is not None  # noqa: S101
    call = source.window
    types = {name: AttributeType(type_) for name, type_ in columns}
    compiler = ExpressionCompiler(context)
    reader = WINDOWS.find(call.namespace, call.name)(
        WindowContext(call, context, types, expired=True, compiler=compiler, selected=())
    )
    reader.restore(state[place])
    return reader.contents()


def _of_fused(state: State, lines: State, keys: State, pool: StringPool, clock: int) -> Rows:
    arrays, valid = state["rows"]
    count = state["end"] - state["first"]
    stamps: Int64Array = np.full(count, clock, dtype=np.int64)
    columns: dict[str, Column] = {}
    reserved = 1 if keys else 0
    for line, (name, kind) in enumerate(lines, start=reserved):
        held = arrays[line]
        values = held.array if isinstance(held, Codes) else held
        if name == "":
            stamps = values.astype(np.int64)
        elif name is not None:
            type_ = AttributeType(kind)
            mask = None if isinstance(held, Codes) or not len(valid) else valid[line].astype(np.bool_)
            columns[name] = Column(type_, pool, values=values.astype(DTYPES[type_]), valid=mask)
    if keys:
        columns |= _of_keys(state["groups"], arrays[0], keys, pool)
    return stamps, columns


def _of_keys(groups: State, ids: State, keys: State, pool: StringPool) -> dict[str, Column]:
    """Return the attributes by which rows are grouped, from the keys of their groups."""
    used, capacity, parts, null_code = groups
    place = np.zeros(capacity, dtype=np.int64)
    place[np.asarray(used, dtype=np.int64)] = np.arange(len(used))
    rows = place[ids.array if isinstance(ids, Codes) else np.asarray(ids, dtype=np.int64)]
    columns: dict[str, Column] = {}
    for (name, kind), part in zip(keys, parts, strict=True):
        type_ = AttributeType(kind)
        bits = (part.array if isinstance(part, Codes) else part)[rows]
        if type_ is AttributeType.STRING:
            # Groups have the text "null" in place of null; only a table with one key contains its code as well.
            values = np.where((bits == null_code.array[0]) | (bits == pool.code(NULL_TEXT)), NULL_CODE, bits)
            columns[name] = Column(type_, pool, values=values)
        else:
            valid = bits != NULL_KEY
            numbers = bits.view(np.float64) if DTYPES[type_] in (np.float32, np.float64) else bits
            columns[name] = Column(type_, pool, values=numbers.astype(DTYPES[type_]), valid=valid)
    return columns
