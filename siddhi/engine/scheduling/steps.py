"""Run one step through the graph of an app: column by column if that keeps the order, otherwise chunk by chunk."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

import numpy as np

from siddhi.engine.columnar.batch import EventBatch
from siddhi.engine.emit.batch_writer import BatchWriter
from siddhi.engine.fast_path.path import StreamPath
from siddhi.engine.jit.arrays import Int64Array, filled
from siddhi.engine.operators.base.operator import Step
from siddhi.engine.operators.node import AppNode
from siddhi.engine.operators.patterns.chain.operator import ChainOperator
from siddhi.engine.operators.tables.session import WriteSession
from siddhi.engine.planner.explain import explain_query
from siddhi.engine.scheduling.chunks import ChunkRunner
from siddhi.engine.scheduling.failed_events import FailedEvents, FailureTracker
from siddhi.engine.scheduling.failure_units import distinguish_units, with_units
from siddhi.engine.scheduling.rounds import RoundLimit, Rounds
from siddhi.engine.scheduling.routes import Route, Routes
from siddhi.engine.scheduling.timer_slices import cut_at_timers
from siddhi.engine.shared_queries.rule_set import Projected, RuleSet
from siddhi.engine.streams.graph import Graph, GraphPlace
from siddhi.engine.streams.junction import Junction, Listener, merge_producers
from siddhi.engine.streams.query_watch import QueryWatch
from siddhi.engine.streams.scheduled_node import ScheduledNode
from siddhi.explanation import ExplainedQuery

_Sent = dict[str, list[tuple[int | Int64Array, EventBatch]]]
"""The batches sent to each stream in a step: (producer, batch), where producer -1 is outside.

