"""Differences from Siddhi that are known, each with its reason: those of docs/siddhiql.md, and faults of Siddhi's that
random cases meet and no plan should rely on."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

Document = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Known:
    """A known difference: its name (that in the table of docs/siddhiql.md, if it is there), why it is, and which cases
    may show it."""

    name: str
    reason: str
    shows: Callable[[Document], bool]
    in_table: bool = True


def _text(pattern: str) -> Callable[[Document], bool]:
    found = re.compile(pattern)
    return lambda document: found.search(document["app"]) is not None


def is_late(document: Document) -> bool:
    """Return whether some event is older than one before it, or than the clock."""
    clock = document.get("start_time", 0)
    for event in document["events"]:
        times = [row["timestamp"] for row in event.get("batch", [event] if "timestamp" in event else [])]
        if any(time < clock for time in times):
            return True
        clock = max([clock, event.get("advance_time", 0), *times])
    return False


_KEY = r"@PrimaryKey\("
_INDEX = r"@Index\("
_BATCHES = r"(lengthBatch|timeBatch|externalTimeBatch|batch|expressionBatch)\("


def _joins_batches(document: Document) -> bool:
    """Return whether a batch window is a side of a join of current events."""
    queries = document["app"].split(";")
    return any(" join " in query and re.search(_BATCHES, query) and "expired" not in query for query in queries)


def _deletes_from_plain_table(document: Document) -> bool:
    plain = re.findall(r"(?m)^define table (\w+)", document["app"])
    return any(f"delete {table} " in document["app"] for table in plain)


KNOWN: tuple[Known, ...] = (
    Known(
        "set-reads-keyed-tables",
        "Siddhi reads null where `set` of a table with a key or an index reads the stored value",
        _text(rf"(?s)({_KEY}|{_INDEX}).*set Tab\d+\.\w+ = [^;]*Tab\d+\.\w+( \+|;|,| on)"),
    ),
    Known(
        "indexes-hold-the-rows",
        "rows found by an index come in the order of a Java hash map, and some that changed are missed",
        _text(_INDEX),
    ),
    Known(
        "deleted-last-row",
        "Siddhi loses rows that come after the last row of a table without a key was deleted",
        _deletes_from_plain_table,
    ),
    Known(
        "joined-batches-end",
        "a batch window in a join of current events shows every batch since the start in Siddhi",
        _joins_batches,
    ),
    Known(
        "every-key-has-timers",
        "of equal times of several keys of a partition, Siddhi fires one for each move of the clock",
        _text(r"partition with .*(time|Time|session|delay| for |every \d|within)"),
    ),
)


def reason_for(document: Document) -> Known | None:
    """Return the first known difference that the case may show."""
    return next((known for known in KNOWN if known.shows(document)), None)
