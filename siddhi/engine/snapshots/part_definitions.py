"""The definitions of an app's parts with state, and when two parts are the same: by name and by definition.

A part is a query, a named window, a table, an aggregation, a trigger, or the keys of a partition. Its `text` defines
the part itself, its `dependencies` what else its state depends on: the attributes that it reads, the scripts it calls,
the clock that drives it. Layout, annotations and other parts of the app make no difference.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from enum import Enum

from siddhi.analysis import model
from siddhi.analysis.parts import parts_of
from siddhi.engine.columnar.state_tree import State, StateError
from siddhi.engine.snapshots.envelope import fingerprint
from siddhi.engine.snapshots.query_state import QueryStateDefinition
from siddhi.language import ast
from siddhi.language.print_expressions import print_expression
from siddhi.language.printer import print_definition, print_element


class PartKind(str, Enum):
    """The kinds of parts that hold state.

    A partition holds its keys; its queries are parts of their own.
    """

    QUERY = "query"
    WINDOW = "window"
    TABLE = "table"
    AGGREGATION = "aggregation"
    PARTITION = "partition"
    TRIGGER = "trigger"


@dataclass(frozen=True, slots=True)
class PartDefinition:
    """The definition of one part.

    `partition` is the partition that contains a query; `ranges` identify the conditions and labels of a partition.
    `query` is the definition of a query's state, apart from its name and its output.
    """

    kind: PartKind
    name: str
    text: bytes
    dependencies: bytes
    partition: str | None = None
    ranges: bytes = b""
    query: QueryStateDefinition | None = field(default=None, compare=False)

    def saved(self) -> State:
        """Return the definition as a state."""
        query = [] if self.query is None else [self.query.saved()]
        return [self.kind.value, self.name, self.text, self.dependencies, self.partition, self.ranges, *query]

    @classmethod
    def of(cls, saved: State) -> PartDefinition:
        """Return the definition in `saved`; raise `StateError` when it is invalid."""
        try:
            kind, name, text, dependencies, partition, ranges, *query = saved
            state = QueryStateDefinition.of(*query) if query else None
            return cls(PartKind(kind), name, text, dependencies, partition, ranges, state)
        except (TypeError, ValueError) as error:
            raise StateError(f"this is not the definition of a part of an app: {error}") from error


def query_definition(app: model.AnalysedApp, query: model.AnalysedQuery, partition: str | None) -> PartDefinition:
    """Return the definition of `query`, which is in `partition`."""
    text = print_element(replace(query.syntax, annotations=()))
    dependencies = [*_clock(app), *(_source(app, one) for one in _sources(query)), *_mentioned(app, query)]
    return _definition(PartKind.QUERY, query.name, [text], dependencies, partition)


def state_context(app: model.AnalysedApp, query: model.AnalysedQuery) -> list[str]:
    """Return the other definitions that the state of `query` depends on.

    Streams contribute only their name, as attributes that are not read make no difference.
    """
    plain = isinstance(query.input, model.SourceInput) and query.input.kind not in (
        model.SourceKind.WINDOW, model.SourceKind.AGGREGATION,
    )  # fmt: skip
    sources = [] if plain else [_source(app, one) for one in _sources(query)]
    return [*_clock(app), *sources, *_mentioned(app, query)]


def partition_definition(app: model.AnalysedApp, partition: model.AnalysedPartition) -> PartDefinition:
    """Return the definition of the keys of `partition`."""
    assert partition.syntax is not None  # noqa: S101 - it comes from a text
    keys: list[str] = []
    dependencies: list[str] = [*_clock(app)]
    ranges: list[str] = []
    for key, syntax in zip(partition.keys, partition.syntax.keys, strict=True):
        if isinstance(syntax, ast.RangePartition):
            keys.append(f"ranges of {key.stream}")
            ranges += [f"{print_expression(one)} as {label} of {key.stream}" for one, label in syntax.ranges]
            ranges += _mentioned(app, key.ranges)
        elif key.expression is not None:
            keys.append(f"{print_expression(syntax.expression)} ({key.expression.type.value}) of {key.stream}")
            dependencies += _mentioned(app, key.expression)
    definition = _definition(PartKind.PARTITION, partition.name, keys, dependencies)
    return replace(definition, ranges=_digest(ranges))


def window_definition(app: model.AnalysedApp, window: model.AnalysedWindow) -> PartDefinition:
    """Return the definition of a named window: state is kept as long as it is the same."""
    dependencies = [*_clock(app), *_mentioned(app, window.window)]
    return _definition(PartKind.WINDOW, window.schema.id, [_plain(window.syntax)], dependencies)


def aggregation_definition(app: model.AnalysedApp, aggregation: model.AnalysedAggregation) -> PartDefinition:
    """Return the definition of an aggregation: state is kept as long as it is the same."""
    dependencies = [*_clock(app), _source(app, aggregation.input), *_mentioned(app, aggregation)]
    return _definition(PartKind.AGGREGATION, aggregation.schema.id, [_plain(aggregation.syntax)], dependencies)


def trigger_definition(app: model.AnalysedApp, trigger: ast.TriggerDefinition) -> PartDefinition:
    """Return the definition of a trigger: state is kept as long as it is the same."""
    return _definition(PartKind.TRIGGER, trigger.id, [_plain(trigger)], _clock(app))


def table_definition(table: model.AnalysedTable) -> PartDefinition:
    """Return the definition of `table`: its attributes and its primary key, independent of the app's clock."""
    text = [_attributes(table.schema), f"key {' '.join(table.primary_key)}"]
    return _definition(PartKind.TABLE, table.schema.id, text, ())


def _definition(
    kind: PartKind, name: str, text: Iterable[str], dependencies: Iterable[str], partition: str | None = None
) -> PartDefinition:
    return PartDefinition(kind, name, _digest(text), _digest(dependencies), partition)


def _digest(texts: Iterable[str]) -> bytes:
    return fingerprint("\0".join(texts))


def _clock(app: model.AnalysedApp) -> tuple[str]:
    return ("event time" if app.playback else "system clock",)


def _plain(definition: ast.Definition) -> str:
    return print_definition(replace(definition, annotations=()))


def _attributes(schema: model.Schema) -> str:
    return f"{schema.id}({', '.join(f'{name} {type_.value}' for name, type_ in schema.attributes)})"


def _sources(query: model.AnalysedQuery) -> tuple[model.SourceInput, ...]:
    match query.input:
        case model.Join(left=left, right=right):
            return left, right
        case model.StateMachine(slots=slots):
            return tuple(slot.input for slot in slots)
        case source:
            return (source,)


def _source(app: model.AnalysedApp, source: model.SourceInput) -> str:
    """Return the definition of `source`.

    For named windows and aggregations it is the whole definition, which decides their output.
    """
    text = f"{source.kind.name} {source.source} {_attributes(source.schema)}"
    match source.kind:
        case model.SourceKind.WINDOW:
            return f"{text} {_plain(app.windows[source.source].syntax)}"
        case model.SourceKind.AGGREGATION:
            return f"{text} {_plain(app.aggregations[source.source].syntax)}"
        case _:
            return text


def _mentioned(app: model.AnalysedApp, part: object) -> Iterator[str]:
    """Yield the tables and scripts that the expressions inside `part` use."""
    for inside in parts_of(part):
        if isinstance(inside, model.InTable):
            yield _attributes(app.tables[inside.table].schema)
        elif isinstance(inside, model.Call) and inside.script is not None:
            yield _plain(inside.script.syntax)
