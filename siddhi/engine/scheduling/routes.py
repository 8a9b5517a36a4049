"""Routes of events through the graph of an app.

A route contains the stages with work, and whether a faster path is possible.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from siddhi.engine.columnar.batch import EventBatch
from siddhi.engine.fast_path.choose import fast_route
from siddhi.engine.fast_path.path import FastPath, StreamPath
from siddhi.engine.fast_path.plain_route import PlainRoute
from siddhi.engine.fast_path.table_path import TablePath, TellRefused
from siddhi.engine.fast_path.table_plan import table_plan
from siddhi.engine.jit.arrays import Int64Array
from siddhi.engine.operators.expressions.register_program import NoProgramError
from siddhi.engine.operators.patterns.chain.operator import ChainOperator
from siddhi.engine.operators.tables.session import WriteSession
from siddhi.engine.planner.query import QueryNode
from siddhi.engine.scheduling.rounds import Rounds
from siddhi.engine.shared_queries.rule_set import RuleSet, rule_sets, rules_by_stream
from siddhi.engine.streams.graph import Graph
from siddhi.engine.streams.junction import Junction
from siddhi.engine.streams.scheduled_node import ScheduledNode
from siddhi.engine.tuning import MAX_PLAIN_ROUTE_ROWS


@dataclass(frozen=True, slots=True)
class SingleStageRoute:
    """A stage that alone has work when events arrive from outside on the stream `source`.

    No other stage feeds that stream. The stage reads the events between the (empty) batches `before` and `behind` of
    its other sources.
    """

    number: int
    stage: ScheduledNode
    source: Junction
    target: Junction | None
    before: tuple[EventBatch, ...]
    behind: tuple[EventBatch, ...]


Route = list[tuple[int, ScheduledNode | RuleSet | Rounds]]
"""The stages that may have work in a step, with their numbers and in the order in which they run.

