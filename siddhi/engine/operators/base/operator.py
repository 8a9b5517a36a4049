"""The interface of all operators.

A *step* is the unit of processing: root chunks (events from outside, one row each unless sent as a chunk) in a common
order, over one or several streams, or just an advance of the clock. Operators see the rows of a step in order and fire
the timers that are due in between:

    root chunk          0            1                 2
    clock             1000         1400              2600
    order        0 │    1    │ 2 │    3    │    4    │    5
                 timers      timers       timers
                 ≤ 1000      ≤ 1400       ≤ 2600

Any cut of the same root chunks into steps gives the same output. Time is an argument: `Step.clocks`.
"""

from __future__ import annotations

import enum
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np

from siddhi.engine.columnar.batch import EventBatch
from siddhi.engine.columnar.state_size import StateSize, held_bytes
from siddhi.engine.columnar.state_tree import CodeChange, NotByKeyError, State, codes_in, map_codes, same_state
from siddhi.engine.columnar.strings import StringPool
from siddhi.engine.jit.arrays import NO_POSITIONS, BoolArray, Int64Array
from siddhi.engine.limits import MAX_PARTIAL_MATCHES
from siddhi.engine.operators.base.choices import Choices, Execution

NEVER = np.iinfo(np.int64).max
"""A deadline that is never reached."""


@dataclass(slots=True)
class Failures:
    """The causes (orders) of the rows that failed in an operator, and their errors."""

    orders: list[Int64Array] = field(default_factory=list)
    messages: list[str] = field(default_factory=list)

    def add(self, orders: Int64Array, message: str) -> None:
        """Record rows with `orders` as failed: their chunks are dropped here and for later readers of the stream."""
        if len(orders):
            self.orders.append(orders)
            self.messages.append(message)

    def reasons(self) -> tuple[Int64Array, list[str]]:
        """Return the orders of all failures, ascending, each with the error of its first row."""
        orders, first = np.unique(np.concatenate(self.orders), return_index=True)
        sources = np.repeat(np.arange(len(self.orders)), [len(part) for part in self.orders])
        return orders, [self.messages[source] for source in sources[first].tolist()]


