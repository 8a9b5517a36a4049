"""A simple reference for patterns and sequences, one row at a time, for all engines.

A chain is a list of elements, each with its stream, a condition over (event, events so far) and the number of its
events.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from pattern_runs import Event

Held = list[list[Event]]
Condition = Callable[[Event, Held], bool]


@dataclass(frozen=True)
class Part:
    """One element of a chain."""

    stream: str
    condition: Condition = lambda _event, _held: True
    minimum: int = 1
    maximum: int = 1


@dataclass(eq=False)
class Attempt:
    """A partial match: the events of each element so far.

    `waits` is the element at which it waits; `fresh` means that no event of that element's stream has come since;
    `reached` is the latest time of all events when its first arrived.
    """

    held: Held = field(default_factory=list)
    waits: int = 0
    fresh: bool = True
    reached: int = 0

    def is_too_old(self, event: Event, within: int | None) -> bool:
        """Return whether it began late, and `event` is more than `within` newer than its first event."""
        return within is not None and is_too_old(event, self.held, self.reached, within)


def is_too_old(event: Event, held: Held, reached: int, within: int) -> bool:
    return bool(held) and reached > held[0][0].time and event.time - held[0][0].time > within


def pattern(parts: Sequence[Part], events: Sequence[Event], *, every: bool, within: int | None = None) -> list[Held]:
    """Return the matches of `[every] parts[0] -> parts[1] -> …` of plain parts, in order of completion."""
    attempts = [Attempt()]
    matches: list[Held] = []
    latest = events[0].time
    for event in events:
        latest = max(latest, event.time)
        attempts = live(attempts, latest, within)
        attempts = settled(attempts, {at for at, part in enumerate(parts) if part.stream == event.stream})
        born: list[Attempt] = []
        for at in reversed(range(len(parts))):
            if parts[at].stream != event.stream:
                continue
            for attempt in [a for a in attempts if a.waits == at]:
                if attempt.is_too_old(event, within) or not parts[at].condition(event, attempt.held):
                    continue
                if not attempt.held:
                    attempt.reached = latest
                attempt.held.append([event])
                attempt.waits += 1
                attempt.fresh = True
                attempts.remove(attempt)
                if attempt.waits == len(parts):
                    matches.append(attempt.held)
                else:
                    born.append(attempt)
                if every and at == 0:
                    born.append(Attempt())
        attempts.extend(born)
    return matches


def settled(attempts: Sequence[Attempt], fed: set[int]) -> list[Attempt]:
    """Return the attempts in the order in which an event meets them that feeds the elements `fed`.

    Attempts that arrived since the last event wait from now on, behind the others, the oldest last event first.
    """
    newcomers = [attempt for attempt in attempts if attempt.fresh and attempt.waits in fed]
    others = [attempt for attempt in attempts if attempt not in newcomers]
    newcomers.sort(key=lambda attempt: (not attempt.held, attempt.held[-1][0].time if attempt.held else 0))
    for attempt in newcomers:
        attempt.fresh = False
    return [*(a for a in others if not a.fresh), *newcomers, *(a for a in others if a.fresh)]


def live(attempts: Sequence[Attempt], latest: int, within: int | None) -> list[Attempt]:
    """Return the attempts left at `latest`.

    At each element, the old ones before the first that is not too old are gone, and all fresh ones that are too old.
    """
    kept: list[Attempt] = []
    shielded: set[int] = set()
    for attempt in attempts:
        old = within is not None and bool(attempt.held) and latest - attempt.reached > within
        if old and (attempt.fresh or attempt.waits not in shielded):
            continue
        kept.append(attempt)
        if not attempt.fresh:
            shielded.add(attempt.waits)
    return kept


def rounds(parts: Sequence[Part], events: Sequence[Event], *, within: int | None = None) -> list[Held]:
    """Return the matches of `every (parts[0] -> parts[1] -> …)`.

    One attempt at a time, a new one after it is done or too old.
    """
    held: Held = []
    matches: list[Held] = []
    latest = reached = events[0].time
    for event in events:
        latest = max(latest, event.time)
        if held and within is not None and latest - reached > within:
            held = []
        part = parts[len(held)]
        late = within is not None and is_too_old(event, held, reached, within)
        if part.stream == event.stream and not late and part.condition(event, held):
            reached = reached if held else latest
            held.append([event])
            if len(held) == len(parts):
                matches.append(held)
                held = []
    return matches


def sequence(parts: Sequence[Part], events: Sequence[Event], *, every: bool, within: int | None = None) -> list[Held]:
    """Return the matches of `[every] parts[0], parts[1], …` of plain parts.

    Adjacent events only, and without `every` one attempt.
    """
    matches: list[Held] = []
    starts = range(len(events)) if every else range(min(1, len(events)))
    for start in starts:
        run = events[start : start + len(parts)]
        held: Held = []
        reached = latest = max(event.time for event in events[: start + 1])
        for part, event in zip(parts, run, strict=False):
            latest = max(latest, event.time)
            too_late = within is not None and (latest - reached > within or is_too_old(event, held, reached, within))
            if too_late or part.stream != event.stream or not part.condition(event, held):
                break
            held.append([event])
        if len(held) == len(parts):
            matches.append(held)
    return matches


def collected(first: Part, second: Part, events: Sequence[Event]) -> list[Held]:
    """Return the matches of `first<m:n> -> second` without `every`.

    The run collects events until n or until `second` arrives.
    """
    run: list[Event] = []
    for event in events:
        if event.stream == second.stream and len(run) >= first.minimum and second.condition(event, [run]):
            return [[run, [event]]]
        room = first.maximum < 0 or len(run) < first.maximum
        if event.stream == first.stream and room and first.condition(event, [run]):
            run.append(event)
    return []
