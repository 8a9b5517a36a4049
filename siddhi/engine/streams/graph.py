"""The graph of an app: which node reads and feeds which streams, and whether a step may run column by column.

A node that processes all of a step's rows together must get them in the order of an engine that processes events one by
one: each event goes through everything that follows from it before the next reader, and then the next event. In a graph
that only branches, rows merged by cause and by place have that order. It may be lost where branches join again;
`Graph.columnar` checks this.

Timers of one time fire in text order, each with everything that follows from it. Their output has separate ranks: an
event may reach a reader over another route before it reaches the timer's.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Hashable, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, field
from functools import cached_property
from typing import TypeAlias, TypeVar

T = TypeVar("T", bound=Hashable)
_Ranked: TypeAlias = tuple[dict[int, dict[str, int]], dict[str, dict[int, int]]]
"""The ranks of the inputs of nodes that have several, and of the producers of streams that have several."""


@dataclass(frozen=True, slots=True)
class GraphPlace:
    """A node's place in the graph: the streams it reads, those it feeds, and the state it shares.

    `splits` means that one incoming chunk may become several. `reads` and `writes` name tables and named windows that
    the node reads or changes; several nodes may change and read those that it `shares` in the same step, and it follows
    the changes of named windows that it `tracks`. `timed` means that timers may make it send, `splits_chunks` that it
    splits only chunks of several events. Events on `silent` inputs make it send nothing.
    """

    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    splits: bool = False
    timed: bool = False
    reads: frozenset[str] = frozenset()
    writes: frozenset[str] = frozenset()
    shares: frozenset[str] = frozenset()
    tracks: frozenset[str] = frozenset()
    silent: frozenset[str] = frozenset()
    splits_chunks: bool = False


Ranks: TypeAlias = dict[str, dict[int, int]]
"""By table: the rank of each node that uses it, among those that do so for one event."""


@dataclass(slots=True)
class _GraphWalk:
    """One event on its way through the graph, depth first: the order of visits, and the streams."""

    visits: dict[tuple[int, str], list[int]] = field(default_factory=lambda: defaultdict(list))
    deliveries: dict[str, list[int]] = field(default_factory=lambda: defaultdict(list))
    time: int = 0


class Graph:
    """Nodes are numbered in text order, which is the order in which a stream's readers are served."""

    def __init__(self, places: Sequence[GraphPlace]) -> None:
        """Create the graph of an app.

        Args:
            places: The nodes with the streams that they read and write.
        """
        self.places = places
        self.readers: dict[str, list[int]] = defaultdict(list)
        self.producers: dict[str, list[int]] = defaultdict(list)
        for node, place in enumerate(places):
            for stream in dict.fromkeys(place.inputs):
                self.readers[stream].append(node)
            for stream in dict.fromkeys(place.outputs):
                self.producers[stream].append(node)
        self._judged: dict[tuple[frozenset[str], bool], Ranks | str] = {}
        self.order = self._topological()
        self.acyclic = len(self.order) == len(places)

    def _topological(self) -> list[int]:
        """Return the nodes with producers before readers, otherwise in text order.

        Nodes on a cycle are left out.
        """
        waiting = [sum(len(self.producers[stream]) for stream in set(place.inputs)) for place in self.places]
        ready = [node for node, count in enumerate(waiting) if count == 0]
        order: list[int] = []
        while ready:
            node = min(ready)
            ready.remove(node)
            order.append(node)
            for stream in dict.fromkeys(self.places[node].outputs):
                for reader in self.readers[stream]:
                    waiting[reader] -= 1
                    if waiting[reader] == 0:
                        ready.append(reader)
        return order

    def columnar(self, roots: Iterable[str], *, alone: bool = False) -> Ranks | None:
        """Return the tables that nodes share in a step, None when the step may not run column by column.

        The step has events on the streams `roots` and timers anywhere. With `alone` every event is a chunk of its own.
        """
        found = self._judge(roots, alone=alone)
        return None if isinstance(found, str) else found

    def obstacle(self, roots: Iterable[str]) -> str | None:
        """Return why a step of single events must run event by event, None when it need not."""
        found = self._judge(roots, alone=True)
        return found if isinstance(found, str) else None

    def _judge(self, roots: Iterable[str], *, alone: bool) -> Ranks | str:
        key = frozenset(roots), alone
        if key not in self._judged:
            self._judged[key] = self._found(*key)
        return self._judged[key]

    def reached(self, roots: Iterable[str], wakeful: Set[int]) -> list[int]:
        """Return the nodes `wakeful` and those that events on the streams `roots` may reach.

        Producers come before readers.
        """
        streams = set(roots)
        found = []
        for node in self.order:
            place = self.places[node]
            if node in wakeful or not streams.isdisjoint(place.inputs):
                found.append(node)
                streams.update(place.outputs)
        return found

    def writers_first(self, nodes: list[int], shared: Ranks) -> list[list[int]]:
        """Return `nodes` in an order in which writers of a `shared` table come before its readers.

        Nodes without such an order, because a writer depends on its own or others' reads, are together in a list, with
        producers before readers.
        """
        if not shared:
            return [[node] for node in nodes]
        before: dict[int, set[int]] = {node: set() for node in nodes}
        for node in nodes:
            place = self.places[node]
            for stream in place.inputs:
                before[node].update(other for other in self.producers.get(stream, ()) if other in before)
            for table in shared.keys() & place.reads:
                before[node].update(one for one in shared[table] if one in before and table in self.places[one].writes)
        ordered: dict[int, None] = {}
        groups: list[list[int]] = []
        while len(ordered) < len(nodes):
            waiting = [node for node in nodes if node not in ordered]
            ready = next(([node] for node in waiting if before[node] <= ordered.keys()), None)
            groups.append(ready or _first_circle(waiting, before))
            ordered.update(dict.fromkeys(groups[-1]))
        return groups

    def _found(self, roots: frozenset[str], alone: bool) -> Ranks | str:
        if not self.acyclic:
            return "queries feed each other in a cycle"
        timed = [node for node, place in enumerate(self.places) if place.timed]
        walks = [self._walk([stream]) for stream in roots]
        if any(self._meets_badly(walk, self._ranked) for walk in walks):
            return "what an event causes in several queries comes together again in another order"
        of_timers = [self._walk(self.places[node].outputs) for node in timed]
        if any(self._meets_badly(walk, self._timer_ranked) for walk in of_timers):
            return "what timers cause in several queries comes together again in another order"
        events = list(walks)
        walks.extend(of_timers)
        active = {node for walk in walks for node, _ in walk.visits} | set(timed)
        written = {item for node in active for item in self.places[node].writes}
        fired = {node for walk in of_timers for node, _ in walk.visits} | set(timed)
        shared: Ranks = {}
        for item in sorted(written):
            places = ((node, self.places[node]) for node in sorted(active))
            users = [
                node for node, place in places for items in (place.reads - place.tracks, place.writes) if item in items
            ]
            if len(users) > 1:
                ranks = self._shared_by(item, _once(users), events, fired, alone=alone)
                if ranks is None:
                    return f"a query writes {item}, and another one writes or reads it"
                shared[item] = ranks
        return shared

    def _shared_by(
        self, item: str, users: Sequence[int], walks: Sequence[_GraphWalk], fired: Set[int], *, alone: bool
    ) -> dict[int, int] | None:
        """Return the rank of each of the `users` of a table, for one event; None when there is no such order.

        There is none when chunks of one event reach users alternately, or when timers reach several.
        """
        if any(item not in self.places[node].shares for node in users):
            return None
        if len(fired & set(users)) > 1:
            return None
        orders = []
        for walk in walks:
            visits: dict[int, list[int]] = {node: [] for node in users}
            for (node, _), times in walk.visits.items():
                if node in visits:
                    visits[node].extend(times)
            met = sorted((times[0], node) for node, times in visits.items() if times)
            if any(len(times) > 1 for times in visits.values()):
                return None
            if len(met) > 1 and any(self._unordered(walk, node, alone=alone) for _, node in met):
                return None
            orders.append([node for _, node in met])
        ranks = _ranks(users, orders)
        return ranks if all(_rise(ranks, order) for order in orders) else None

    def firing_first(self) -> frozenset[int]:
        """Return the timed nodes that precede all nodes whose timers send to them.

        Their own timers of one time fire before the output of those nodes arrives.
        """
        timed = [node for node, place in enumerate(self.places) if place.timed]
        senders: dict[int, list[int]] = {node: [] for node in timed}
        for sender in timed:
            for node in {node for node, _ in self._walk(self.places[sender].outputs).visits} & senders.keys():
                senders[node].append(sender)
        return frozenset(node for node, found in senders.items() if found and node < min(found))

    def _walk(self, streams: Sequence[str]) -> _GraphWalk:
        walk = _GraphWalk()
        for stream in streams:
            self._deliver(walk, stream, producer=-1)
        return walk

    def _deliver(self, walk: _GraphWalk, stream: str, producer: int, stops: Set[int] = frozenset()) -> None:
        """Continue the walk over `stream`; it enters the nodes `stops` but goes no further."""
        walk.deliveries[stream].append(producer)
        for node in self.readers[stream]:
            walk.time += 1
            walk.visits[node, stream].append(walk.time)
            if len(walk.visits[node, stream]) > 1 or node in stops:
                continue
            for output in () if stream in self.places[node].silent else self.places[node].outputs:
                self._deliver(walk, output, node, stops)

    def _meets_badly(self, walk: _GraphWalk, ranked: _Ranked) -> bool:
        """Return whether branches of the walk join and their rows cannot simply be merged by cause and place."""
        visited = {node for node, _ in walk.visits}
        for stream, producers in walk.deliveries.items():
            if len(producers) > 1 and any(self._unordered(walk, producer) for producer in producers):
                return True
            if not _rise(self._producer_ranks(stream, ranked), _once(producers)):
                return True
        for node in visited:
            streams = [stream for stream in dict.fromkeys(self.places[node].inputs) if (node, stream) in walk.visits]
            if len(streams) > 1:
                if not _rise(self._input_ranks(node, ranked), _by_visit(walk, node, streams)):
                    return True
                feeders = [producer for stream in streams for producer in walk.deliveries[stream]]
                if any(self._unordered(walk, producer) for producer in feeders):
                    return True
        return False

    def _unordered(self, walk: _GraphWalk, producer: int, *, alone: bool = False) -> bool:
        """Return whether one root chunk may reach `producer` as several chunks or on several routes.

        With `alone` a root chunk is one event.
        """
        if producer < 0:
            return False
        place = self.places[producer]
        streams = [one for one in place.inputs if (producer, one) in walk.visits and one not in place.silent]
        if len(set(streams)) > 1:
            return True
        for stream in streams:
            feeders = walk.deliveries[stream]
            if len(feeders) > 1:
                return True
            if feeders[0] < 0:
                continue
            place = self.places[feeders[0]]
            if place.splits and not (alone and place.splits_chunks):
                return True
            if self._unordered(walk, feeders[0], alone=alone):
                return True
        return False

    def input_ranks(self, node: int, *, of_timers: bool = False) -> dict[str, int]:
        """Return the rank of each input stream of `node` among rows of one event, or of timers of one time.

        It follows the visits by the roots that reach several of them. Streams that no root reaches together keep the
        order in which the node names them.
        """
        return self._input_ranks(node, self._timer_ranked if of_timers else self._ranked)

    def producer_ranks(self, stream: str, *, of_timers: bool = False) -> dict[int, int]:
        """Return the rank of each producer of `stream` (-1: events from outside).

        It applies to rows of one event, or of timers of one time.
        """
        return self._producer_ranks(stream, self._timer_ranked if of_timers else self._ranked)

    def _input_ranks(self, node: int, ranked: _Ranked) -> dict[str, int]:
        return ranked[0].get(node) or _ranks(_once(self.places[node].inputs), ())

    def _producer_ranks(self, stream: str, ranked: _Ranked) -> dict[int, int]:
        return ranked[1].get(stream) or _ranks([-1, *self.producers[stream]], ())

    @cached_property
    def _ranked(self) -> _Ranked:
        """The ranks for rows caused by events."""
        return self._ranked_by([[stream] for stream in self.readers])

    @cached_property
    def _timer_ranked(self) -> _Ranked:
        """The ranks for rows caused by timers: for a single timer, then for all that fire at one time."""
        timed = [node for node, place in enumerate(self.places) if place.timed]
        if len(timed) < 2:
            return self._ranked_by([self.places[node].outputs for node in timed])
        together = _GraphWalk()
        for node in timed if self.acyclic else ():
            for stream in self.places[node].outputs:
                self._deliver(together, stream, node, frozenset(timed))
        return self._ranked_by([self.places[node].outputs for node in timed], together)

    def _ranked_by(self, roots: Sequence[Sequence[str]], otherwise: _GraphWalk | None = None) -> _Ranked:
        """Return the ranks that walks from each of `roots` give to inputs of nodes and to producers of streams.

        Only nodes with several inputs and streams with several producers count. The walk `otherwise` decides the
        remaining cases; a graph with cycles has no ranks.
        """
        meeting = {node: _once(place.inputs) for node, place in enumerate(self.places)}
        visited: dict[int, set[tuple[str, ...]]] = {node: set() for node, inputs in meeting.items() if inputs[1:]}
        fed: dict[str, set[tuple[int, ...]]] = {name: set() for name, nodes in self.producers.items() if nodes[1:]}
        for root in roots if self.acyclic and (visited or fed) else ():
            walk = self._walk(root)
            for node, ways in visited.items():
                ways.add(_by_visit(walk, node, meeting[node]))
            for stream, orders in fed.items():
                orders.add(tuple(_once(walk.deliveries.get(stream, ()))))
        last = otherwise or _GraphWalk()
        inputs = {
            node: _ranks(meeting[node], ways, _by_visit(last, node, meeting[node])) for node, ways in visited.items()
        }
        outputs = {
            stream: _ranks([-1, *self.producers[stream]], orders, _once(last.deliveries.get(stream, ())))
            for stream, orders in fed.items()
        }
        return inputs, outputs


