"""A node of an app's graph in its place, with its listeners."""

from __future__ import annotations

from siddhi.engine.columnar.batch import EventBatch
from siddhi.engine.emit.batch_writer import BatchWriter
from siddhi.engine.operators.node import AppNode
from siddhi.engine.streams.graph import GraphPlace
from siddhi.engine.streams.junction import Listener, as_inserted


class ScheduledNode:
    """A node in its place, with the listeners to its output."""

    def __init__(self, node: AppNode) -> None:
        """Create the schedule of a node.

        Args:
            node: The node.
        """
        self.node = node
        self.is_heard = node.writes != frozenset()
        """Whether the node's output also goes to a listener or a table."""
        self.fires_first = False
        """True when the node's own timers fire before what timers of the same time send to it."""
        self.tells_apart = False
        """Whether rows caused by the same root must be distinguished, as only some of them may fail."""
        self.keyed: list[bool] = []
        """For each source of the node, whether events enter a partition on it."""
        self._inside = node.target is not None and "#" in node.target
        self._listeners: list[Listener] = []
        self._outlet: BatchWriter | None = None

    def place(self) -> GraphPlace:
        """Return the place of the stage in the graph."""
        node = self.node
        outputs = () if node.target is None else (node.target,)
        return GraphPlace(
            node.sources,
            outputs,
            node.splits,
            node.timed,
            node.reads,
            node.writes,
            node.shares,
            node.tracks,
            node.silent,
            splits_chunks=node.splits_chunks,
        )

    @property
    def has_listeners(self) -> bool:
        """Whether the node's output goes to listeners of its own."""
        return self._outlet is not None

    def tell(self, batch: EventBatch) -> None:
        """Pass the node's output to its listeners."""
        if self._outlet is not None:
            records = self._outlet.records(batch)
            for listener in self._listeners:
                listener(records)

    def add_listener(self, listener: Listener, outlet: BatchWriter) -> None:
        """Call `listener` with the node's output, in the form of `outlet`."""
        self._listeners.append(listener)
        self._outlet = outlet
        self.is_heard = True

    def deliver(self, out: EventBatch) -> EventBatch:
        """Return the node's output in the form in which it arrives in the stream that it feeds."""
        if not self.node.inserts:
            return out
        inserted = as_inserted(out)
        return inserted if self._inside or inserted.partitions is None else inserted.with_partitions(None)