A rule set, and queries that run in rounds, replace their members.
"""


class Routes:
    """The routes through `stages`, which have the same order in `graph`.

    `fed` are the streams that stages feed, `shared` those that several stages feed.
    """

    def __init__(self, stages: Sequence[ScheduledNode], junctions: Mapping[str, Junction], graph: Graph) -> None:
        self._stages = stages
        self._junctions = junctions
        self._graph = graph
        self.fed = frozenset(key for key in junctions if graph.producers.get(key))
        self.shared = frozenset(key for key in self.fed if len(graph.producers[key]) > 1)
        self._routes: dict[tuple[tuple[str, ...], bool], tuple[Route | None, list[WriteSession]]] = {}
        self._alone: dict[str, SingleStageRoute | None] = {}
        self._rule_sets: dict[str, RuleSet] | None = None
        self._shares = True

    def of(self, roots: tuple[str, ...], *, alone: bool = False) -> Route | None:
        """Return the route of a step with events on the streams `roots`; None if it must run chunk by chunk.

        With `alone` every event is its own chunk.
        """
        try:
            return self._routes[roots, alone][0]
        except KeyError:
            found = self._routes[roots, alone] = self._found(roots, alone=alone)
            return found[0]

    def sessions(self, roots: tuple[str, ...], *, alone: bool) -> list[WriteSession]:
        """Return the tables that several stages of the route use; they must be known."""
        return self._routes[roots, alone][1]

    def _found(self, roots: tuple[str, ...], *, alone: bool) -> tuple[Route | None, list[WriteSession]]:
        wakeful = {number for number, stage in enumerate(self._stages) if stage.node.wakeful}
        shared = self._graph.columnar(roots, alone=alone)
        if shared is None:
            return None, []
        groups = self._graph.writers_first(self._graph.reached(roots, wakeful), shared)
        sessions = [self._session(table, ranks) for table, ranks in shared.items()]
        route = self._with_rules(groups)
        if route is None or any(session is None for session in sessions):
            return None, []
        return route, [session for session in sessions if session is not None]

    def _session(self, table: str, ranks: Mapping[int, int]) -> WriteSession | None:
        """Return the session of writes to `table`, which stages with these ranks use.

        Return None when these find rows in several ways. A stage that reads `table` may write another one.
        """
        nodes = {number: self._stages[number].node for number in ranks}
        writers = {
            number: writer
            for number, node in nodes.items()
            if table in node.writes and (writer := getattr(node, "writer", None)) is not None
        }
        return WriteSession.of(writers, ranks)

    def _with_rules(self, groups: Sequence[Sequence[int]]) -> Route | None:
        """Return the route of queries in `groups`; None if one of several cannot run in rounds."""
        if self._rule_sets is None:
            self._rule_sets = rule_sets(self._stages, self._junctions)
        place_of = {number: rules for rules in self._rule_sets.values() for number, _ in rules.stages}
        route: Route = []
        placed: set[int] = set()
        for number, *others in groups:
            rules = place_of.get(number)
            node = self._stages[number].node
            if others or node.reads & node.writes:
                members = [number, *others]
                if not all(self._stages[one].node.repeatable and one not in place_of for one in members):
                    return None
                route.append((number, Rounds([(one, self._stages[one]) for one in members])))
            elif rules is None:
                route.append((number, self._stages[number]))
            elif id(rules) not in placed:
                placed.add(id(rules))
                route.append((number, rules))
        return route

    def explain(self) -> Iterator[tuple[QueryNode, dict[str, str], str]]:
        """Yield for each query why events are processed one by one, by stream, and which queries share its work."""
        graph, everywhere = self._graph, set(range(len(self._stages)))
        inside = self.fed if graph.acyclic else frozenset[str]()
        outside = [key for key in self._junctions if key not in inside and graph.readers.get(key)]
        hindered = {key: reason for key in outside if (reason := self._obstacle(key)) is not None}
        reached = {key: set(graph.reached([key], set())) if graph.acyclic else everywhere for key in hindered}
        rules = rules_by_stream(self._stages) if self._shares else {}
        shared = {
            member.number: f"shares an index over the conditions of {len(members)} queries of {key}"
            for key, members in rules.items()
            for member in members
        }
        for number, stage in enumerate(self._stages):
            if isinstance(stage.node, QueryNode):
                obstacles = {key: reason for key, reason in hindered.items() if number in reached[key]}
                yield stage.node, obstacles, shared.get(number, "")

    def _obstacle(self, key: str) -> str | None:
        """Return why events on the stream `key` are processed one by one, None when they are not."""
        reason = self._graph.obstacle([key])
        if reason is None and self.of((key,), alone=True) is None:
            return "a query with state writes a table by what is in it, or several write it by different keys"
        return reason

    def flush_rules(self, clock: int) -> None:
        """Pass events that were filtered out by the index to all queries, as before a snapshot."""
        for rules in (self._rule_sets or {}).values():
            rules.catch_up(clock)

    def shared_heads(self) -> list[ChainOperator]:
        """Return the operators that patterns share."""
        return [head for rules in (self._rule_sets or {}).values() for head in rules.heads]

    def rebuild_rules(self, clock: int, *, share: bool = True) -> None:
        """Rebuild the rule sets, because more queries have listeners; drop them if not `share`."""
        if self._rule_sets == {} and not share:
            return
        for rules in (self._rule_sets or {}).values():
            rules.hand_back(clock)
        self._shares = self._shares and share
        self._rule_sets = None if self._shares else {}
        self._routes.clear()
        self._alone.clear()

    def alone(self, key: str) -> SingleStageRoute | None:
        """Return the stage that alone processes events from outside on the stream `key`, None when there are others."""
        try:
            return self._alone[key]
        except KeyError:
            alone = self._alone[key] = self._alone_behind(key)
            return alone

    def _alone_behind(self, key: str) -> SingleStageRoute | None:
        route = self.of((key,))
        if route is None or len(route) != 1 or key in self.fed:
            return None
        ((number, stage),) = route
        if not isinstance(stage, ScheduledNode):
            return None
        sources, target = stage.node.sources, stage.node.target
        if key not in sources:
            return None
        place, nothing = sources.index(key), [self._junctions[source].empty for source in sources]
        fed = None if target is None else self._junctions[target]
        return SingleStageRoute(
            number, stage, self._junctions[key], fed, tuple(nothing[:place]), tuple(nothing[place + 1 :])
        )

    def fast_path(self, stream: str, tell_refused: TellRefused) -> StreamPath | None:
        """Return the fast path of events that arrive on `stream` from outside, None if there is none.

        `tell_refused` receives the number of rows that a table refused.
        """
        path = self._path_of_queries(stream)
        if path is not None or stream in self.fed:
            return path
        return self._table_path(stream, tell_refused)

    def _table_path(self, stream: str, tell_refused: TellRefused) -> TablePath | None:
        """Return the fast path of events on `stream` whose queries use one table, None when there is none."""
        wakeful = {number for number, stage in enumerate(self._stages) if stage.node.wakeful}
        reached = self._graph.reached((stream,), wakeful)
        numbers = [number for number in self._graph.readers[stream] if number in reached]
        stages = [self._stages[number] for number in numbers]
        nodes = [stage.node for stage in stages if isinstance(stage.node, QueryNode)]
        shared = self._graph.columnar((stream,))
        if len(nodes) < len(reached) or any(node.sources != (stream,) for node in nodes):
            return None
        used = {table: node for node in nodes for table in node.reads | node.writes}
        fed = [node.target for node in nodes if node.target is not None]
        if len(used) != 1 or len(set(fed)) < len(fed) or not self.shared.isdisjoint(fed):
            return None
        ((name, user),) = used.items()
        table = user.table(name)
        if table is None or self._in_rule_set(numbers):
            return None
        source = self._junctions[stream]
        targets = [None if node.target is None else self._junctions[node.target] for node in nodes]
        try:
            plan = table_plan(nodes, source.types, table)
        except NoProgramError:
            return None
        return TablePath(source, stages, targets, plan, tell_refused, shared=shared is None or bool(shared))

    def _in_rule_set(self, numbers: Sequence[int]) -> bool:
        """Return whether one of the queries of these numbers shares work with others."""
        if self._rule_sets is None:
            self._rule_sets = rule_sets(self._stages, self._junctions)
        members = {number for rules in self._rule_sets.values() for number, _ in rules.stages}
        return not members.isdisjoint(numbers)

    def _path_of_queries(self, stream: str) -> FastPath | None:
        """Return the fast path of events on `stream` whose queries have routes, None when there is none."""
        route = self.of((stream,))
        if route is None or self.sessions((stream,), alone=False):
            return None
        readers = self._readers(stream)
        stages = [stage for _, stage in route if isinstance(stage, ScheduledNode) and stage in readers]
        if not stages or len(stages) < len(readers):
            return None
        leads_on = len(route) > len(stages)
        if leads_on and not self._may_lead_on(stages):
            return None
        fast_route = self._fast_route(stream, stages, leads_on=leads_on)
        if fast_route is not None:
            return fast_route
        plain = [stage.node for stage in stages if stage.node.plain is not None and stage.node.sources == (stream,)]
        targets = [node.target for node in plain if node.target is not None]
        if len(set(targets)) < len(stages) or not (leads_on or self.shared.isdisjoint(targets)):
            return None  # streams with several producers have an order of their own
        positions: Int64Array = np.empty(MAX_PLAIN_ROUTE_ROWS, dtype=np.int64)
        fed = [self._junctions[target] for target in targets]
        loops = [
            PlainRoute(node.plain, target.types, positions)
            for node, target in zip(plain, fed, strict=True)
            if node.plain is not None
        ]
        return FastPath(self._junctions[stream], list(zip(stages, fed, loops, strict=True)), leads_on=leads_on)

    def _readers(self, stream: str) -> list[ScheduledNode]:
        """Return the stages that read `stream`, and behind the entrance to a partition those that read it there."""
        readers = [self._stages[number] for number in self._graph.readers.get(stream, ())]
        if len(readers) == 1 and readers[0].node.hands_in and readers[0].node.target is not None:
            readers += [self._stages[number] for number in self._graph.readers.get(readers[0].node.target, ())]
        return readers

    def _may_lead_on(self, stages: Sequence[ScheduledNode]) -> bool:
        """Return whether the results of `stages` may be sent to their stream like events from outside.

        Then each of them must be of another event, as events from outside are chunks of their own, and no timer may be
        due in between. Rows on an inner stream belong to an instance, of which a record batch does not tell.
        """
        node = stages[-1].node
        if any(stage.node.timed for stage in self._stages) or len(stages) > 1 + stages[0].node.hands_in:
            return False
        return isinstance(node, QueryNode) and node.head is None and node.target is not None and "#" not in node.target

    def _fast_route(self, stream: str, stages: Sequence[ScheduledNode], *, leads_on: bool) -> FastPath | None:
        """Return the fast path of events on `stream` that only `stages` read, None when there is none.

        It leads through one query, which may be in a partition; if it `leads_on`, others read the results.
        """
        first, last = stages[0].node, stages[-1].node
        if len(stages) > 2 or last.target is None or first.sources.count(stream) != 1:
            return None
        source, target, entrance = self._junctions[stream], self._junctions[last.target], None
        if len(stages) == 2:
            if not first.hands_in or first.target is None or last.sources != (first.target,):
                return None
            entrance = stages[0], self._junctions[first.target]
        if not isinstance(last, QueryNode):
            return None
        way = fast_route(last, stream, source.types, target.types, None if entrance is None else first)
        return None if way is None else FastPath(source, [(stages[-1], target, way)], entrance, leads_on=leads_on)
