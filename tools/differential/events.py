"""Random events for an app: equal, late, zero and future timestamps, nulls, chunks, moves of the clock, questions."""

from __future__ import annotations

from typing import Any

from tools.differential.draw import Draw
from tools.differential.schema import INPUTS, GeneratedApp

Event = dict[str, Any]

_GAPS = ((0, 3.0), (10, 2.0), (50, 2.0), (100, 4.0), (130, 2.0), (200, 1.5), (300, 1.0), (700, 0.5), (2100, 0.2))
_TEXTS = ("a", "b", "x", "c")


def random_events(draw: Draw, app: GeneratedApp, start: int, *, late: bool, peer: bool) -> list[Event]:
    """Return the steps of a case: events alone and in chunks, moves of the clock, on-demand queries.

    Args:
        draw: The source of random choices.
        app: The app that receives the events.
        start: The clock before the first step.
        late: Whether some events are behind the clock or far ahead of it.
        peer: Whether to use only what the released Siddhi can process: a chunk in `delay` makes it loop forever.
    """
    nulls = draw.one([0.0, 0.0, 0.0, 0.1]) if "sort(" not in app.template() else 0.0
    chunks = draw.one([0.0, 0.0, 0.15])
    if peer and "delay(" in app.template():
        chunks = 0.0
    clock = start
    playback = "@app:playback" in app.definitions[0]
    steps: list[Event] = []
    for _ in range(draw.number(3, 24)):
        clock += draw.weighted(_GAPS)
        if not playback:
            clock += draw.number(0, 9)  # timers of several windows at one time fire in no order there
        if not playback or draw.chance(0.06):
            steps.append({"advance_time": clock})
        stream = draw.one(INPUTS)
        stamp = _stamp(draw, clock, late=late)
        if draw.chance(chunks):
            rows = [_row(draw, stamp + place * draw.one([0, 0, 10]), nulls) for place in range(draw.number(2, 4))]
            rows.sort(key=lambda row: row["timestamp"])
            steps.append({"stream": stream, "batch": rows})
            clock = max(clock, rows[-1]["timestamp"])
        else:
            steps.append({"stream": stream, **_row(draw, stamp, nulls)})
            clock = max(clock, stamp) if playback else clock
        if (app.tables or app.windows or app.aggregations) and draw.chance(0.1):
            steps += _questions(draw, app)
    if draw.chance(0.8):
        steps.append({"advance_time": clock + draw.one([100, 500, 1000, 3000])})
    return steps + _questions(draw, app)


def _stamp(draw: Draw, clock: int, *, late: bool) -> int:
    if not late or draw.chance(0.75):
        return clock
    if draw.chance(0.08):
        return 0
    return max(0, clock + draw.one([-10, -50, -100, -300, -1000, 1, 500, 5000]))


def _row(draw: Draw, stamp: int, nulls: float) -> Event:
    values: list[Any] = [
        draw.one(_TEXTS),
        draw.number(-1, 7),
        draw.one([0, 1, 2, 5, 1100, 2**53 + 1]),
        draw.one([0.0, 0.5, 2.5, -3.25, 10.0, 1.0, 4.0]),
        draw.one([0.0, 0.5, 2.0, -1.5]),
        draw.chance(0.5),
        stamp,
    ]
    return {
        "timestamp": stamp,
        "data": [None if draw.chance(nulls) and place < 6 else value for place, value in enumerate(values)],
    }


def _questions(draw: Draw, app: GeneratedApp) -> list[Event]:
    asked: list[str] = []
    for name in app.tables:
        clause = draw.one(
            [" select k, i, p", " on i > 2 select k, p", " select count() as n, sum(i) as s", " select *"]
        )
        asked.append(f"from {name}{clause}{'' if 'count' in clause else ' order by k, i, p'}")
        if draw.chance(0.25):
            asked.append(_change(draw, name))
    asked += [f"from {name} select k, i, t" for name in app.windows if draw.chance(0.5)]
    for name, value in app.aggregations.items():
        per = draw.one(["sec", "min", "seconds", "minutes"])
        spans = ["0L, 100000L", "0L, 100000L", "2000L, 60000L", "'1970-01-01 **:**:**'", "'1970-**-** **:**:**'"]
        spans += ["'1970-01-01 00:00:00', '1970-01-01 00:01:00'", "'1970-01-01 00:00:02 +00:00', 100000L"]
        within = draw.one(spans)
        asked.append(
            f"from {name} within {within} per '{per}' select AGG_TIMESTAMP, k, {value} order by AGG_TIMESTAMP, k"
        )
    return [{"query": text} for text in asked]


def _change(draw: Draw, name: str) -> str:
    """Return an on-demand query that changes the table."""
    row = f"select '{draw.one('abx')}' as k, {draw.number(0, 5)} as i, {draw.one(['0.5', '2.0'])} as p"
    return draw.one(
        [
            f"{row} insert into {name}",
            f"{row} update or insert into {name} on {name}.k == k",
            f"{row} update {name} set {name}.i = i on {name}.k == k",  # noqa: S608 - not SQL
            f"delete {name} on {name}.i > {draw.number(0, 5)}",
            f"select 'a' as k delete {name} on {name}.k == k",
            f"update {name} set {name}.i = {draw.number(0, 5)} on {name}.k == '{draw.one('ab')}'",  # noqa: S608 - not SQL
        ]
    )
