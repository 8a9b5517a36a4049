"""Rules that pass events on unchanged; those that feed one stream in the same way are evaluated together."""

from __future__ import annotations

from dataclasses import dataclass

from siddhi.analysis import model
from siddhi.engine.columnar.batch import EventBatch
from siddhi.engine.columnar.column import Column
from siddhi.engine.columnar.strings import StringPool
from siddhi.engine.jit.arrays import Int64Array
from siddhi.engine.operators.selection.plain_query import PlainTest, arranges, plain_tests
from siddhi.language.ast import AttributeType, EventType

Constants = tuple[bool | int | float | str | None, ...]
"""The constants that a rule selects, with None in place of each attribute."""
Outputs = tuple[tuple[str, AttributeType, str | None], ...]
"""Each output with its type and column, None for a constant."""


@dataclass(frozen=True, slots=True)
class Projection:
    """The output of a rule for the events that pass `tests`.

    Rules with the same `outputs` differ only in tests and constants.
    """

    tests: tuple[PlainTest, ...]
    outputs: Outputs
    constants: Constants


def projection_of(query: model.AnalysedQuery) -> Projection | None:
    """Return `query` as a projection, None if it is not one.

    Its events must be filtered by plain tests only, and it must select only attributes and constants.
    """
    source, selected = query.input, outputs_of(query)
    if not isinstance(source, model.SourceInput) or source.window is not None or selected is None:
        return None
    tests = plain_tests(source)
    outputs = tuple((name, type_, None if value is None else value.name) for name, type_, value in selected[0])
    return Projection(tests, outputs, selected[1]) if tests else None


def outputs_of(
    query: model.AnalysedQuery,
) -> tuple[tuple[tuple[str, AttributeType, model.AttributeValue | None], ...], Constants] | None:
    """Return the attribute of each output, None for a constant, and the constants.

    Return None when a value is computed, or when rows are not inserted into a stream unchanged, one by one.
    """
    output, outputs, constants = query.output, list[tuple[str, AttributeType, model.AttributeValue | None]](), []
    if output.kind is not model.TargetKind.STREAM or output.events is EventType.EXPIRED:
        return None
    if query.rate is not None or arranges(query.selection):
        return None
    for selected in query.selection.attributes:
        value = selected.expression
        if value.type is not selected.type or not isinstance(value, model.AttributeValue | model.ConstantValue):
            return None
        outputs.append((selected.name, value.type, value if isinstance(value, model.AttributeValue) else None))
        constants.append(value.value if isinstance(value, model.ConstantValue) else None)
    return tuple(outputs), tuple(constants)


class Projections:
    """Rules of one shape that feed one stream. `numbers` are those of their nodes."""

    def __init__(self, target: str, members: list[Projection], numbers: Int64Array, pool: StringPool) -> None:
        self.target = target
        self.numbers = numbers
        self._members = members
        self._pool = pool
        self._generation = -1
        self._constants: dict[str, Column] = {}

    def project(self, batch: EventBatch, rows: Int64Array, members: Int64Array) -> EventBatch:
        """Return the output of the rules `members` for `rows` of `batch`, one each."""
        if self._generation != self._pool.generation:
            self._take_constants()
        columns = {}
        for name, _, attribute in self._members[0].outputs:
            if attribute is None:
                columns[name] = self._constants[name].take(members)
            else:
                columns[name] = batch.columns[attribute].take(rows)
        return batch.take(rows, ()).with_columns(columns)

    def _take_constants(self) -> None:
        """Set the constants of all rules, strings by their current codes."""
        for place, (name, type_, attribute) in enumerate(self._members[0].outputs):
            if attribute is None:
                constants = [member.constants[place] for member in self._members]
                self._constants[name] = Column.of(type_, self._pool, constants)
        self._generation = self._pool.generation
