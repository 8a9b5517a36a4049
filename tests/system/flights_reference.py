"""What `samples/flights/KnockOnDelays.siddhiql` must find, computed from the Parquet files in plain Python.

Nothing of the project is used here: the rules of the plan are written out again, row by row, so that the engine, the
planner and the topology are checked by something that shares none of their code.
"""

from __future__ import annotations

import functools
from collections import Counter, defaultdict, deque
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

FLIGHTS = Path(__file__).parents[2] / "samples" / "flights"
HOUR_MS = 3_600_000
COLUMNS = {
    "CarrierDelays": ("_timestamp", "carrier", "origin", "average_delay", "maximum_delay", "departures"),
    "KnockOns": ("_timestamp", "tailnum", "late_from", "late_into", "arr_delay", "next_from", "next_to", "dep_delay"),
    "AirportStorms": ("_timestamp", "origin", "late_departures"),
}
"""The columns of each result, in the order in which they are defined, after the time of the event."""

Event = dict[str, Any]
Row = tuple[Any, ...]


@functools.cache
def reference(folder: Path = FLIGHTS) -> dict[str, list[Row]]:
    """Every row of every exported stream, in order, for all events in `folder`."""
    departures = _events(folder / "departures.parquet")
    arrivals = _events(folder / "arrivals.parquet")
    return {
        "CarrierDelays": list(_carrier_delays(departures)),
        "KnockOns": list(_knock_ons(arrivals, departures)),
        "AirportStorms": list(_airport_storms(departures)),
    }


def _events(file: Path) -> list[Event]:
    """The rows of a file in its order, nulls as None."""
    return pq.read_table(file).to_pylist()


def _carrier_delays(departures: list[Event]) -> Iterator[Row]:
    """For each departure, its carrier's last hour at its airport: (t - 1 h, t], when more than five and late."""
    held: deque[Event] = deque()
    groups: defaultdict[tuple[Any, Any], deque[Event]] = defaultdict(deque)
    for departure in departures:
        time = departure["ts"]
        while held and held[0]["ts"] + HOUR_MS <= time:
            old = held.popleft()
            groups[old["carrier"], old["origin"]].popleft()
        held.append(departure)
        group = groups[departure["carrier"], departure["origin"]]
        group.append(departure)
        delays = [one["dep_delay"] for one in group if one["dep_delay"] is not None]
        if len(group) > 5 and delays and sum(delays) / len(delays) > 30:
            average = sum(delays) / len(delays)
            yield time, departure["carrier"], departure["origin"], average, max(delays), len(group)


def _knock_ons(arrivals: list[Event], departures: list[Event]) -> Iterator[Row]:
    """Every late arrival with the next late departure of the same aircraft, at most eight hours after it."""
    waiting: defaultdict[str, deque[Event]] = defaultdict(deque)
    merged = sorted(
        [(event["ts"], 0, place, event) for place, event in enumerate(arrivals)]
        + [(event["ts"], 1, place, event) for place, event in enumerate(departures)],
        key=lambda one: one[:3],
    )
    for time, is_departure, _, event in merged:
        aircraft = event["tailnum"]
        if aircraft is None:
            continue
        if not is_departure:
            if event["arr_delay"] is not None and event["arr_delay"] > 30:
                waiting[aircraft].append(event)
        elif event["dep_delay"] is not None and event["dep_delay"] > 15:
            for arrival in waiting.pop(aircraft, ()):
                if time - arrival["ts"] <= 8 * HOUR_MS:
                    yield (
                        time, aircraft, arrival["origin"], arrival["dest"], arrival["arr_delay"],
                        event["origin"], event["dest"], event["dep_delay"],
                    )  # fmt: skip


def _airport_storms(departures: list[Event]) -> Iterator[Row]:
    """Departures more than an hour late, counted by airport in hours that begin with the first of them.

    An hour's rows come in the order in which its airports first appeared, each with the time of its airport's last
    departure in the hour. The hour that no later departure closes gives nothing.
    """
    late = [one for one in departures if one["dep_delay"] is not None and one["dep_delay"] > 60]
    if not late:
        return
    start = late[0]["ts"]
    hours: defaultdict[int, list[Event]] = defaultdict(list)
    for departure in late:
        hours[(departure["ts"] - start) // HOUR_MS].append(departure)
    for hour, members in sorted(hours.items()):
        if start + (hour + 1) * HOUR_MS <= departures[-1]["ts"]:
            counts = Counter(one["origin"] for one in members)
            times = {one["origin"]: one["ts"] for one in members}
            for origin, count in counts.items():
                yield times[origin], origin, count