class Step:
    """The context of the current step.

    `clocks` int64, at least one, non-decreasing: the app's clock at each root chunk (an advance of the clock counts as
    one root chunk without rows). No timer shows a clock below `floor`: the clock before the step or, if the root is a
    chunk of several events, the clock to which these advance it in one jump. Output of timers has no time before
    `shown`, the latest clock before the step, which is later than `floor` when events of a backlog are processed at
    their own time. `opened` are the ids of partition instances that were created in this step, with the order and clock
    of the row that opened each. `arrivals` are the orders of rows that arrived, ascending, if no timer of the node has
    the same order: the even ones and possibly odd ones. `units` are orders of several chunks of which none is emitted
    if one fails.
    """

    __slots__ = (
        "_failures",
        "_places",
        "_whole",
        "arrivals",
        "clocks",
        "floor",
        "opened",
        "opened_clocks",
        "opened_orders",
        "shown",
        "units",
    )

    def __init__(self, clocks: Int64Array, floor: int = 0, shown: int = 0) -> None:
        """Create a step.

        Args:
            clocks: The app's clock at each root chunk, in ms, non-decreasing.
            floor: The earliest clock that a timer may show, in ms.
            shown: The earliest time of the output of timers, in ms.
        """
        self.clocks = clocks
        self.floor = floor
        self.shown = shown
        self.opened = self.opened_orders = self.opened_clocks = self.arrivals = self.units = NO_POSITIONS
        self._failures: Failures | None = None
        self._places: tuple[Int64Array, Int64Array] | None = None
        self._whole: Step | None = None

    @property
    def failures(self) -> Failures:
        """Where failed rows are recorded, created on first use because most steps have none."""
        if self._failures is None:
            self._failures = Failures()
        return self._failures

    @property
    def has_failures(self) -> bool:
        """True when rows may have been recorded as failed since the last check."""
        return self._failures is not None

    @property
    def failure_count(self) -> int:
        """The number of rows recorded as failed since they were last taken."""
        return 0 if self._failures is None else len(self._failures.orders)

    def taken_failures(self) -> Failures | None:
        """Return the failures since the last call, None when there are none."""
        failures, self._failures = self._failures, None
        return failures if failures is not None and failures.orders else None

    def arrived(self, orders: Int64Array) -> BoolArray:
        """Return which of `orders` belong only to rows that arrived."""
        arrived: BoolArray = orders & 1 == 1
        return arrived | np.isin(orders, self.arrivals) if len(self.arrivals) else arrived

    def without_failed(self, out: EventBatch) -> EventBatch:
        """Return `out` without the units in which a row failed."""
        failures = self._failures
        if failures is None or not failures.orders or not out.size or not len(self.units):
            return out
        kept = ~np.isin(out.orders, np.intersect1d(np.concatenate(failures.orders), self.units))
        return out if kept.all() else out.take(np.flatnonzero(kept))

    # ---- rows that fail separately

    @property
    def whole(self) -> Step:
        """The step of all nodes, if this is the view of one node."""
        return self if self._whole is None else self._whole

    def apart(self, clocks: Int64Array, arrivals: Int64Array, bases: Int64Array, events: Int64Array) -> Step:
        """Return the same step with a root for each of its units.

        Root i of this step is replaced by the roots from `bases[i]` on, of which those from `events[i]` on are its
        events; see `siddhi.engine.scheduling.failure_units`.
        """
        step = Step(clocks, self.floor, self.shown)
        step.arrivals, step._places, step._whole = arrivals, (bases, events), self.whole
        return step

    def distinct_orders(self, orders: Int64Array) -> Int64Array:
        """Return the first order in this step of each of `orders` of the whole step."""
        if self._places is None:
            return orders
        bases, events = self._places
        roots = orders // 2
        return np.where(orders & 1, 2 * events[roots] + 1, 2 * bases[roots])

    def of_whole(self, orders: Int64Array) -> Int64Array:
        """Return the orders in the whole step of `orders` of this step."""
        if self._places is None:
            return orders
        bases, events = self._places
        places = orders // 2
        roots = np.searchsorted(bases, places, side="right") - 1
        return 2 * roots + ((orders & 1) | (places > events[roots]))

    def with_opened(self, instances: Int64Array, orders: Int64Array, clocks: Int64Array) -> Step:
        """Return the same step in which these instances were opened; both record failures in the same place."""
        step = self._alike(self.clocks)
        step.opened, step.opened_orders, step.opened_clocks = instances, orders, clocks
        return step

    def until(self, order: int, clock: int) -> Step:
        """Return the part of the step up to the timers of `clock`, which have the even `order`.

        Both steps record failures in the same place.
        """
        return self._alike(np.append(self.clocks[: order // 2], clock))

    def _alike(self, clocks: Int64Array) -> Step:
        step = Step(clocks, self.floor, self.shown)
        step.arrivals, step.units = self.arrivals, self.units
        step._places, step._whole = self._places, self.whole
        step._failures = self.failures
        return step

    @property
    def final_clock(self) -> int:
        """The app's clock at the end of the step, in ms."""
        return self.clocks.item(-1)

    @property
    def final_order(self) -> int:
        """The order of the last root chunk; nothing in this step has a higher one."""
        return 2 * len(self.clocks) - 1

    def timer_order(self, due: int, set_at_order: int = -1) -> int:
        """Return the order of a timer due at `due` that was set by a row of `set_at_order` (-1: before this step).

        A timer set for a past time fires before the next root chunk. The result is above `final_order` when the timer
        does not fire in this step.

        Compare (timer_order, timer_clock) with (order, clock) of a row: the lesser comes first. So a timer precedes the
        event at its own time and follows rows that other timers of the same time sent.
        """
        order = 2 * int(np.searchsorted(self.clocks, due, side="left"))
        return max(order, set_at_order + (set_at_order & 1))

    def timer_clock(self, due: int, order: int) -> int:
        """Return the clock when a timer due at `due` fires at `order`.

        It is the due time, or the clock at `order` if the due time is past.
        """
        return max(due, self.floor if order < 2 else int(self.clocks[order // 2 - 1]))


class MergedRows:
    """The rows of several inputs in one common order: by (order, clock), ties by the input's rank.

    `timer_ranks` are the ranks among rows that timers caused, None if they are the same. Row p of the whole is row
    `rows[p]` of `batches[sources[p]]`; `orders` and `clocks` are theirs, non-decreasing. An input without rows in this
    step has an empty batch with all its columns. The order is computed on first access.
    """

    __slots__ = ("_lines", "batches", "ranks", "timer_ranks")

    def __init__(
        self, batches: Sequence[EventBatch], ranks: Sequence[int], timer_ranks: Sequence[int] | None = None
    ) -> None:
        """Create the merge; it is computed on first access.

        Args:
            batches: The rows of each input.
            ranks: The rank of each input, which decides between rows of one order and clock.
            timer_ranks: The ranks among rows that timers caused, if they differ.
        """
        self.batches = tuple(batches)
        self.ranks = ranks
        self.timer_ranks = timer_ranks
        self._lines: tuple[Int64Array, Int64Array, Int64Array, Int64Array] | None = None

    @property
    def size(self) -> int:
        """The number of rows of all inputs."""
        return sum(batch.size for batch in self.batches)

    @property
    def sources(self) -> Int64Array:
        """The input of each row."""
        return self._merged()[0]

    @property
    def rows(self) -> Int64Array:
        """The position of each row within its input."""
        return self._merged()[1]

    @property
    def orders(self) -> Int64Array:
        """The order of each row, non-decreasing."""
        return self._merged()[2]

    @property
    def clocks(self) -> Int64Array:
        """The clock of each row in ms, non-decreasing within an order."""
        return self._merged()[3]

    def _merged(self) -> tuple[Int64Array, Int64Array, Int64Array, Int64Array]:
        if self._lines is None:
            self._lines = _in_order(self.batches, self.ranks, self.timer_ranks)
        return self._lines


def _in_order(
    batches: Sequence[EventBatch], ranks: Sequence[int], timer_ranks: Sequence[int] | None
) -> tuple[Int64Array, Int64Array, Int64Array, Int64Array]:
    if len(batches) == 1:
        only = batches[0]
        return np.zeros(only.size, dtype=np.int64), np.arange(only.size), only.orders, only.clocks
    orders = np.concatenate([batch.orders for batch in batches])
    clocks = np.concatenate([batch.clocks for batch in batches])
    sources = np.repeat(np.arange(len(batches)), [batch.size for batch in batches])
    rows = np.concatenate([np.arange(batch.size) for batch in batches])
    places = np.asarray(ranks)[sources]
    if timer_ranks is not None:
        places = np.where(orders & 1, places, np.asarray(timer_ranks)[sources])
    place = np.lexsort((places, clocks, orders))
    return sources[place], rows[place], orders[place], clocks[place]


class RemovalOrder(enum.Enum):
    """The order in which the rows that aggregates have added leave again, within each group."""

    NEVER = "never"
    IN_ORDER = "in order"
    """The oldest first."""
    IN_ANY_ORDER = "in any order"


@dataclass(frozen=True, slots=True)
class OperatorContext:
    """What an operator receives when it is built.

    `instance_ranks` gives each partition instance its place among those whose timers are due at one time. With
    `playback`, event time drives the clock. With `partitioned` batches carry `partitions` and state is kept per
    partition instance. `common` has the objects that the operators of all instances of a query share, under the `id` of
    their source; the first operator adds them. A pattern stores no more than `max_partial_matches`. Rows leave
    aggregates in the order `removal_order`. `failing` is notified of expressions whose rows may fail. `choices` records
    the operators that were ruled out.
    """

    pool: StringPool
    playback: bool = False
    partitioned: bool = False
    instance_ranks: Callable[[], Int64Array] | None = None
    common: dict[int, Stateful] | None = None
    max_partial_matches: int = MAX_PARTIAL_MATCHES
    removal_order: RemovalOrder = RemovalOrder.IN_ANY_ORDER
    failing: set[str] | None = None
    choices: Choices = field(default_factory=Choices)


class Stateful(ABC):
    """An object with state that outlives a step."""

    execution = Execution.BATCHES
    """How it processes the events of a batch."""

    def start(self, clock_ms: int) -> None:  # noqa: B027 - most operators have nothing to do
        """Start the operator with the app's clock at `clock_ms`.

        This is called once, before the first step, but not after a restore.
        """

    def next_deadline_ms(self) -> int | None:
        """Return the time at which the earliest timer is due, or None."""
        return None

    @property
    def timed(self) -> bool:
        """True when the object may set timers."""
        return type(self).next_deadline_ms is not Stateful.next_deadline_ms

    @abstractmethod
    def snapshot(self) -> State:
        """Return the whole state, as a tree that shares no array with the operator."""

    @abstractmethod
    def restore(self, state: State) -> None:
        """Replace the state by one from `snapshot`."""

    def joined(self, states: Sequence[State], ids: Sequence[Int64Array]) -> State:
        """Return one state with the contents of all `states` of equal operators; this one is empty.

        Partition instance i of `states[k]` becomes instance `ids[k][i]`, or is dropped if that is -1; the new ids are
        dense and ascend with k and i. Raise `NotByKeyError` if a part has no key: an operator without instances, like
        this one, must be empty.
        """
        own = self.snapshot()
        if not all(same_state(state, own) for state in states):
            raise NotByKeyError
        return own

    def state_size(self) -> StateSize:
        """Return the current size of the state. It is called often, so it uses counters and does not visit rows."""
        return StateSize(bytes=held_bytes(self))

    def live_codes(self) -> Iterator[Int64Array]:
        """Yield all string codes in use, with or without repetitions."""
        yield from codes_in(self.snapshot())

    def recode(self, change: CodeChange) -> None:
        """Replace every string code in the state by the result of `change`.

        The default works for operators that mark their codes as `Codes` in snapshots.
        """
        state = self.snapshot()
        if next(codes_in(state), None) is not None:
            self.restore(map_codes(state, change))

    def close_partitions(self, partitions: Int64Array) -> None:  # noqa: B027 - most operators have no partitions
        """Drop the state of these partition instances; their ids may be reused."""


class Operator(Stateful):
    """An element of a query's chain: one input, one output."""

    @abstractmethod
    def process(self, batch: EventBatch, step: Step) -> EventBatch:
        """Return the output for `batch`, which may be empty if only timers are due.

        Output rows carry the order and clock of the row or timer that caused them, so both are non-decreasing.
        """


class MergingOperator(Stateful):
    """The head of a query with several inputs: a join or a state machine.

    It keeps state for each partition id itself.
    """

    sources: tuple[str, ...]
    """The stream of each input, as `siddhi.engine.operators.base.scope.source_key` writes it.

    A stream that feeds several slots is listed once.
    """

    @abstractmethod
    def process(self, inputs: MergedRows, step: Step) -> EventBatch:
        """Return the output for the merged rows, which may be empty when only timers are due.

        Each result is selected as its own chunk; `deliveries` groups the results that leave the query together. The
        output's columns are named by `siddhi.engine.operators.base.scope.slot_column`; orders and clocks are those of
        the row or timer that completed each result.
        """
