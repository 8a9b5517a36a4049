"""Run a step chunk by chunk, depth first: everything that a chunk causes is processed before the next one enters.

This is slower than a step column by column, and valid for every graph.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence

import numpy as np

from siddhi.engine.columnar.batch import EventBatch, split_chunks
from siddhi.engine.jit.arrays import NO_POSITIONS, Int64Array
from siddhi.engine.limits import MAX_CASCADE_DEPTH
from siddhi.engine.operators.base.operator import Failures, Step
from siddhi.engine.operators.node import AppNode
from siddhi.engine.scheduling.failed_events import FailureTracker
from siddhi.engine.streams.junction import Junction
from siddhi.engine.streams.scheduled_node import ScheduledNode
from siddhi.errors import Problem, SiddhiRuntimeError

_Delivery = tuple[str, EventBatch]
_Work = list[tuple[str, EventBatch, Iterator[ScheduledNode], int]]
"""Chunks in progress: the stream, the chunk, its remaining readers, and the length of the cascade so far."""

RunStage = Callable[[ScheduledNode, Sequence[EventBatch], Step], EventBatch]

_FIRST: Int64Array = np.zeros(1, dtype=np.int64)
"""The order of output of timers that fire alone."""


class ChunkRunner:
    """Runs chunks through the stages of an app."""

    def __init__(
        self,
        stages: Sequence[ScheduledNode],
        junctions: Mapping[str, Junction],
        readers: Mapping[str, Collection[int]],
        outside: Mapping[str, str],
        failures: FailureTracker,
        run_stage: RunStage,
        next_deadline_ms: Callable[[], int | None],
    ) -> None:
        """Create a runner of `stages`.

        Args:
            stages: The stages, in text order.
            junctions: The streams.
            readers: The numbers of the stages that read each stream.
            outside: The stream that comes into a partition, by the name of the key.
            failures: Takes the events that fail.
            run_stage: Runs one stage and returns what it sends.
            next_deadline_ms: Returns when the earliest timer is due.
        """
        self._stages = stages
        self._junctions = junctions
        self._readers_of = readers
        self._outside = outside
        self._failures = failures
        self._run_stage = run_stage
        self._next_deadline_ms = next_deadline_ms

    def run(self, roots: Mapping[str, list[EventBatch]], clocks: Int64Array, floor: int, shown: int) -> None:
        """Run the events `roots` and all timers due until the last of `clocks` through the app, as `StepRunner.run`."""
        chunks: list[tuple[int, str, EventBatch]] = []
        for key, batches in roots.items():
            for batch in batches:
                chunks.extend((int(part.orders[0]), key, part) for part in split_chunks(batch))
        chunks.sort(key=lambda chunk: chunk[0])
        for order, key, batch in chunks:
            clock = int(clocks[order // 2])
            self._fire_timers(clock, floor, shown)
            floor = clock
            step = Step(np.full(1, clock, dtype=np.int64), clock, shown)
            self._carry(key, batch.at_order(1), step)
            shown = max(shown, clock)
            self._wake(Step(np.full(1, clock, dtype=np.int64), clock, shown))
        self._fire_timers(int(clocks[-1]), floor, shown)

    def _fire_timers(self, clock: int, floor: int, shown: int) -> None:
        """Fire every timer due until `clock` at its own time.

        Timers of one time fire in the order of the stages. Timers that are set meanwhile for a past time fire in
        further rounds, but never in a cycle.
        """
        now, rounds = None, 0
        while (due := self._next_deadline_ms()) is not None and due <= clock and rounds <= 2 * len(self._stages):
            if due > floor:  # the clock moves on to the timer's own time, and everything before has passed
                floor, shown = due, max(shown, due - 1)
            rounds = rounds + 1 if floor == now else 0
            now = floor
            self._wake(Step(np.full(1, now, dtype=np.int64), now, shown))

    def _wake(self, step: Step) -> None:
        """Run every stage that has work without input, in text order.

        While the output of one is processed, the timers of this time are still pending in the others.
        """
        waiting = Step(np.minimum(step.clocks - 1, step.shown), step.floor, step.shown)
        waiting.arrivals = _FIRST
        for stage in self._stages:
            if stage.node.wakes(step):
                inputs = [self._junctions[key].empty for key in stage.node.sources]
                out = self._run_stage(stage, inputs, step)
                if (failures := step.taken_failures()) is not None:
                    self._failures.take_out(failures, stage.node, inputs, inputs, {})
                self._carry_on(stage, out, waiting)

    def _carry_on(self, stage: ScheduledNode, out: EventBatch, step: Step) -> None:
        if stage.node.target is not None:
            for chunk in split_chunks(stage.deliver(out)):
                self._carry(stage.node.target, chunk, step)

    def _carry(self, key: str, chunk: EventBatch, step: Step) -> None:
        """Process one chunk of stream `key` and everything that it causes, reader after reader.

        The remaining work is a stack, so that streams that feed themselves do not nest calls. Raise
        `SiddhiRuntimeError` (code `endless-loop`) when they do so without end.
        """
        work: _Work = [(key, chunk, iter(self._readers(key)), 0)]
        while work:
            key, chunk, stages, depth = work[-1]
            stage = next(stages, None)
            if stage is None:
                self._junctions[key].tell(chunk)
                work.pop()
                continue
            inputs = [chunk if source == key else self._junctions[source].empty for source in stage.node.sources]
            step.units = chunk.orders[:1] if chunk.whole_units else NO_POSITIONS
            out = self._run_stage(stage, inputs, step)
            deliveries: list[_Delivery] = []
            if (failures := step.taken_failures()) is not None:
                deliveries = self._give_up(failures, stage.node, inputs, work)
            if stage.node.target is not None:
                deliveries.extend((stage.node.target, part) for part in split_chunks(stage.deliver(out)))
            if depth == MAX_CASCADE_DEPTH and deliveries:
                raise _endless_loop(key)
            work.extend((to, part, iter(self._readers(to)), depth + 1) for to, part in reversed(deliveries))

    def _give_up(self, failures: Failures, node: AppNode, inputs: Sequence[EventBatch], work: _Work) -> list[_Delivery]:
        """Withhold the chunk that failed in `node` from later readers; return the events for fault streams.

        If the chunk entered a partition, everything else that entered with it is withheld, too.
        """
        key = work[-1][0]
        outside = self._outside.get(key)
        above = next((place for place in reversed(range(len(work))) if work[place][0] == outside), None)
        arrived: dict[str, EventBatch] = {}
        if outside is not None and above is not None:
            arrived[outside] = work[above][1]
        faults = self._failures.take_out(failures, node, inputs, inputs, arrived)
        if key in arrived:
            del work[len(work) - 1 if above is None else above :]
        return faults

    def _readers(self, key: str) -> list[ScheduledNode]:
        return [self._stages[node] for node in self._readers_of.get(key, ())]


def _endless_loop(stream: str) -> SiddhiRuntimeError:
    message = f"an event of the stream '{stream}' causes an endless sequence of others: {MAX_CASCADE_DEPTH} in a row"
    hint = "a query that feeds a stream it depends on needs a condition that ends the cycle"
    return SiddhiRuntimeError(Problem("endless-loop", message, hint))
