"""Build the operator of a query's join."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from siddhi.analysis import model
from siddhi.engine.columnar.batch import empty_batch
from siddhi.engine.columnar.column import Column
from siddhi.engine.columnar.strings import StringPool
from siddhi.engine.jit.arrays import NO_POSITIONS, Int64Array
from siddhi.engine.operators.base.choices import NotApplicable
from siddhi.engine.operators.base.operator import OperatorContext
from siddhi.engine.operators.base.scope import EVENT_TIMESTAMP, has_index, slot_column, source_key
from siddhi.engine.operators.environment import Environment
from siddhi.engine.operators.expressions.compiler import ExpressionCompiler
from siddhi.engine.operators.incremental_aggregation.reader import AggregationReader
from siddhi.engine.operators.joins.condition import JoinCondition
from siddhi.engine.operators.joins.held import CarefullyHeldTable, Contents, HeldAggregation, HeldRows, HeldTable
from siddhi.engine.operators.joins.join import JoinOperator, JoinWithMissingEvents
from siddhi.engine.operators.joins.shelf import ROW_NUMBER, RowNumbers, other_order
from siddhi.engine.operators.joins.side import Held, Side
from siddhi.engine.operators.joins.whole_events import (
    PresentRows,
    WholeEvents,
    answers,
    asked_of_events,
    refuse_in_condition,
)
from siddhi.engine.operators.source_chain import build_chain
from siddhi.engine.operators.tables.careful import CarefulMatcher
from siddhi.engine.operators.tables.matching import RowMatcher
from siddhi.engine.operators.windows.base.sliding import SlidingWindow
from siddhi.engine.operators.windows.base.window import WindowOperator
from siddhi.language.ast import AttributeType, JoinKind

_UNMATCHED = {
    0: (JoinKind.LEFT_OUTER, JoinKind.FULL_OUTER),
    1: (JoinKind.RIGHT_OUTER, JoinKind.FULL_OUTER),
}
"""The kinds of joins that keep unmatched events of the left and of the right side."""


@dataclass(frozen=True, slots=True)
class _Parts:
    """The parts from which both sides of a join are built; `asking` compiles its condition.

    `selected` are the columns that the selection reads, each with its output name; with `numbered` rows are
    distinguished by numbers.
    """

    join: model.Join
    compiler: ExpressionCompiler
    asking: ExpressionCompiler
    context: OperatorContext
    environment: Environment
    condition: JoinCondition
    selected: tuple[tuple[str, str], ...]
    shows_expired: bool
    numbered: bool = False

    def condition_of_other(self) -> JoinCondition:
        """Return the condition that one side applies to the other.

        A condition with state is separate for each side, as in Siddhi.
        """
        return JoinCondition(self.join.on, self.asking) if self.condition.keeps_state else self.condition


def build_join(
    join: model.Join,
    compiler: ExpressionCompiler,
    context: OperatorContext,
    environment: Environment,
    *,
    only_current: bool,
    shows_expired: bool,
    outputs: tuple[tuple[str, str], ...] | None = None,
) -> JoinOperator | NotApplicable:
    """Return the operator of `join` for a selection compiled with `compiler`.

    With `only_current` neither this selection nor anything behind it reads expired events or resets; with
    `shows_expired` the query emits expired events. `outputs` are the columns of the output, each as (name, column);
    None means all that the selection reads, under their own names. In a partition the operator works for all instances,
    if it can.
    """
    selected = tuple((column, column) for column in compiler.columns) if outputs is None else outputs
    asking = compiler.of_pairs()
    condition = JoinCondition(join.on, asking)
    sources = (join.left, join.right)
    if context.partitioned and (reason := _needs_copies(sources, condition)) is not None:
        return NotApplicable(reason)
    parts = _Parts(join, compiler, asking, context, environment, condition, selected, shows_expired)
    held = {
        slot: _held_aggregation(slot, source, parts)
        for slot, source in enumerate(sources)
        if source.kind is model.SourceKind.AGGREGATION
    }
    sides = _sides(held, parts)
    obstacle = _unmovable(sides, condition)
    sliding = all(side.bare or isinstance(side.window, SlidingWindow) for side in sides)
    followed = any(side.moves is not None for side in sides)
    if context.partitioned and obstacle is not None and all(side.source is not None for side in sides) and not followed:
        return NotApplicable(obstacle)
    moving = obstacle is None and (context.partitioned or not sliding)
    if moving:
        sides = _sides(held, replace(parts, numbered=True))
    only_current = only_current and not condition.careful
    nowhere = {output: compiler.columns[column] for output, column in selected if has_index(column)}
    made = JoinOperator(sides, condition, context, only_current=only_current, moving=moving)
    if nowhere:
        made = JoinWithMissingEvents(sides, condition, context, nowhere, only_current=only_current, moving=moving)
    if context.partitioned and followed and made.tracked is None:
        return NotApplicable("a side is a named window, and the rows of both sides meet")
    return made


def _needs_copies(sources: tuple[model.SourceInput, model.SourceInput], condition: JoinCondition) -> str | None:
    """Return why each instance of a partition needs a join of its own, or None if it does not."""
    if condition.careful:
        return "the condition may fail or keeps state"
    for source, other in (sources, sources[::-1]):
        if source.kind is model.SourceKind.WINDOW and other.window is not None:
            return "a side is a named window, and the other one has a window"
    return None


def _unmovable(sides: tuple[Side, Side], condition: JoinCondition) -> str | None:
    """Return why one loop cannot follow the windows of both sides, None when it can."""
    if condition.careful:
        return "the condition may fail or keeps state"
    if any(side.is_quiet for side in sides):
        return "a side has no window of its own"
    return next((reason for side in sides if (reason := other_order(side)) is not None), None)


def _sides(held: Mapping[int, Held], parts: _Parts) -> tuple[Side, Side]:
    left, right = (
        _side(slot, source, held.get(slot), parts) for slot, source in enumerate((parts.join.left, parts.join.right))
    )
    return left, right


def _side(slot: int, source: model.SourceInput, held: Held | None, parts: _Parts) -> Side:
    columns, context = parts.compiler.columns, parts.context
    types = {name: source.output.type_of(name) for name in source.output.names() if slot_column(slot, name) in columns}
    asked = asked_of_events(slot, source, columns)
    types |= asked
    attributes = {slot_column(slot, name): name for name in types}
    selected = tuple((output, attributes[column]) for output, column in parts.selected if column in attributes)
    keeps_unmatched = parts.join.kind in _UNMATCHED[slot]
    if source.kind is model.SourceKind.TABLE:
        if EVENT_TIMESTAMP in asked:
            parts.environment.tables[source.source].keep_times()
        held = _held_table(slot, source, parts)
    if held is not None:
        held = PresentRows(held, context.pool) if asked else held
        nothing = empty_batch(tuple(types.items()), context.pool)
        return Side(slot, None, [], None, held, types, selected, False, keeps_unmatched, context.pool, nothing)  # noqa: FBT003
    in_table, shows_expired = parts.environment.in_table, parts.shows_expired
    numbered = parts.numbered and source.window is not None
    numbers = {ROW_NUMBER: AttributeType.LONG} if numbered else {}
    chain = build_chain(
        source, {**types, **numbers}, context, expired=True, selected=(), in_table=in_table, shows_expired=shows_expired
    )
    window = next((operator for operator in chain if isinstance(operator, WindowOperator)), None)
    before = [operator for operator in chain if operator is not window]
    if asked:
        before.insert(0, WholeEvents(asked, context.pool))
    if numbered:
        before = [RowNumbers(context), *before, *([RowNumbers(context)] if before else [])]
    shown = window
    if source.kind is model.SourceKind.WINDOW:
        shown = parts.environment.windows[source.source].window
    named = parts.environment.windows[source.source] if source.kind is model.SourceKind.WINDOW else None
    contents = _nothing(types, context.pool) if shown is None else shown.look
    if asked and shown is not window:
        contents = _with_answers(contents, asked, context.pool)
    return Side(
        slot,
        source_key(source),
        before,
        window,
        HeldRows(slot, contents, parts.condition_of_other()),
        types,
        selected,
        parts.join.triggers[slot],
        keeps_unmatched,
        context.pool,
        empty_batch(tuple({**dict(source.output.attributes), **asked, **numbers}.items()), context.pool),
        bare=shown is None,
        hides_expired=(shown is None or (window is not None and window.expires_if_wanted)) and not shows_expired,
        moves=named if named is not None and named.tells_all and not asked and window is None else None,
    )


def _held_table(slot: int, source: model.SourceInput, parts: _Parts) -> Held:
    def name_of(expression: model.TypedExpression) -> str | None:
        if isinstance(expression, model.AttributeValue | model.EventReference) and expression.slot == slot:
            return expression.name if isinstance(expression, model.AttributeValue) else EVENT_TIMESTAMP
        return None

    def column_of(name: str) -> str:
        return slot_column(slot, name)

    table, compiler, on = parts.environment.tables[source.source], parts.asking, parts.join.on
    if table.has_index:
        refuse_in_condition(on, slot, source)
    careful = CarefulMatcher.if_needed(on, table, compiler, row_name=name_of, row_column=column_of)
    if careful is not None:
        parts.environment.looked_into_carefully.add(source.source)
        return CarefullyHeldTable(careful)
    return HeldTable(slot, RowMatcher(on, table, compiler, row_name=name_of, row_column=column_of))


def _held_aggregation(slot: int, source: model.SourceInput, parts: _Parts) -> HeldAggregation:
    environment, join = parts.environment, parts.join
    assert join.per is not None  # noqa: S101 - analysis refuses a join with an aggregation without `per`
    environment.looked_into.add(source.source)
    aggregation = environment.aggregations[source.source]
    reader = AggregationReader(aggregation, join.within, join.per, parts.context, slot=1 - slot)
    parts.compiler.columns |= reader.columns
    return HeldAggregation(slot, reader, parts.condition_of_other())


def _with_answers(shown: Contents, asked: Mapping[str, AttributeType], pool: StringPool) -> Contents:
    """Return the contents of `shown`, with the columns `asked` of its rows as whole events."""

    def contents() -> tuple[Int64Array, dict[str, Column]]:
        stamps, columns = shown()
        return stamps, {**columns, **answers(asked, stamps, pool)}

    return contents


def _nothing(types: Mapping[str, AttributeType], pool: StringPool) -> Contents:
    def contents() -> tuple[Int64Array, dict[str, Column]]:
        return NO_POSITIONS, {name: Column.nulls(type_, pool, 0) for name, type_ in types.items()}

    return contents
