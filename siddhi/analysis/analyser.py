"""Turn a syntax tree into an analysed app."""

from __future__ import annotations

from collections.abc import Iterator

from siddhi.analysis.catalogue import builtin_registry
from siddhi.analysis.context import Context
from siddhi.analysis.definition.annotations import app_settings, element_name
from siddhi.analysis.definitions import analyse_definitions
from siddhi.analysis.expression.calls import CallChecker
from siddhi.analysis.model import AnalysedApp, AnalysedPartition, AnalysedQuery
from siddhi.analysis.problems import Problems
from siddhi.analysis.query.partitions import analyse_keys, finish_partition, keyed_partition
from siddhi.analysis.query.queries import analyse_query
from siddhi.analysis.symbols import Symbols
from siddhi.errors import SiddhiAnalysisError
from siddhi.language import ast
from siddhi.registry import Registry


def analyse(app: ast.App, registry: Registry | None = None) -> AnalysedApp:
    """Return the app with every name resolved and every expression typed.

    `registry` holds what the app may call; by default the built-ins. A SiddhiAnalysisError lists all problems.

    Args:
        app: The parsed app.
        registry: The definitions that plans may call; by default the built-ins and all installed extensions.
    """
    problems = Problems()
    settings = app_settings(app, problems)
    symbols = Symbols()
    registry = registry if registry is not None else builtin_registry()
    calls = CallChecker(registry, symbols.functions, problems, dialect_3x=settings.dialect_3x)
    context = Context(registry, symbols, problems, calls, settings.dialect_3x, settings.playback)
    analyse_definitions(context, app.definitions)
    elements = _ElementAnalyser(context).analyse(app.elements)
    if problems:
        raise SiddhiAnalysisError(problems.all())
    return AnalysedApp(
        settings.name,
        settings.playback,
        symbols.streams,
        symbols.tables,
        symbols.windows,
        symbols.triggers,
        {name: function for name, function in symbols.functions.items() if function is not None},
        symbols.aggregations,
        elements,
        settings.playback_idle_ms,
        settings.playback_increment_ms,
        syntax=app,
    )


class _ElementAnalyser:
    """Analyses queries and partitions in text order, and numbers those without a name.

    Queries outside of partitions are numbered together, and so are partitions; queries inside a partition are numbered
    within it. The name that the engine uses for a query is unique in any case.
    """

    def __init__(self, context: Context) -> None:
        self._context = context
        self._queries = 0
        self._partitions = 0
        self._outside: set[str] = set()
        self._given: set[str] = set()
        self._partitions_given: set[str] = set()

    def analyse(self, elements: tuple[ast.ExecutionElement, ...]) -> tuple[AnalysedQuery | AnalysedPartition, ...]:
        self._given = set(self._names_outside(elements))
        partitions = (element for element in elements if isinstance(element, ast.Partition))
        self._partitions_given = {name for one in partitions if (name := _written_name(one, Problems())) is not None}
        found: list[AnalysedQuery | AnalysedPartition] = []
        for element in elements:
            if isinstance(element, ast.Partition):
                found.append(self._partition(element))
                continue
            position = self._queries
            typed = analyse_query(self._context, element, self._name(element, self._outside), position)
            if typed is not None:
                found.append(typed)
        return tuple(found)

    def _names_outside(self, elements: tuple[ast.ExecutionElement, ...]) -> Iterator[str]:
        """Yield the names of the queries outside partitions."""
        number = 0
        for element in elements:
            if isinstance(element, ast.Partition):
                number += len(element.queries)
            else:
                number += 1
                yield _written_name(element, Problems()) or f"query_{number}"

    def _name(self, query: ast.Query, taken: set[str]) -> str:
        """Return the name of the next query, and add it with its position to the names that are `taken`."""
        self._queries += 1
        name = _written_name(query, self._context.problems) or f"query_{self._queries}"
        self._take(name, query, taken)
        return name

    def _take(self, name: str, element: ast.ExecutionElement, taken: set[str]) -> None:
        if name in taken:
            message = f"two queries are called '{name}'"
            _, span = element_name(element.annotations, Problems())
            span = element.span if span is ast.NOWHERE else span
            self._context.problems.add("duplicate-query-name", message, span)
        taken.add(name)

    def _partition(self, partition: ast.Partition) -> AnalysedPartition:
        self._partitions += 1
        context, symbols = self._context, self._context.symbols
        partition = keyed_partition(context, partition)
        keys = analyse_keys(context, partition)
        written = _written_name(partition, context.problems)
        if written is not None:
            self._take(written, partition, self._outside)
        name = written or f"partition_{self._partitions}"
        if written is None and name in self._partitions_given:
            name = f"unnamed {name}"
        symbols.inner_streams = {}
        inside: set[str] = set()
        queries = [self._inside(query, name, inside) for query in partition.queries]
        inner_streams, symbols.inner_streams = symbols.inner_streams, None
        symbols.broken = {broken for broken in symbols.broken if not broken.startswith("#")}
        typed = tuple(query for query in queries if query is not None)
        return finish_partition(context, partition, name, keys, typed, inner_streams)

    def _inside(self, query: ast.Query, partition: str, taken: set[str]) -> AnalysedQuery | None:
        position = self._queries
        name = self._name(query, taken)
        if name in self._given:
            name = f"{name} of {partition}"
        self._given.add(name)
        return analyse_query(self._context, query, name, position)


def _written_name(element: ast.ExecutionElement, problems: Problems) -> str | None:
    name, _ = element_name(element.annotations, problems)
    return name
