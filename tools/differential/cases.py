"""A random case: an app and its events, in the form of a case file."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from tools.differential.apps import random_app
from tools.differential.draw import Draw, plain
from tools.differential.events import Event, random_events

EVENTS_OF_ONE_APP = 10
"""The number of consecutive cases with one app and different events: building an app costs more than running it."""


@dataclass(frozen=True, slots=True)
class RandomCase:
    """An app as a template with its events; `document` is the case that it makes."""

    id: str
    template: str
    events: Sequence[Event]
    streams: tuple[str, ...]
    queries: tuple[str, ...]
    start: int
    failing: bool
    """Whether events are meant to fail."""
    late: bool
    kinds: frozenset[str]

    def document(self) -> dict[str, Any]:
        """Return the case as one object of a case file, without an expectation."""
        text = "\n".join(_needed(plain(self.template).splitlines()))
        defined = {"S", *re.findall(r"define stream (\w+)", text)}
        queries = [name for name in self.queries if f"name='{name}'" in text]
        streams = [name for name in self.streams if f"into {name};" in text]
        return {
            "id": self.id,
            "feature": f"differential.{'+'.join(sorted(self.kinds))}",
            "app": text,
            "start_time": self.start,
            "events": [event for event in self.events if event.get("stream", "S") in defined],
            "listen": {"streams": streams, "queries": queries},
        }

    def changed(self, *, template: str | None = None, events: Sequence[Event] | None = None) -> RandomCase:
        """Return the case with another template or other events."""
        case = self if template is None else replace(self, template=template)
        return case if events is None else replace(case, events=events)


def _needed(lines: Sequence[str]) -> Iterator[str]:
    """Yield the lines without those of inputs that nothing reads; the first input stays, as an app needs a stream."""
    for line in lines:
        stream = re.match(r"define stream (\w+)", line)
        read = (
            stream is None
            or stream[1] == "S"
            or any(re.search(rf"\b{stream[1]}\b", other) for other in lines if other is not line)
        )
        if line.strip() and read:
            yield line


def random_case(seed: int, number: int, *, peer: bool) -> RandomCase:
    """Return case `number` of `seed`, always the same one.

    Args:
        seed: the seed of the run.
        number: which case of the run.
        peer: only with what the released Siddhi has and what it can be asked about.
    """
    app = random_app(Draw(f"{seed}.{number // EVENTS_OF_ONE_APP}.{peer}"), peer=peer)
    draw = Draw(f"{seed}.{number}")
    late = draw.chance(0.12 if peer else 0.3)
    start = draw.weighted([(1000, 8), (0, 1), (1_700_000_000_000, 1)])
    events = random_events(draw, app, start, late=late, peer=peer)
    return RandomCase(
        f"{seed}.{number}",
        app.template(),
        events,
        tuple(app.listened),
        tuple(app.queries),
        start,
        app.failing,
        late,
        frozenset(app.kinds),
    )