def _first_circle(waiting: Sequence[int], before: Mapping[int, Set[int]]) -> list[int]:
    """Return nodes of `waiting` that wait only for each other."""
    known = set(waiting)
    needed = {node: _all_before(node, before, known) for node in waiting}
    first = min((node for node in waiting if node in needed[node]), key=lambda node: len(needed[node]))
    return [node for node in waiting if node in needed[first]]


def _all_before(node: int, before: Mapping[int, Set[int]], known: Set[int]) -> set[int]:
    """Return the nodes of `known` that `node` waits for, directly or indirectly; in a cycle also itself."""
    found: set[int] = set()
    waiting = [node]
    while waiting:
        new = (before[waiting.pop()] & known) - found
        found |= new
        waiting.extend(new)
    return found


def _once(items: Iterable[T]) -> list[T]:
    return list(dict.fromkeys(items))


def _by_visit(walk: _GraphWalk, node: int, inputs: Iterable[str]) -> tuple[str, ...]:
    """Return those of `inputs` over which the walk reaches `node`, in the order of the visits."""
    visited = [stream for stream in inputs if (node, stream) in walk.visits]
    return tuple(sorted(visited, key=lambda stream: walk.visits[node, stream][0]))


def _ranks(items: Sequence[T], orders: Collection[Sequence[T]], wish: Sequence[T] = ()) -> dict[T, int]:
    """Return the rank of each of `items`.

    They follow each of `orders` as far as it goes, then `wish` if it contradicts none of them; otherwise items keep
    their order. Of contradictory orders some are not followed: `Graph.columnar` checks for this.
    """
    if wish:
        wished = _ranks(items, [*orders, wish])
        return wished if all(_rise(wished, order) for order in orders) else _ranks(items, orders)
    waiting, ranks = list(items), dict[T, int]()
    before: dict[T, set[T]] = {item: set() for item in items}
    for order in orders:
        for place, item in enumerate(order):
            before[item].update(order[:place])
    while waiting:
        chosen = next((item for item in waiting if before[item].issubset(ranks)), waiting[0])
        waiting.remove(chosen)
        ranks[chosen] = len(ranks)
    return ranks


def _rise(ranks: Mapping[T, int], items: Iterable[T]) -> bool:
    """Return whether `items` are in the order of their ranks."""
    places = [ranks[item] for item in items]
    return places == sorted(places)
