"""What the steps of the tour share: the plan, the readings, and the ways between pages."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from tour_visitor import UnmetError, Visitor, quoted

PASSWORD = "six foxes took the late flight"  # noqa: S105 - of a system that lives for a minute
PLAN = "HotRooms"
TEXT = """\
@Plan:name('HotRooms')
@Plan:description('Rooms that are too hot on average')

@Import('Temperatures:1.0.0')
define stream Temperatures (room int, degrees double);

@Export('HotRooms:1.0.0')
define stream HotRooms (room int, average double);

@info(name='average') @dist(execGroup='rooms')
from Temperatures#window.time(10 min)
select room, avg(degrees) as average
group by room
having average > 30.0
insert into HotRooms;
"""
STAGE = "rooms"
MISTAKEN_LINE = 12
READINGS = 300
RATE = 1_000
ROOMS = (20.0, 25.0, 35.0)
"""Degrees in each room, which take turns; those of one room are too many."""

START_S = 150.0
"""So long a topology may take to start, on a machine that has more to do."""
SOON_S = 30.0
TRIAL_S = 60.0
AGAIN_S = 4.0
HTTP_OK = 200
SEND = (
    "import('/static/call.js').then(({ call }) => call('/api/v1/event-streams/Temperatures:1.0.0/events', {"
    "method: 'POST', headers: { 'Content-Type': 'application/json' },"
    f"body: {quoted(json.dumps({'room': 2, 'degrees': 36.0}))} }})).then((answer) => answer.status)"
)
"""Sends a reading as a script of the page would."""
CHECKPOINT_S = 60.0

EDITOR = "document.getElementById('editor').shadowRoot"
MARKED = f"{EDITOR}?.querySelector('.cm-lintRange-error')"
MARKED_LINE = (
    f"[...{EDITOR}.querySelectorAll('.cm-line')].findIndex((one) => one.querySelector('.cm-lintRange-error')) + 1"
)
RECEIVED, EMITTED = "#in-10m td:nth-of-type(1)", "#in-10m td:nth-of-type(2)"


@dataclass(slots=True)
class Tour:
    """What the steps share."""

    visitor: Visitor
    password: str
    """The first admin's, for once."""
    folder: Path
    """For files that are sent."""
    sent: int = 0
    """Events that were accepted so far."""


Step = Callable[[Tour], str]
"""Takes the tour on and says what was found, or raises UnmetError."""


def feeds(tour: Tour) -> str:
    """From the simulator's page, all readings were sent."""
    visitor = tour.visitor
    file = tour.folder / "readings.csv"
    rows = (f"{number % len(ROOMS)},{ROOMS[number % len(ROOMS)]}" for number in range(READINGS))
    file.write_text("\n".join(["room,degrees", *rows, ""]), encoding="utf-8")
    visitor.choose_file("#feed-file", file)
    visitor.write("#feed-rate", str(RATE))
    visitor.click("#feed-start")
    visitor.sees("#feed-told", f"Done: {READINGS} of {READINGS} events sent", SOON_S)
    tour.sent += READINGS
    return visitor.read("#feed-told")


def sees_while_sending(tour: Tour, selector: str, text: str) -> None:
    """One of the elements comes to contain `text`, events being sent meanwhile: what is ordered reaches those who do it
    with a heartbeat, and what went through before is gone."""
    visitor = tour.visitor
    deadline_s = time.monotonic() + SOON_S
    while True:
        status = visitor.browser.evaluate(SEND)
        visitor.check(status == HTTP_OK, f"an event accepted, not {status}")
        tour.sent += 1
        try:
            visitor.sees(selector, text, AGAIN_S)
        except UnmetError:
            if time.monotonic() > deadline_s:
                raise
        else:
            return


def to_the_plan(tour: Tour) -> None:
    tour.visitor.follow("Execution plans")
    tour.visitor.follow(PLAN, within=".plan-name", to="#windows")


def to_the_simulator(tour: Tour) -> None:
    tour.visitor.follow("Events")
    tour.visitor.send("main a.button", "Send events Temperatures:1.0.0")


def sees_state(visitor: Visitor, state: str, within_s: float = SOON_S) -> None:
    """The plan's page comes to show this state."""
    visitor.until(f"document.querySelector('.head .badge').textContent.trim() === {quoted(state)}", state, within_s)


def sees_all_connected(visitor: Visitor) -> None:
    """The graph on the plan's page comes to show every edge, and each of them connected."""
    edges = "document.querySelectorAll('#graph .edge')"
    visitor.until(f"{edges}.length >= 4 && !document.querySelector('#graph .edge.off')", "all connected", START_S)


def sees_received(visitor: Visitor, received: int, emitted: int | None = None) -> None:
    """The statistics on the plan's page come to count so many events in the last ten minutes."""
    wanted = ((RECEIVED, received), (EMITTED, emitted))
    for selector, number in wanted:
        if number is not None:
            counted = f"document.querySelector({quoted(selector)}).textContent.replace(/\\D/g, '')"
            visitor.until(f"{counted} === '{number}'", f"{number} in {selector}", SOON_S)
