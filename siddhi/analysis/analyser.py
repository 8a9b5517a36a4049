"""From syntax tree to analysed app."""

from __future__ import annotations

from siddhi.analysis.annotations import app_settings, element_name
from siddhi.analysis.calls import CallChecker
from siddhi.analysis.catalogue import builtin_registry
from siddhi.analysis.context import Context
from siddhi.analysis.definitions import analyse_definitions
from siddhi.analysis.model import AnalysedApp, AnalysedPartition, AnalysedQuery
from siddhi.analysis.partitions import analyse_keys, finish_partition
from siddhi.analysis.problems import Problems
from siddhi.analysis.queries import analyse_query
from siddhi.analysis.symbols import Symbols
from siddhi.errors import SiddhiAnalysisError
from siddhi.language import ast
from siddhi.registry import Registry


def analyse(app: ast.App, registry: Registry | None = None) -> AnalysedApp:
    """The app with every name resolved and every expression typed.

    `registry` holds what the app may call; None means the built-ins. SiddhiAnalysisError holds all problems.
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
    """Analyses queries and partitions in text order and counts them for their names."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._queries = 0
        self._partitions = 0
        self._names: set[str] = set()

    def analyse(self, elements: tuple[ast.ExecutionElement, ...]) -> tuple[AnalysedQuery | AnalysedPartition, ...]:
        found: list[AnalysedQuery | AnalysedPartition] = []
        for element in elements:
            typed = self._partition(element) if isinstance(element, ast.Partition) else self._query(element)
            if typed is not None:
                found.append(typed)
        return tuple(found)

    def _query(self, query: ast.Query) -> AnalysedQuery | None:
        position = self._queries
        self._queries += 1
        name, span = element_name(query.annotations, self._context.problems)
        if name is not None and name in self._names:
            message = f"two queries are called '{name}'"
            self._context.problems.add("duplicate-query-name", message, span)
        name = name if name is not None else f"query_{self._queries}"
        self._names.add(name)
        return analyse_query(self._context, query, name, position)

    def _partition(self, partition: ast.Partition) -> AnalysedPartition:
        self._partitions += 1
        context, symbols = self._context, self._context.symbols
        keys = analyse_keys(context, partition)
        name, _ = element_name(partition.annotations, context.problems)
        symbols.inner_streams = {}
        queries = [self._query(query) for query in partition.queries]
        inner_streams, symbols.inner_streams = symbols.inner_streams, None
        symbols.broken = {broken for broken in symbols.broken if not broken.startswith("#")}
        typed = tuple(query for query in queries if query is not None)
        return finish_partition(context, partition, name or f"partition_{self._partitions}", keys, typed, inner_streams)
