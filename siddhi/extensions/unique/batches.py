"""Windows that emit batches of events with distinct keys, event by event.

Events of a batch are in the order of their keys' arrival, with the clock at that time as their timestamp.
"""

from __future__ import annotations

from siddhi.engine.columnar.state_tree import State
from siddhi.engine.operators.windows.base.row_window import Arrival, Emission
from siddhi.engine.operators.windows.base.window import WindowContext
from siddhi.extensions.unique.keys import WindowByKey


class Batches(WindowByKey):
    """The batch in progress is in `by_key`, the slots of the last one in `last`."""

    def __init__(self, context: WindowContext) -> None:
        super().__init__(context)
        self.last: list[int] = []

    def take(self, event: Arrival) -> None:
        """Add the event to the batch in progress, in place of the one with its key."""
        key = self.key(event)
        replaced = self.by_key.get(key)
        if replaced is not None:
            self.release(replaced)
        self.by_key[key] = event.slot

    def flush(self, out: Emission, *, keep_timestamps: bool = False, expired_at: int | None = None) -> None:
        """Expire the last batch and make the batch in progress the last one."""
        out.new_chunk()
        for slot in self.last:
            if self.expired:
                out.expired(slot, expired_at)
            self.release(slot)
        self.last = list(self.by_key.values())
        self.by_key = {}
        if self.last:
            out.reset(self.last[0])
            for slot in self.last:
                out.current(slot, int(self.slots.timestamps[slot]) if keep_timestamps else out.clock)

    def held(self) -> list[int]:
        return self.last

    def own_state(self) -> State:
        return [self.saved_keys(), self.last, self.more_state()]

    def restore_own(self, state: State) -> None:
        keys, self.last, more = state
        self.restore_keys(keys)
        self.restore_more(more)

    def more_state(self) -> State:
        """Return the window's additional state."""
        return None

    def restore_more(self, state: State) -> None:
        """Restore the state that `more_state` returned."""