If several rules have produced a batch, the producer of each row.
"""


class StepRunner:
    """Runs the steps of an app over its stages, which are in text order."""

    def __init__(self, stages: Sequence[ScheduledNode], junctions: Mapping[str, Junction]) -> None:
        self._stages = list(stages)
        self._junctions = junctions
        entrances = [stage.node for stage in self._stages if stage.node.hands_in]
        self._outside = {str(node.target): node.sources[0] for node in entrances}
        """The stream that comes into a partition by the name of the key."""
        self.failures = FailureTracker(junctions, self._outside)
        self._graph = Graph([self._with_faults(stage.place()) for stage in self._stages])
        self._ranks = {key: self._graph.producer_ranks(key) for key in junctions}
        of_timers = {key: self._graph.producer_ranks(key, of_timers=True) for key in junctions}
        self._rank_lines: dict[str, Int64Array] = {}
        self._timer_ranks = {key: ranks for key, ranks in of_timers.items() if ranks != self._ranks[key]}
        self._first_producers = {key: min(self._graph.producers.get(key, ()), default=-1) for key in junctions}
        ran = {number: place for place, number in enumerate(self._graph.order)}
        self._first_to_run = {
            key: min((ran.get(number, -1) for number in self._graph.producers.get(key, ())), default=-1)
            for key in junctions
        }
        self._routes = Routes(self._stages, junctions, self._graph)
        self._timed = [stage for stage in self._stages if stage.node.timed]
        for node in self._graph.firing_first():
            self._stages[node].fires_first = not self._stages[node].node.by_key
        for stage in self._stages:
            node_ = stage.node
            stage.tells_apart = node_.may_fail and not self._routes.fed.isdisjoint(node_.sources)
            stage.keyed = [source in self._outside for source in node_.sources]
        self._round_limit = RoundLimit()
        self._chunks = ChunkRunner(
            self._stages, junctions, self._graph.readers, self._outside, self.failures, self._run_stage,
            self.next_deadline_ms,
        )  # fmt: skip
        self.watch: QueryWatch | None = None
        for node, stage in enumerate(self._stages):
            ranks = self._graph.input_ranks(node)
            stage.node.arrival = tuple(ranks[source] for source in stage.node.sources)
            of_timer = self._graph.input_ranks(node, of_timers=True)
            if of_timer != ranks:
                stage.node.timer_arrival = tuple(of_timer[source] for source in stage.node.sources)

    def _with_faults(self, place: GraphPlace) -> GraphPlace:
        """Return `place`, extended to feed the fault streams of the streams that it reads."""
        read = dict.fromkeys(self._outside.get(key, key) for key in place.inputs)
        faults = tuple(f"!{key}" for key in read if self._junctions[key].redirects)
        return replace(place, outputs=place.outputs + faults)

    def listen(self, query: str, listener: Listener, outlet: BatchWriter, clock: int) -> None:
        """Call `listener` with each output of the query of that name, as `outlet` makes it.

        Raise KeyError when there is no such query.
        """
        for stage in self._stages:
            if stage.node.name == query:
                self._routes.rebuild_rules(clock)
                stage.add_listener(listener, outlet)
                return
        raise KeyError(query)

    def explain(self) -> tuple[ExplainedQuery, ...]:
        """Return how the queries run, in text order."""
        return tuple(explain_query(query, obstacles, shared) for query, obstacles, shared in self._routes.explain())

    def shared_heads(self) -> list[ChainOperator]:
        """Return the operators that several queries share now."""
        return self._routes.shared_heads()

    def unshare(self, clock: int) -> None:
        """Give each query separate state, until the next step."""
        self._routes.rebuild_rules(clock)

    def settle(self, clock: int) -> None:
        """Let all queries process all events, as before a snapshot."""
        self._routes.flush_rules(clock)

    def next_deadline_ms(self) -> int | None:
        """Return the time at which the earliest timer is due, or None."""
        return min((due for stage in self._timed if (due := stage.node.next_deadline_ms()) is not None), default=None)

    def run_batch(self, key: str, batch: EventBatch, clocks: Int64Array, floor: int, shown: int) -> None:
        """Run the events of one stream through the app, as `run` does.

        If a single stage reads them, it skips lookup and merging, which is noticeable for single events.
        """
        alone = self._routes.alone(key)
        if alone is None:
            self.run({key: [batch]}, clocks, floor, shown)
            return
        stage, source, target, step = alone.stage, alone.source, alone.target, Step(clocks, floor, shown)
        inputs = [*alone.before, batch, *alone.behind]
        out = self._run_stage(stage, inputs, step)
        if step.has_failures:
            arrived, sent = {source.key: batch}, _Sent()
            self._pass_on(alone.number, inputs, inputs, out, step, sent, arrived)
            self._tell(sent, arrived)
            return
        source.tell(batch)
        if target is not None and out.size:
            target.tell(stage.deliver(out))

    def run(self, roots: Mapping[str, list[EventBatch]], clocks: Int64Array, floor: int, shown: int) -> None:
        """Run the events `roots` and all timers due until the last of `clocks` through the app.

        `floor` and `shown` are as in `Step`.
        """
        alone = all(batch.chunks is None for batches in roots.values() for batch in batches)
        route = self._routes.of(tuple(roots), alone=alone)
        if route is None or (any(isinstance(stage, Rounds) for _, stage in route) and not self._round_limit.allows()):
            self._routes.rebuild_rules(int(clocks[0]), share=False)
            self._chunks.run(roots, clocks, floor, shown)
            return
        sessions = self._routes.sessions(tuple(roots), alone=alone)
        for session in sessions:
            session.open()
        try:
            self._run_columns(route, roots, Step(clocks, floor, shown), sessions)
        finally:
            for session in sessions:
                for number, refused in session.close():
                    self._tell_refused(self._stages[number].node, refused)

    def _tell_refused(self, node: AppNode, refused: int) -> None:
        self.failures.tell(FailedEvents(node.name, "", refused, "its table already has that primary key"))

    def fast_path(self, stream: str) -> StreamPath | None:
        """Return the fast path of events that arrive on `stream` from outside, None if there is none."""
        return self._routes.fast_path(stream, self._tell_refused)

    # ---- column by column

    def _run_columns(
        self, route: Route, roots: Mapping[str, list[EventBatch]], step: Step, sessions: Sequence[WriteSession]
    ) -> None:
        sent, arrived = self._entered(roots)
        bundled = False
        for number, stage in route:
            if isinstance(stage, RuleSet):
                self._run_rules(stage, step, sent, arrived)
                bundled = True
                continue
            if isinstance(stage, Rounds):
                self._run_rounds(stage, step, sent, arrived, sessions)
                continue
            node = stage.node
            inputs = [arrived.get(key) or self._arrived(key, sent, arrived) for key in node.sources]
            if not _has_rows(inputs) and not node.wakes(step):
                continue
            if node.hands_in and node.sources[0] in self._routes.fed:
                inputs = [with_units(inputs[0])]
                arrived[node.sources[0]] = inputs[0]
            for session in sessions:
                session.enter(number)
            run = self._run_in_turns if stage.fires_first else self._run_stage
            told = None
            if stage.tells_apart:
                told = distinguish_units(inputs, stage.keyed, node.arrival, node.timer_arrival, step)
            if told is None:
                self._pass_on(number, inputs, inputs, run(stage, inputs, step), step, sent, arrived)
                continue
            as_told, apart = told
            out = run(stage, as_told, apart)
            out = out.with_orders(apart.of_whole(out.orders)) if out.size else out
            self._pass_on(number, inputs, as_told, out, apart, sent, arrived)
        self._tell(sent, arrived, bundled=bundled)

    def _run_rules(self, rules: RuleSet, step: Step, sent: _Sent, arrived: dict[str, EventBatch]) -> None:
        """Pass the members of `rules` the events that match them, and pass on their output."""
        key, concerned = rules.source.key, dict[int, tuple[ScheduledNode, EventBatch, EventBatch]]()
        batch = arrived.get(key) or self._arrived(key, sent, arrived)
        if batch.size:
            began_ns = 0 if self.watch is None else self.watch.now_ns()
            sifted = rules.sift(batch, step)
            if self.watch is not None:
                self._report(sifted.projected, self.watch, self.watch.now_ns() - began_ns)
            for target, producers, out in sifted.projected:
                if target in self._routes.shared or target in sent:
                    sent.setdefault(target, []).append((producers, out))
                else:
                    arrived[target] = out
            for number, stage, own in sifted.concerned:
                concerned[number] = stage, own, batch
        for number, stage in rules.wakeful:
            if number not in concerned and stage.node.wakes(step):
                concerned[number] = stage, self._junctions[key].empty, self._junctions[key].empty
        for number in sorted(concerned):
            stage, own, batch = concerned[number]
            out = self._run_stage(stage, [own], step)
            self._pass_on(number, [batch], [batch], out, step, sent, arrived)
        if rules.is_full:
            self._routes.rebuild_rules(step.final_clock)

    def _run_rounds(
        self, rounds: Rounds, step: Step, sent: _Sent, arrived: dict[str, EventBatch], sessions: Sequence[WriteSession]
    ) -> None:
        """Run queries that write depending on their tables, until a round writes the same as the previous one."""
        tables = [session for session in sessions if session.has_writer_of(rounds.numbers)]
        for session in tables:
            session.begin_rounds()
        settled, count, rows, most = False, 0, 0, 0
        while not settled and count <= most + 1:
            count += 1
            now, come = {key: list(parts) for key, parts in sent.items()}, dict(arrived)
            made: list[tuple[ScheduledNode, int, int, EventBatch]] = []
            for number, stage in rounds.stages:
                inputs = [come.get(key) or self._arrived(key, now, come) for key in stage.node.sources]
                if not _has_rows(inputs):
                    continue
                for session in sessions:
                    session.enter(number)
                began_ns = 0 if self.watch is None else self.watch.now_ns()
                out = self._processed(stage.node, inputs, step)
                if out.size:
                    stage.node.write(out, step)
                worked_ns = 0 if self.watch is None else self.watch.now_ns() - began_ns
                size = sum(batch.size for batch in inputs)
                rows = max(rows, size)
                made.append((stage, size, worked_ns, out))
                self._pass_on(number, inputs, inputs, out, step, now, come)
            most = max(most, sum(size for _, size, _, _ in made))
            settled = True
            for session in tables:
                settled &= session.settle()
        self._round_limit.took(count, rows)
        sent.update(now)
        arrived.update(come)
        for stage, size, worked_ns, out in made:
            if self.watch is not None:
                self.watch.worked(stage.node.name, size, worked_ns * count)
            if out.size:
                stage.tell(out)

    def _processed(self, node: AppNode, inputs: Sequence[EventBatch], step: Step) -> EventBatch:
        """Return the output of a node that never fails."""
        inputs = [batch if batch.units is None else batch.with_units(None) for batch in inputs]
        with np.errstate(all="ignore"):  # numbers overflow silently, as in Java
            out = node.process(inputs, step)
        return _not_before(out, step.shown) if step.shown > step.floor and out.size else out

    def _report(self, projected: Sequence[Projected], watch: QueryWatch, length_ns: int) -> None:
        """Report the working time of rules that were processed together: each gets its share of the results."""
        results = sum(batch.size for _, _, batch in projected)
        for _, producers, _ in projected:
            for number, count in zip(*np.unique(producers, return_counts=True), strict=True):
                watch.worked(self._stages[number].node.name, int(count), length_ns * int(count) // results)

    def _pass_on(
        self,
        number: int,
        inputs: Sequence[EventBatch],
        told: Sequence[EventBatch],
        out: EventBatch,
        step: Step,
        sent: _Sent,
        arrived: dict[str, EventBatch],
    ) -> None:
        """Pass on the output `out` of the stage of that number, and the events that failed in it.

        `told` are its `inputs` in the form that the stage received.
        """
        stage = self._stages[number]
        node, target = stage.node, stage.node.target
        if (failures := step.taken_failures()) is not None:
            for key, batch in self.failures.take_out(failures, node, inputs, told, arrived):
                sent.setdefault(key, []).append((number, batch))
        if target is not None and out.size:
            if target in self._routes.shared or target in sent:
                sent.setdefault(target, []).append((number, stage.deliver(out)))
            else:
                arrived[target] = stage.deliver(out)

    def _tell(self, sent: _Sent, arrived: dict[str, EventBatch], *, bundled: bool = False) -> None:
        """Notify listeners of the events of their streams in this step, in the order in which streams are fed.

        Rules that were `bundled` have run already.
        """
        for key in sent:
            self._arrived(key, sent, arrived)
        keys: Iterable[str] = arrived
        if sent or bundled:
            keys = sorted(arrived, key=(self._first_producers if sent else self._first_to_run).__getitem__)
        for key in keys:
            if arrived[key].size:
                self._junctions[key].tell(arrived[key])

    def _entered(self, roots: Mapping[str, list[EventBatch]]) -> tuple[_Sent, dict[str, EventBatch]]:
        """Return the events from outside, split by whether stages feed their streams, too.

        The first part contains those of streams that stages feed as well, the second those of all other streams.
        """
        sent: _Sent = {}
        arrived: dict[str, EventBatch] = {}
        for key, batches in roots.items():
            if len(batches) == 1 and key not in self._routes.fed:
                arrived[key] = batches[0]
            else:
                sent[key] = [(-1, batch) for batch in batches]
        return sent, arrived

    def _arrived(self, key: str, sent: _Sent, arrived: dict[str, EventBatch]) -> EventBatch:
        """Return the events of stream `key` in this step, merged after all its producers have run."""
        batch = arrived.get(key)
        if batch is not None:
            return batch
        parts = sent.get(key)
        if parts is None:
            return self._junctions[key].empty
        batch = arrived[key] = parts[0][1] if len(parts) == 1 else self._merged(key, parts)
        return batch

    def _merged(self, key: str, parts: Sequence[tuple[int | Int64Array, EventBatch]]) -> EventBatch:
        """Return the merged events that several producers sent to stream `key`."""
        ranks, of_timers = self._ranks[key], self._timer_ranks.get(key)
        batches = [batch for _, batch in parts]
        if of_timers is None and all(isinstance(producer, int) for producer, _ in parts):
            places = sorted(range(len(parts)), key=lambda place: ranks[parts[place][0]])  # type: ignore[index] # an int
            return merge_producers([batches[place] for place in places])
        of_rows = self._ranks_of_rows(f"{key} of events", ranks, parts)
        if of_timers is not None:
            orders = np.concatenate([batch.orders for batch in batches])
            of_rows = np.where(orders & 1, of_rows, self._ranks_of_rows(f"{key} of timers", of_timers, parts))
        return merge_producers(batches, of_rows)

    def _ranks_of_rows(
        self, name: str, ranks: Mapping[int, int], parts: Sequence[tuple[int | Int64Array, EventBatch]]
    ) -> Int64Array:
        """Return the rank of the producer of each row of `parts`.

        The lookup table for `ranks` is cached under `name`.
        """
        line = self._rank_lines.get(name)
        if line is None:
            line = self._rank_lines[name] = _line(ranks)
        return np.concatenate([
            filled(batch.size, ranks[producer]) if isinstance(producer, int) else line[producer + 1]
            for producer, batch in parts
        ])  # fmt: skip

    def _run_in_turns(self, stage: ScheduledNode, inputs: Sequence[EventBatch], step: Step) -> EventBatch:
        """Run the stage as `_run_stage` does.

        Its own timers of one time fire before the output of other timers arrives.
        """
        outs = [
            self._run_stage(stage, piece, step if place is None else step.until(*place))
            for place, piece in cut_at_timers(inputs)
        ]
        return EventBatch.concat([out for out in outs if out.size] or outs[-1:])

    def _run_stage(self, stage: ScheduledNode, inputs: Sequence[EventBatch], step: Step) -> EventBatch:
        """Return the output of the stage, after passing it to its listeners and its table."""
        if not stage.node.computes:
            return self._work(stage, inputs, step)
        with np.errstate(all="ignore"):  # numbers overflow silently, as in Java
            return self._work(stage, inputs, step)

    def _work(self, stage: ScheduledNode, inputs: Sequence[EventBatch], step: Step) -> EventBatch:
        node = stage.node
        if not node.hands_in:
            inputs = [batch if batch.units is None else batch.with_units(None) for batch in inputs]
        out = node.process(inputs, step) if self.watch is None else _watched(self.watch, node, inputs, step)
        if step.has_failures:
            out = step.without_failed(out)
        if step.shown > step.floor and out.size:
            out = _not_before(out, step.shown)
        if stage.is_heard and out.size:
            stage.tell(out)
            if node.writes and (refused := node.write(out, step)):
                self._tell_refused(node, refused)
        return out


def _line(ranks: Mapping[int, int]) -> Int64Array:
    """Return the ranks of producers, that of producer i in place i + 1."""
    line: Int64Array = np.zeros(max(ranks, default=-1) + 2, dtype=np.int64)
    line[np.fromiter(ranks, np.int64) + 1] = np.fromiter(ranks.values(), np.int64)
    return line


def _has_rows(batches: Sequence[EventBatch]) -> bool:
    for batch in batches:  # noqa: SIM110 - `any` takes three times as long, once for each node and step
        if batch.size:
            return True
    return False


def _not_before(out: EventBatch, shown: int) -> EventBatch:
    """Return `out` with times raised to `shown` where a timer used an earlier time of its own."""
    early = (out.orders & 1 == 0) & (out.timestamps == out.clocks) & (out.timestamps < shown)
    return out.with_timestamps(np.where(early, shown, out.timestamps)) if early.any() else out


def _watched(watch: QueryWatch, node: AppNode, inputs: Sequence[EventBatch], step: Step) -> EventBatch:
    began_ns = watch.now_ns()
    out = node.process(inputs, step)
    watch.worked(node.name, sum(batch.size for batch in inputs), watch.now_ns() - began_ns)
    return out
