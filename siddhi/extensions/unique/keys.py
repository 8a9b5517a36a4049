"""The keys of events."""

from __future__ import annotations

from collections.abc import Sequence

from siddhi.engine.columnar.batch import EventBatch
from siddhi.engine.columnar.strings import StringPool
from siddhi.engine.operators.base.operator import Step
from siddhi.engine.operators.expressions.evaluation import Evaluation, ExpressionNode, to_column
from siddhi.engine.operators.filters import with_value
from siddhi.engine.operators.windows.base.row_window import Arrival, RowWindow
from siddhi.engine.operators.windows.base.window import WindowContext

Key = tuple[object, ...]


def keys_of(batch: EventBatch, nodes: Sequence[ExpressionNode], pool: StringPool) -> list[Key]:
    """Return the key of each row: the values of `nodes`, null as None."""
    columns = [to_column(node.evaluate(Evaluation(batch)), node.type, pool, batch.size).to_list() for node in nodes]
    return list(zip(*columns, strict=True))


class WindowByKey(RowWindow):
    """A window over the keys of events: `key` of an arrival, made of the first `parts` arguments (None: all).

    `by_key` has the slot of the only event of each key. An event with a null as its key fails if it `needs_key`.
    """

    needs_key = False

    def __init__(self, context: WindowContext, parts: int | None = 1) -> None:
        super().__init__(context)
        self._nodes = context.arguments()[:parts]
        self._keys: list[Key] = []
        self.by_key: dict[Key, int] = {}

    def accepted(self, batch: EventBatch, step: Step) -> EventBatch:
        return with_value(batch, self._nodes[0], step, "the key") if self.needs_key else batch

    def prepare(self, batch: EventBatch) -> None:
        self._keys = keys_of(batch, self._nodes, self.slots.pool)

    def key(self, event: Arrival) -> Key:
        return self._keys[event.row]

    def held(self) -> list[int]:
        return list(self.by_key.values())

    def saved_keys(self) -> list[list[object]]:
        """Return `by_key` as a state, for `restored_keys`."""
        return [[list(key), slot] for key, slot in self.by_key.items()]

    def restore_keys(self, state: list[list[list[object]]]) -> None:
        self.by_key = {tuple(key): slot for key, slot in state}  # type: ignore[misc] # each entry is [key parts, slot]
