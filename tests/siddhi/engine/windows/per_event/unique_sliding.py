"""`unique:ever`, `unique:first`, `unique:length` and `unique:time`.

    ever(k)        in    a1    b1    a2         b2
                   out   +a1   +b1   -a1 +a2    -b1 +b2
    length(k, 1)   out   +a1   -a1 +b1   -b1 +a2   -a2 +b2

An event that is replaced by one of its key expires before that one comes.
"""

from __future__ import annotations

from heapq import heappop, heappush

from siddhi.engine.columnar.state_tree import State
from siddhi.engine.operators.windows.base.row_window import Arrival, Emission
from siddhi.engine.operators.windows.base.window import WindowContext
from siddhi.extensions.unique.keys import Key, WindowByKey


class _Sliding(WindowByKey):
    """Events are in `by_key` in order of arrival."""

    def replace(self, key: Key, out: Emission) -> bool:
        """Expire the event of `key`; return False when there was none."""
        slot = self.by_key.pop(key, None)
        if slot is None:
            return False
        out.expired(slot)
        self.release(slot)
        return True

    def own_state(self) -> State:
        return self.saved_keys()

    def restore_own(self, state: State) -> None:
        self.restore_keys(state)


class UniqueEverWindow(_Sliding):
    """The last event of every key."""

    def __init__(self, context: WindowContext) -> None:
        super().__init__(context, parts=None)

    def arrive(self, event: Arrival, out: Emission) -> None:
        key = self.key(event)
        self.replace(key, out)
        self.by_key[key] = event.slot
        out.current(event.slot, event.timestamp)


class UniqueFirstWindow(_Sliding):
    """The first event of every key; later ones are dropped, and nothing expires."""

    def __init__(self, context: WindowContext) -> None:
        super().__init__(context, parts=None)

    def arrive(self, event: Arrival, out: Emission) -> None:
        key = self.key(event)
        if key in self.by_key:
            self.release(event.slot)
            return
        self.by_key[key] = event.slot
        out.current(event.slot, event.timestamp)


class UniqueLengthWindow(_Sliding):
    """The last n events with distinct keys; a new key expires the oldest event of a full window."""

    needs_key = True

    def __init__(self, context: WindowContext) -> None:
        super().__init__(context)
        self.length = int(str(context.constants()[1]))

    def arrive(self, event: Arrival, out: Emission) -> None:
        key = self.key(event)
        if not self.replace(key, out) and self.by_key and len(self.by_key) >= self.length:
            self.replace(next(iter(self.by_key)), out)
        if self.length > 0:
            self.by_key[key] = event.slot
        else:
            out.expired(event.slot)
            self.release(event.slot)
        out.current(event.slot, event.timestamp)


class UniqueTimeWindow(_Sliding):
    """The last event of every key, until its timestamp is T behind the clock.

    `ends` has the time at which the event in each slot leaves, and its key; it may name events that have left before.
    """

    needs_key = True

    def __init__(self, context: WindowContext) -> None:
        super().__init__(context)
        self.duration = int(str(context.constants()[1]))
        self.ends: list[tuple[int, int, Key, int]] = []
        self.arrivals = 0

    def arrive(self, event: Arrival, out: Emission) -> None:
        key = self.key(event)
        self.replace(key, out)
        self._let_go(out)
        self.by_key[key] = event.slot
        out.current(event.slot, event.timestamp)
        self._note_end(key, event.slot)
        self.schedule(event.timestamp + self.duration)

    def _note_end(self, key: Key, slot: int) -> None:
        heappush(self.ends, (self._end(slot), self.arrivals, key, slot))
        self.arrivals += 1

    def _end(self, slot: int) -> int:
        return int(self.slots.timestamps[slot]) + self.duration

    def fire(self, due: int, out: Emission) -> None:
        self._let_go(out)

    def _let_go(self, out: Emission) -> None:
        while self.ends and self.ends[0][0] <= out.clock:
            end, _, key, slot = heappop(self.ends)
            if self.by_key.get(key) == slot and self._end(slot) == end:
                self.replace(key, out)

    def restore_own(self, state: State) -> None:
        super().restore_own(state)
        self.ends = []
        for key, slot in self.by_key.items():
            self._note_end(key, slot)
