"""The state of a running app by parts: save it, and continue with it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import cast

from siddhi.analysis import model
from siddhi.engine.columnar.state_tree import State
from siddhi.engine.columnar.strings import StringPool
from siddhi.engine.operators.base.operator import OperatorContext
from siddhi.engine.operators.named_window import NamedWindow
from siddhi.engine.operators.node import AppNode
from siddhi.engine.operators.partitions.place import PartitionPlace
from siddhi.engine.operators.tables.table import Table
from siddhi.engine.operators.trigger import TriggerNode
from siddhi.engine.planner.aggregation_node import AggregationNode
from siddhi.engine.planner.query import QueryNode
from siddhi.engine.snapshots.envelope import unusable
from siddhi.engine.snapshots.matching import PartMatch, PartName, RestoreReport, match_parts, name_of, report_of
from siddhi.engine.snapshots.part_definitions import (
    PartKind,
    aggregation_definition,
    partition_definition,
    query_definition,
    state_context,
    table_definition,
    trigger_definition,
    window_definition,
)
from siddhi.engine.snapshots.query_state import query_state
from siddhi.engine.snapshots.recomputing import missing_columns, recompute
from siddhi.engine.snapshots.snapshot import AppPart, SavedApp, SavedPart, reporting_damage
from siddhi.engine.streams.clock import ClockState


class AppState:
    """All parts of an app that a snapshot contains."""

    def __init__(
        self,
        app: model.AnalysedApp,
        pool: StringPool,
        tables: Mapping[str, Table],
        places: Sequence[PartitionPlace],
        nodes: Sequence[AppNode],
        context: OperatorContext,
    ) -> None:
        """Create the access to an app's state for snapshots.

        Args:
            app: The analysed app.
            pool: Holds the texts of the app.
            tables: The tables by name.
            places: The partitions of the app.
            nodes: The nodes of the app.
            context: What operators were given when they were built.
        """
        self.pool = pool
        self._context = context
        self.places = tuple(places)
        self.queries = tuple(node for node in nodes if isinstance(node, QueryNode))
        self._app = app
        self._tables = tables
        self._nodes = tuple(nodes)

    @cached_property
    def parts(self) -> tuple[AppPart, ...]:
        """The parts with state, each with its definition."""
        app = self._app
        places = (AppPart(partition_definition(app, place.analysed), place.instances) for place in self.places)
        return (*_tables(app, self._tables), *places, *_nodes(app, self._nodes))

    def saved(self, app: bytes, clock: ClockState | None, *, waits: bool) -> SavedApp:
        """Return the current state of the app with the fingerprint `app` at `clock`.

        The app may still wait for its first event.
        """
        parts = tuple(SavedPart(part.definition, part.holder.snapshot()) for part in self.parts)
        strings = self.pool.snapshot()  # last, because unread columns have just got their codes
        return SavedApp(app, clock, strings, parts, waits)

    def restore(self, saved: SavedApp) -> None:
        """Restore every part from `saved`, which has the same parts; raise `SnapshotError` when that fails."""
        if len(saved.parts) != len(self.parts):
            raise unusable("snapshot-damaged", f"it has {len(saved.parts)} parts, and the app has {len(self.parts)}")
        self._restore(saved.strings, zip(self.parts, (part.state for part in saved.parts), strict=True))

    def restore_matching(self, saved: SavedApp, clock: int | None) -> RestoreReport:
        """Restore the parts that are the same in `saved`, whatever their names there, and report which.

        Groups of a query with a changed definition are computed from its stored rows. All other parts start at `clock`,
        or with the first event when that is None.
        """
        matched = match_parts([one.definition for one in saved.parts], [part.definition for part in self.parts])
        if clock is not None:
            for node in self._nodes:
                node.start(clock)
        before = {name_of(one.definition): one for one in saved.parts}
        parts = {name_of(part.definition): part for part in self.parts}
        self._restore(saved.strings, ())
        names = {former.name: name.name for name, (former, _) in matched.items() if name.kind is PartKind.QUERY}
        short: dict[PartName, tuple[str, ...]] = {}
        for name, (former, how) in matched.items():
            part, state = parts[name], before[former].state
            if how is PartMatch.SAME:
                self._restore_part(part, _told_of(names, state) if name.kind is PartKind.PARTITION else state)
            elif how is PartMatch.BUT_RATE:
                with reporting_damage(f"the {name}"):
                    cast("QueryNode", part.holder).restore_but_rate(state)
            else:
                lacking = self._recompute(cast("QueryNode", part.holder), before[former], clock or 0, name)
                if lacking:
                    short[name] = tuple(lacking)
        report = report_of(matched, [*before], [*parts], short, [one.definition for one in saved.parts],
                           [part.definition for part in self.parts])  # fmt: skip
        if clock is None:  # there are no keys yet
            return report
        for place in self.places:
            place.instances.watch(clock)
        begun = frozenset(name.name for name in report.begun if name.kind is PartKind.QUERY)
        for query in self.queries:
            if query.partition is not None and query.name in begun:
                query.partition.instances.announce_all(query.name, clock)
        return report

    def _recompute(self, query: QueryNode, former: SavedPart, clock: int, name: PartName) -> list[str]:
        """Return the attributes that are needed and were not stored; in that case the query starts without state."""
        assert former.definition.query is not None  # noqa: S101 - matched by it
        rows = former.definition.query.rows
        lacking = missing_columns(query, rows)
        if not lacking:
            with reporting_damage(f"the {name}"):
                recompute(query, rows, former.state, self._context, clock)
        return lacking

    def _restore(self, strings: State, states: Iterable[tuple[AppPart, State]]) -> None:
        with reporting_damage("the strings"):
            self.pool.restore(strings)
        for part, state in states:
            self._restore_part(part, state)

    def _restore_part(self, part: AppPart, state: State) -> None:
        with reporting_damage(f"the {name_of(part.definition)}"):
            part.holder.restore(state)


def _told_of(names: Mapping[str, str], state: State) -> State:
    """Return the instances of a partition with the current names of its queries as listeners."""
    untold = {names.get(query, query): count for query, count in state["untold"].items()}
    return {**state, "untold": untold}


def _tables(app: model.AnalysedApp, tables: Mapping[str, Table]) -> Iterator[AppPart]:
    for name, table in app.tables.items():
        yield AppPart(table_definition(table), tables[name])


def _nodes(app: model.AnalysedApp, nodes: Sequence[AppNode]) -> Iterator[AppPart]:
    for node in nodes:
        match node:
            case NamedWindow():
                yield AppPart(window_definition(app, app.windows[node.name]), node)
            case AggregationNode():
                yield AppPart(aggregation_definition(app, app.aggregations[node.aggregation.id]), node)
            case QueryNode():
                partition = None if node.partition is None else node.partition.name
                definition = query_definition(app, node.analysed, partition)
                yield AppPart(replace(definition, query=query_state(node, state_context(app, node.analysed))), node)
            case TriggerNode():
                yield AppPart(trigger_definition(app, app.triggers[node.name]), node)
