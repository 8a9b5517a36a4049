"""`session(gap)`: events with less than a gap of silence between them, for each key.

    gap = 10    clock   0    4               14             30
                in      a    b                              c
                out     +a   +b              -a -b (as one) +c

Events pass at once; a session's events leave together when its time is over, with their own timestamps. With an
allowed latency a session that is over still takes late events for so long before it leaves.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from heapq import heapify, heappop, heappush

from siddhi.engine.columnar.batch import EventBatch
from siddhi.engine.columnar.java_order import hash_map_order
from siddhi.engine.columnar.state_tree import State
from siddhi.engine.operators.expressions.evaluation import Evaluation, ExpressionNode, to_column
from siddhi.engine.operators.expressions.leaves import scalar_or_none
from siddhi.engine.operators.windows.base.row_window import Arrival, Emission, RowWindow
from siddhi.engine.operators.windows.base.window import WindowContext
from siddhi.language.ast import AttributeType


@dataclass(slots=True)
class Session:
    """Events (slot, timestamp) from `start` on; over at `end`, removed at `alive`.

    The last late events were inserted before the one at `place`; -1: there were none.
    """

    events: list[tuple[int, int]] = field(default_factory=list)
    start: int = 0
    end: int = 0
    alive: int = 0
    place: int = -1

    def let_in(self, late: list[tuple[int, int]]) -> None:
        """Insert late events before the first event, later ones one event further back each time, as in Siddhi."""
        self.place = min(self.place + 1, len(self.events) - 1)
        self.events[self.place : self.place] = late
        self.place += len(late)


@dataclass(slots=True)
class Sessions:
    """The current session of a key, and the previous one that still accepts late events.

    `number` increases with the order of arrival of keys.
    """

    number: int
    current: Session = field(default_factory=Session)
    previous: Session = field(default_factory=Session)


class SessionWindow(RowWindow):
    """Events later than the session's end but earlier than its timer are emitted without joining any session, as in
    Siddhi.

    A late event joins the session that begins no more than a gap later, and ends none earlier; two sessions within two
    gaps are merged. Events that leave on an arrival follow its chunk.
    """

    def __init__(self, context: WindowContext) -> None:
        super().__init__(context)
        gap, *rest = context.arguments()
        self.gap = int(str(scalar_or_none(gap)))
        self.key: ExpressionNode | None = None
        self.latency = 0
        for node in rest:
            if node.type is AttributeType.STRING:
                self.key = node
            else:
                self.latency = int(str(scalar_or_none(node)))
        self.sessions: dict[str, Sessions] = {}
        self._number = 0
        # When current sessions are over and former ones gone, by key; what is void stays in until its time.
        self._ends: list[tuple[int, str]] = []
        self._lives: list[tuple[int, str]] = []
        self._keys: list[str] = []
        self._leaving: list[Session] = []

    def prepare(self, batch: EventBatch) -> None:
        self._keys = [""] * batch.size
        if self.key is not None:
            column = to_column(self.key.evaluate(Evaluation(batch)), AttributeType.STRING, self.slots.pool, batch.size)
            self._keys = [str(key) for key in column.to_list()]

    def arrive(self, event: Arrival, out: Emission) -> None:
        key = self._keys[event.row]
        sessions = self.sessions.get(key)
        if sessions is None:
            sessions = self.sessions[key] = Sessions(self._number)
            self._number += 1
        current, time = sessions.current, event.timestamp
        if not current.events:
            self._open(current, event)
        elif time >= current.start:
            if time <= current.end:
                self._extend(current, event)
            elif self.latency:
                self._leaving.append(sessions.previous)
                sessions.previous, sessions.current = current, Session()
                self._set_life(key, current)
                self.schedule(current.alive)
                self._open(sessions.current, event)
            else:
                self.release(event.slot)
        elif not self._take_late(key, event):
            self.release(event.slot)
            return
        out.current(event.slot, time)

    def _open(self, session: Session, event: Arrival) -> None:
        session.start = event.timestamp
        self._extend(session, event)

    def _extend(self, session: Session, event: Arrival) -> None:
        session.events.append((event.slot, event.timestamp))
        session.end = max(session.end, event.timestamp + self.gap)
        session.alive = session.end + self.latency
        heappush(self._ends, (session.end, self._keys[event.row]))
        self.schedule(session.end)

    def _set_life(self, key: str, former: Session) -> None:
        heappush(self._lives, (former.alive, key))

    def _take_late(self, key: str, event: Arrival) -> bool:
        """Insert an event from before the current session at its position; return False when it is too late for any."""
        sessions = self.sessions[key]
        current, previous, time = sessions.current, sessions.previous, event.timestamp
        if time >= current.start - self.gap:
            current.let_in([(event.slot, time)])
            current.start = time
        elif previous.events and time >= previous.start - self.gap:
            previous.events.append((event.slot, time))
            if time < previous.start and time <= previous.end - self.gap:
                previous.start = time
                return True
            previous.end = max(previous.end, time + self.gap)
            previous.alive = previous.end + self.latency
            self._set_life(key, previous)
        else:
            return False
        if previous.events and previous.end >= current.start - self.gap:
            current.let_in(previous.events)
            current.start = previous.start
            sessions.previous = Session()
        return True

    def end_chunk(self, out: Emission) -> None:
        for session in self._leaving:
            self._leave(session, out)
        self._leaving = []

    def fire(self, due: int, out: Emission) -> None:
        among = len(self.sessions)
        over = [key for key in self._taken(self._ends, due) if self._is_over(key, due)]
        for key in self._in_turn(over, among, lambda sessions: sessions.current.end):
            self._end_current(key, out)
        gone = [key for key in self._taken(self._lives, due) if self._is_gone(key, due)]
        for key in self._in_turn(gone, among, lambda sessions: sessions.previous.end):
            self._leave(self.sessions[key].previous, out)
            self.sessions[key].previous = Session()
        for key in {*over, *gone}:
            sessions = self.sessions[key]
            if not sessions.current.events and not sessions.previous.events:
                del self.sessions[key]

    def _taken(self, queue: list[tuple[int, str]], due: int) -> list[str]:
        """Remove the keys in `queue` up to `due`, and return them."""
        keys: set[str] = set()
        while queue and queue[0][0] <= due:
            keys.add(heappop(queue)[1])
        return [key for key in keys if key in self.sessions]

    def _is_over(self, key: str, due: int) -> bool:
        current = self.sessions[key].current
        return bool(current.events) and due >= current.end

    def _is_gone(self, key: str, due: int) -> bool:
        previous = self.sessions[key].previous
        return bool(previous.events) and due >= previous.alive

    def _in_turn(self, keys: Iterable[str], among: int, end: Callable[[Sessions], int]) -> list[str]:
        """Return `keys`, a subset, by the end of their sessions; those of one end in the order of Siddhi's map."""
        by_number = sorted(keys, key=lambda key: self.sessions[key].number)
        return sorted(hash_map_order(by_number, among), key=lambda key: end(self.sessions[key]))

    def _end_current(self, key: str, out: Emission) -> None:
        sessions = self.sessions[key]
        current = sessions.current
        sessions.current = Session()
        if not self.latency:
            self._leave(current, out)
            return
        current.events[:0] = sessions.previous.events
        sessions.previous = current
        self._set_life(key, current)
        self.schedule(current.alive)

    def _leave(self, session: Session, out: Emission) -> None:
        for slot, timestamp in session.events:
            out.expired(slot, timestamp)
            self.release(slot)

    def held(self) -> list[int]:
        return []

    def own_state(self) -> State:
        return [
            [key, *([s.events, s.start, s.end, s.alive, s.place] for s in (both.current, both.previous))]
            for key, both in self.sessions.items()
        ]

    def restore_own(self, state: State) -> None:
        self.sessions = {}
        for key, *saved in state:
            current, previous = (
                Session([(slot, timestamp) for slot, timestamp in events], *rest) for events, *rest in saved
            )
            self.sessions[key] = Sessions(len(self.sessions), current, previous)
        self._number = len(self.sessions)
        self._ends = [(both.current.end, key) for key, both in self.sessions.items() if both.current.events]
        self._lives = [(both.previous.alive, key) for key, both in self.sessions.items() if both.previous.events]
        heapify(self._ends)
        heapify(self._lives)
