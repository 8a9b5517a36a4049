"""Random apps with timed operators of every kind, random events for them, and their results."""

from __future__ import annotations

import itertools
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any

import numpy as np
import pyarrow as pa

from siddhi.analysis.analyser import analyse
from siddhi.engine.app_runtime import AppRuntime
from siddhi.language.parser import parse
from siddhi.testing import record_batch, restored

STREAMS = "define stream S (k string, v int, t long); define stream B (k string, v int, t long); "
SLIDING = ["time(30)", "externalTime(t, 30)", "timeLength(30, 3)", "length(2)", "unique:time(k, 30)"]
WINDOWS = [
    *SLIDING,
    "delay(30)",
    "timeBatch(30)",
    "timeBatch(30, 7)",
    "timeBatch(30, true)",
    "externalTimeBatch(t, 30)",
    "externalTimeBatch(t, 30, 0, 20)",
    "session(20 milliseconds)",
    "session(20 milliseconds, k)",
    "session(20 milliseconds, k, 15 milliseconds)",
    "cron('* * * * * ?')",
    "unique:timeBatch(k, 30)",
    "unique:timeLengthBatch(k, 30, 3)",
    "unique:externalTimeBatch(k, t, 30)",
    "unique:externalTimeBatch(k, t, 30, 0, 20)",
    "lengthBatch(3)",
]
SELECTIONS = ["k, v, sum(v) as s, count() as c", "k, v, max(v) as s, count() as c group by k", "k, v"]
RATES = ["", "", "output every 25 milliseconds", "output last every 2 events", "output snapshot every 25 milliseconds"]
PATTERNS = [
    "every a=S -> b=B[k == a.k] within 40 milliseconds select a.v as v, b.v as w",
    "every a=S -> not B[k == a.k] for 25 milliseconds select a.v as v, a.v as w",
    "every a=S[v > 4] -> b=B<1:2> within 40 milliseconds select a.v as v, b[0].v as w",
    "every not S for 25 milliseconds select 1 as v, 2 as w",
    "every a=S, b=S[v > a.v] within 30 milliseconds select a.v as v, b.v as w",
    "every a=S and b=B -> c=S within 50 milliseconds select a.v as v, c.v as w",
    "every a=S -> not B for 25 milliseconds and c=S select a.v as v, c.v as w",
]


@dataclass(frozen=True)
class Event:
    """An event or, without a stream, a move of the clock."""

    stream: str
    time: int
    k: str = ""
    v: int = 0


def random_app(draw: Random) -> str:
    kind = draw.choice(["window", "window", "join", "pattern", "named", "chain"])
    expired, selection, rate = draw.choice(["", "all events", "expired events"]), draw.choice(SELECTIONS), ""
    window = draw.choice(WINDOWS)
    if draw.random() < 0.3:
        rate = draw.choice(RATES)
        if "snapshot" in rate and expired == "expired events":
            expired = ""  # refused: a snapshot gives all events
    inside = draw.random() < 0.5
    inner = "#M" if inside else "M"
    select = f"select {selection} {rate}"
    match kind:
        case "window":
            text = f"from S#window.{window} {select} insert {expired} into O;"
        case "join":
            left, right = draw.choice(SLIDING), draw.choice(SLIDING)
            on = draw.choice(["a.k == b.k", "a.v > b.v"])
            text = f"from S#window.{left} as a join B#window.{right} as b on {on} "
            text += f"select a.k as k, a.v as v, b.v as w {rate} insert {expired} into O;"
        case "pattern":
            text = f"from {draw.choice(PATTERNS)} {rate} insert into O;"
        case "chain":
            first, events = draw.choice([*SLIDING, "delay(30)"]), draw.choice(["", "all events"])
            text = f"from S#window.{first} select k, v, t insert {events} into {inner}; "
            text += f"from {inner}#window.{window} select {selection} insert {expired} into O;"
        case _:
            inside = False
            text = f"define window W (k string, v int, t long) {window}; from S insert into W; "
            text += f"from W {select} insert {expired} into O; "
            text += "from B#window.time(20) as b join W as w on b.k == w.k select b.v as v, w.v as w insert into P;"
    if inside:
        text = f"partition with (k of S, k of B) begin {text} end;"
    return f"{draw.choice(['@app:playback ', ''])}{STREAMS}{text}"


def random_events(draw: Random) -> list[Event]:
    """Return up to 25 events: in order, late, from the future or from 1970.

    Sometimes the clock moves, at the end by far.
    """
    made: list[Event] = []
    now = draw.choice([0, 100])
    for _ in range(draw.randint(1, 25)):
        now += draw.choice([0, 0, 1, 5, 10, 30])
        kind = draw.choice(["in time", "in time", "in time", "late", "future", "zero", "clock"])
        if kind == "clock":
            made.append(Event("", now))
            continue
        times = {"late": max(now - draw.randint(1, 60), 0), "future": now + draw.randint(1, 200), "zero": 0}
        made.append(Event(draw.choice("SSB"), times.get(kind, now), draw.choice("ab"), draw.randint(0, 9)))
    return [*made, Event("", now + 300), Event("", now + 5_000)]


class _Run:
    """A running app, and its output."""

    def __init__(self, text: str) -> None:
        self.found: dict[str, list[Any]] = {"O": [], "P": []}
        self.runtime = AppRuntime(analyse(parse(text)))
        self._listen()
        self.runtime.start(0)

    def _listen(self) -> None:
        for stream, rows in self.found.items():
            if stream in self.runtime.app.streams:

                def take(batch: pa.RecordBatch, rows: list[Any] = rows) -> None:
                    rows.extend(tuple(row.values()) for row in batch.to_pylist())

                self.runtime.add_stream_callback(stream, take)

    def restore(self) -> None:
        self.runtime = restored(self.runtime)
        self._listen()

    def send(self, batch: Sequence[Event]) -> None:
        streams = list(dict.fromkeys(event.stream for event in batch))
        sources = np.array([streams.index(event.stream) for event in batch], dtype=np.int64)
        batches = [(stream, self._records(stream, [e for e in batch if e.stream == stream])) for stream in streams]
        self.runtime.send_merged(batches, sources)

    def _records(self, stream: str, batch: Sequence[Event]) -> pa.RecordBatch:
        schema = self.runtime.app.streams[stream].schema
        return record_batch(schema, [{"timestamp": e.time, "data": [e.k, e.v, e.time]} for e in batch])


def answers(
    text: str, events: Sequence[Event], cuts: Collection[int] | None = None, restores: Collection[int] = ()
) -> dict[str, list[Any]]:
    """Return the output of the app on the streams O and P.

    Batches end before the events at `cuts` (None: everywhere), and the app is saved and restored after those at
    `restores`.
    """
    run = _Run(text)
    for piece in _pieces(events, range(len(events)) if cuts is None else cuts):
        if piece[0][1].stream:
            run.send([event for _, event in piece])
        else:
            run.runtime.advance_time(piece[0][1].time)
        if piece[-1][0] in restores:
            run.restore()
    return run.found


def _pieces(events: Sequence[Event], cuts: Collection[int]) -> Iterator[list[tuple[int, Event]]]:
    starts = [
        place
        for place, event in enumerate(events)
        if place and (not event.stream or not events[place - 1].stream or place in cuts)
    ]
    for start, stop in itertools.pairwise([0, *starts, len(events)]):
        yield list(enumerate(events[start:stop], start))
