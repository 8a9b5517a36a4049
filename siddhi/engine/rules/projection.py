"""Rules that let events pass as they are: all that feed one stream in the same way are answered at one go."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass

from siddhi.analysis import model
from siddhi.engine.arrays import Int64Array
from siddhi.engine.batch import EventBatch
from siddhi.engine.column import Column
from siddhi.engine.shortcuts.plain_query import PlainTest, arranges, plain_tests
from siddhi.engine.strings import StringPool
from siddhi.language.ast import AttributeType, EventType

Constant = bool | int | float | str


@dataclass(frozen=True, slots=True)
class Projection:
    """What a rule selects: each output with its type and the attribute that it is, None where it is the constant in
    the same place. Rules of one `shape` differ in `tests` and `constants` alone."""

    tests: tuple[PlainTest, ...]
    outputs: tuple[tuple[str, AttributeType, str | None], ...]
    constants: tuple[Constant | None, ...]

    @property
    def shape(self) -> Hashable:
        return self.outputs


def projection_of(query: model.AnalysedQuery) -> Projection | None:
    """`query` if events pass by plain tests alone, and attributes and constants alone are selected; else None."""
    source, selection, output = query.input, query.selection, query.output
    if not isinstance(source, model.SourceInput) or source.window is not None:
        return None
    if output.kind is not model.TargetKind.STREAM or output.events is EventType.EXPIRED:
        return None
    tests = plain_tests(source)
    if query.rate is not None or arranges(selection) or not tests:
        return None
    outputs: list[tuple[str, AttributeType, str | None]] = []
    constants: list[Constant | None] = []
    for selected in selection.attributes:
        value = selected.expression
        if isinstance(value, model.AttributeValue):
            outputs.append((selected.name, value.type, value.name))
            constants.append(None)
        elif isinstance(value, model.ConstantValue) and value.type is selected.type:
            outputs.append((selected.name, value.type, None))
            constants.append(value.value)
        else:
            return None
    return Projection(tests, tuple(outputs), tuple(constants))


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
        """What the rules `members` make of `rows` of `batch`, one each."""
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
        """The constants of all rules, strings with their codes of now."""
        for place, (name, type_, attribute) in enumerate(self._members[0].outputs):
            if attribute is None:
                constants = [member.constants[place] for member in self._members]
                self._constants[name] = Column.of(type_, self._pool, constants)
        self._generation = self._pool.generation
