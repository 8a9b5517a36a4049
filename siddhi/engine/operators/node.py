"""The nodes in the graph of a running app: queries, named windows, triggers."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from functools import cached_property

from siddhi.engine.columnar.batch import EventBatch
from siddhi.engine.columnar.state_size import StateSize, total
from siddhi.engine.columnar.state_tree import State
from siddhi.engine.jit.arrays import Int64Array
from siddhi.engine.operators.base.operator import Stateful, Step
from siddhi.engine.operators.selection.plain_query import PlainQuery


class AppNode:
    """A node, which processes the rows of its input streams and returns what it sends.

    `sources` are the streams read; `arrival` gives the rank of each among rows of one cause, `timer_arrival` among
    those of timers of one time, if different. `target` is the stream that is fed, if any. With `inserts` events are
    inserted there, which makes expired ones current. With `hands_in` the node passes the events of its only source into
    a partition, and failures there count for the source. With `splits` one incoming chunk may become several, with
    `splits_chunks` only one of several events may; with `by_key` the node is in a partition. `reads` and `writes` name
    the tables and named windows that the node reads or changes; several nodes may change and read those that it
    `shares` in one step. It follows the changes of the named windows that it `tracks`. It sends nothing for events of
    `silent` sources. With `computes` the output may have numbers that are not in the input, and so overflow or divide
    by zero. A `repeatable` node keeps no state, so it may process the events of a step several times; `plain` is its
    description if it is a plain query. With `may_fail` events may fail in the node.
    """

    name: str
    sources: tuple[str, ...] = ()
    arrival: tuple[int, ...] = ()
    timer_arrival: tuple[int, ...] | None = None
    target: str | None = None
    inserts = True
    hands_in = False
    splits = False
    splits_chunks = False
    by_key = False
    computes = True
    may_fail = True
    repeatable = False
    plain: PlainQuery | None = None
    reads: frozenset[str] = frozenset()
    writes: frozenset[str] = frozenset()
    tracks: frozenset[str] = frozenset()
    silent: frozenset[str] = frozenset()
    parts: tuple[Stateful, ...] = ()

    @property
    def shares(self) -> frozenset[str]:
        """Those of `reads` and `writes` that several nodes may change and read in the same step."""
        return frozenset()

    @cached_property
    def timed(self) -> bool:
        """True when the node may set timers."""
        return any(part.timed for part in self.parts)

    @cached_property
    def wakeful(self) -> bool:
        """True when the node may have work in a step without input."""
        return self.timed

    def next_deadline_ms(self) -> int | None:
        """Return the time at which the node's earliest timer is due, or None."""
        deadlines = [due for part in self.parts if (due := part.next_deadline_ms()) is not None]
        return min(deadlines) if deadlines else None

    def wakes(self, step: Step) -> bool:
        """Return whether the node has work in `step` although no rows arrived."""
        due = self.next_deadline_ms() if self.timed else None
        return due is not None and due <= step.final_clock

    @abstractmethod
    def process(self, inputs: Sequence[EventBatch], step: Step) -> EventBatch:
        """Return the output of the node for the rows of its inputs and the timers of the step.

        There is one batch per item of `sources`.
        """

    def write(self, batch: EventBatch, step: Step) -> int:
        """Write the node's output to its table; return how many events the table refused.

        Events for which the write fails are recorded in `step`.
        """
        return 0

    def start(self, clock_ms: int) -> None:
        """Start the node with the app's clock at `clock_ms`."""
        for part in self.parts:
            part.start(clock_ms)

    def close_partitions(self, partitions: Int64Array) -> None:
        """Drop the state of these partition instances; their ids may be reused."""
        for part in self.parts:
            part.close_partitions(partitions)

    def state_size(self) -> StateSize:
        """Return the current size of the state of the node's parts."""
        return total(part.state_size() for part in self.parts)

    def snapshot(self) -> State:
        return [part.snapshot() for part in self.parts]

    def joined(self, states: Sequence[State], ids: Sequence[Int64Array]) -> State:
        """Return one state of all `states`, as for operators."""
        return [part.joined([state[place] for state in states], ids) for place, part in enumerate(self.parts)]

    def restore(self, state: State) -> None:
        for part, saved in zip(self.parts, state, strict=True):
            part.restore(saved)
