"""Joins of whole batches give the same results as a join that processes one event at a time."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from random_examples import examples

from siddhi.analysis.analyser import analyse
from siddhi.engine.app_runtime import AppRuntime
from siddhi.language.parser import parse
from siddhi.testing import record_batch

DEFINITIONS = """@app:playback
define stream S (k string, v int);
define stream T (k string, v int);
"""
CURRENT, EXPIRED = 0, 1

Values = tuple[str | None, int | None]
Row = tuple[int, int, Values | None, Values | None]
"""Timestamp, kind, the left and the right event."""

CONDITIONS: dict[str, Callable[[Values, Values], bool]] = {
    "s.k == t.k": lambda s, t: s[0] is not None and s[0] == t[0],
    "t.v == s.v": lambda s, t: s[1] is not None and s[1] == t[1],
    "s.k == t.k and s.v == t.v": lambda s, t: None not in s and s == t,
    "s.k == t.k and s.v > t.v": lambda s, t: s[0] is not None and s[0] == t[0] and _greater(s[1], t[1]),
    "s.v > t.v": lambda s, t: _greater(s[1], t[1]),
    "": lambda *_: True,
}
KINDS = {
    "join": (False, False),
    "left outer join": (True, False),
    "right outer join": (False, True),
    "full outer join": (True, True),
}


def _greater(left: int | None, right: int | None) -> bool:
    return left is not None and right is not None and left > right


@dataclass
class SlowSide:
    """A window as a list: `length` keeps so many events, `time` keeps them so long, without both it keeps nothing."""

    length: int | None
    time: int | None
    triggers: bool
    keeps: bool
    held: list[tuple[int, Values]] = field(default_factory=list)

    @property
    def text(self) -> str:
        if self.length is not None:
            return f"#window.length({self.length})"
        return "" if self.time is None else f"#window.time({self.time})"

    def due(self) -> int | None:
        return self.held[0][0] + self.time if self.time is not None and self.held else None

    def expire(self, now: int) -> list[Values]:
        gone = []
        while (due := self.due()) is not None and due <= now:
            gone.append(self.held.pop(0)[1])
        return gone

    def arrive(self, now: int, values: Values) -> list[tuple[int, Values]]:
        """Return the output of the window when the event arrives."""
        if self.length is None and self.time is None:
            return [(CURRENT, values), (EXPIRED, values)]
        out = []
        if self.length is not None and len(self.held) == self.length:
            out.append((EXPIRED, self.held.pop(0)[1]))
        self.held.append((now, values))
        return [*out, (CURRENT, values)]


@dataclass
class SlowJoin:
    """Processes one event after the other, comparing each with all rows of the other side."""

    sides: tuple[SlowSide, SlowSide]
    condition: Callable[[Values, Values], bool]
    out: list[Row] = field(default_factory=list)

    def probe(self, slot: int, now: int, kind: int, values: Values) -> None:
        side, other = self.sides[slot], self.sides[1 - slot]
        if not side.triggers:
            return
        pairs = [(values, held) if slot == 0 else (held, values) for _, held in other.held]
        matches: list[tuple[Values | None, Values | None]] = [pair for pair in pairs if self.condition(*pair)]
        if not matches and side.keeps:
            matches = [(values, None) if slot == 0 else (None, values)]
        self.out.extend((now, kind, *match) for match in matches)

    def advance(self, now: int) -> None:
        while True:
            due = min((due for side in self.sides if (due := side.due()) is not None), default=now + 1)
            if due > now:
                return
            for slot, side in enumerate(self.sides):
                for values in side.expire(due):
                    self.probe(slot, due, EXPIRED, values)

    def send(self, slot: int, now: int, values: Values) -> None:
        self.advance(now)
        for kind, row in self.sides[slot].arrive(now, values):
            self.probe(slot, now, kind, row)


windows = st.one_of(
    st.tuples(st.integers(1, 5), st.none()), st.tuples(st.none(), st.integers(5, 60)), st.tuples(st.none(), st.none())
)
values = st.tuples(st.sampled_from(["a", "b", "c", None]), st.one_of(st.none(), st.integers(0, 4)))
event_lists = st.lists(st.tuples(st.integers(0, 1), st.integers(0, 15), values), min_size=1, max_size=40)


@pytest.mark.thorough
@settings(max_examples=examples(120), deadline=None)
@given(
    kind=st.sampled_from(list(KINDS)),
    left=windows,
    right=windows,
    condition=st.sampled_from(list(CONDITIONS)),
    only_left=st.booleans(),
    output=st.sampled_from(["", "current events ", "all events "]),
    drawn=event_lists,
    data=st.data(),
)
def test_a_join_in_batches_agrees_with_one_that_takes_event_by_event(
    kind: str,
    left: tuple[int | None, int | None],
    right: tuple[int | None, int | None],
    condition: str,
    only_left: bool,
    output: str,
    drawn: list[tuple[int, int, Values]],
    data: st.DataObject,
) -> None:
    keeps = KINDS[kind]
    slow = SlowJoin(
        (SlowSide(*left, triggers=True, keeps=keeps[0]), SlowSide(*right, triggers=not only_left, keeps=keeps[1])),
        CONDITIONS[condition],
    )
    mark = " unidirectional" if only_left else ""
    runtime = AppRuntime(
        analyse(
            parse(
                DEFINITIONS
                + f"@info(name='q') from S{slow.sides[0].text} as s{mark} {kind} T{slow.sides[1].text} as t"
                + (f" on {condition}" if condition else "")
                + f" select s.k as a, s.v as b, t.k as c, t.v as d insert {output}into O;"
            )
        )
    )
    found: list[Row] = []
    runtime.add_query_callback("q", lambda batch: found.extend(map(_row, batch.to_pylist())))
    runtime.start(0)
    clock, events = 1000, []
    for slot, gap, row in drawn:
        clock += gap
        events.append((slot, clock, row))
        slow.send(slot, clock, row)
    for part in _split(events, data):
        _send(runtime, part)
    slow.advance(5000)
    runtime.advance_time(5000)

    expected = [row for row in slow.out if "all" in output or row[1] == CURRENT]
    assert found == [(time, kind, _shown(s), _shown(t)) for time, kind, s, t in expected]


def _shown(row: Values | None) -> Values:
    return (None, None) if row is None else row


def _row(row: dict[str, Any]) -> Row:
    return row["_timestamp"], row["_kind"], (row["a"], row["b"]), (row["c"], row["d"])


def _split(events: Sequence[tuple[int, int, Values]], data: st.DataObject) -> list[Sequence[tuple[int, int, Values]]]:
    cuts = sorted(data.draw(st.sets(st.integers(1, len(events)), max_size=6)))
    return [events[start:stop] for start, stop in zip([0, *cuts], [*cuts, len(events)], strict=True) if start < stop]


def _send(runtime: AppRuntime, events: Sequence[tuple[int, int, Values]]) -> None:
    batches = []
    for slot, stream in enumerate("ST"):
        rows = [{"timestamp": time, "data": list(row)} for of, time, row in events if of == slot]
        batches.append((stream, record_batch(runtime.app.streams[stream].schema, rows)))
    runtime.send_merged(batches, np.array([slot for slot, _, _ in events], dtype=np.int64))
