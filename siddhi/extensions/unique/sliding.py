"""`unique:ever`, `unique:first`, `unique:length` and `unique:time`.

    ever(k)        in    a1    b1    a2         b2
                   out   +a1   +b1   -a1 +a2    -b1 +b2
    length(k, 1)   out   +a1   -a1 +b1   -b1 +a2   -a2 +b2

An event that is replaced by one of its key expires before that one comes.
"""

from __future__ import annotations

from siddhi.engine.state import State
from siddhi.engine.windows.row_window import Arrival, Emission
from siddhi.engine.windows.window import WINDOWS, WindowContext
from siddhi.extensions.unique.keys import Key, KeyedWindow


class _Sliding(KeyedWindow):
    """Events lie in `by_key` in the order in which they came."""

    def replace(self, key: Key, out: Emission) -> bool:
        """The event of `key` has expired; False when there was none."""
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


@WINDOWS.register("ever", "unique")
class UniqueEverWindow(_Sliding):
    """The last event of every key."""

    def __init__(self, context: WindowContext) -> None:
        super().__init__(context, parts=None)

    def arrive(self, event: Arrival, out: Emission) -> None:
        key = self.key(event)
        self.replace(key, out)
        self.by_key[key] = event.slot
        out.current(event.slot, event.timestamp)


@WINDOWS.register("first", "unique")
class UniqueFirstWindow(_Sliding):
    """The first event of every key; later ones do not pass, and nothing expires."""

    def __init__(self, context: WindowContext) -> None:
        super().__init__(context, parts=None)

    def arrive(self, event: Arrival, out: Emission) -> None:
        key = self.key(event)
        if key in self.by_key:
            self.release(event.slot)
            return
        self.by_key[key] = event.slot
        out.current(event.slot, event.timestamp)


@WINDOWS.register("length", "unique")
class UniqueLengthWindow(_Sliding):
    """The last n events of different keys; a new key drives the oldest event out of a full window."""

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


@WINDOWS.register("time", "unique")
class UniqueTimeWindow(_Sliding):
    """The last event of every key, until its timestamp lies T behind the clock. An event that came late sets no timer
    of its own."""

    needs_key = True

    def __init__(self, context: WindowContext) -> None:
        super().__init__(context)
        self.duration = int(str(context.constants()[1]))
        self.newest: int | None = None

    def arrive(self, event: Arrival, out: Emission) -> None:
        key = self.key(event)
        self.replace(key, out)
        self._let_go(out)
        self.by_key[key] = event.slot
        out.current(event.slot, event.timestamp)
        if self.newest is None or event.timestamp > self.newest:
            self.newest = event.timestamp
            self.schedule(event.timestamp + self.duration)

    def fire(self, due: int, out: Emission) -> None:
        self._let_go(out)

    def _let_go(self, out: Emission) -> None:
        while self.by_key:
            key, slot = next(iter(self.by_key.items()))
            if int(self.slots.timestamps[slot]) + self.duration > out.clock:
                return
            self.replace(key, out)

    def own_state(self) -> State:
        return [self.saved_keys(), self.newest]

    def restore_own(self, state: State) -> None:
        keys, self.newest = state
        self.restore_keys(keys)
