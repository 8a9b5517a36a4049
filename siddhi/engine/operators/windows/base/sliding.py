"""Windows from which events leave in the order of their arrival."""

from __future__ import annotations

from abc import abstractmethod

from siddhi.engine.columnar.batch import EventBatch
from siddhi.engine.jit.arrays import Int64Array
from siddhi.engine.operators.base.operator import Step
from siddhi.engine.operators.windows.base.emission import emitted
from siddhi.engine.operators.windows.base.window import WindowOperator


class SlidingWindow(WindowOperator):
    """A window that emits every event as current when it comes and as expired when it leaves.

    The oldest leaves first as long as the window keeps the order (`keeps_order`); a reader sees the events in
    between. The rows in its store have sequence numbers, so that joins need no copy of them.
    """

    reports_moves = True

    def keeps_order(self, batch: EventBatch) -> bool:
        """Return whether the stored rows will leave in the order in which they arrived.

        This includes `batch`, of which some or all rows have yet to arrive.
        """
        return True

    @abstractmethod
    def let_out(self, batch: EventBatch, step: Step) -> tuple[Int64Array, int]:
        """Return the emission of what `process` returns, and how many rows it has.

        See `siddhi.engine.operators.windows.base.emission`. Its rows stay in the store until the next call.
        """

    def process(self, batch: EventBatch, step: Step) -> EventBatch:
        emission, count = self.let_out(batch, step)
        return emitted(emission, count, self.store)
