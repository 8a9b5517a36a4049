"""A world with virtual time for simulations: an agenda, seeded chance, a trace, and what is broken when a rule is."""

from __future__ import annotations

import heapq
import itertools
import random
from collections import deque
from collections.abc import Callable, Iterable

TRACE_LINES = 2_000
SHOWN_LINES = 60


class RuleBrokenError(AssertionError):
    """Something happened that must not in any schedule."""


class VirtualWorld:
    """What happens is drawn by chance from `seed` alone: the same seed gives the same schedule, on any machine.

    Subclasses put things on the agenda with `later` and say in `check` what must hold after each step.
    """

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.chance = random.Random(seed)  # noqa: S311 - made-up schedules, nothing secret
        self.now_ms = 0
        self._order = itertools.count()
        self._agenda: list[tuple[int, int, Callable[[], None]]] = []
        self._broken: RuleBrokenError | None = None
        self._trace: deque[tuple[int, str, tuple[object, ...]]] = deque(maxlen=TRACE_LINES)

    def clock_error_ms(self) -> int:
        """By how much the time of day of a process that starts now is wrong, as long as it lives."""
        return 0

    def later(self, after_ms: int, happen: Callable[[], None]) -> None:
        """`happen` is called in `after_ms`; of what falls into one millisecond, in the order of being put off."""
        heapq.heappush(self._agenda, (self.now_ms + after_ms, next(self._order), happen))

    def run(self, until_ms: int) -> None:
        """Everything up to `until_ms` has happened, and was checked."""
        agenda = self._agenda
        while agenda and agenda[0][0] <= until_ms:
            self.now_ms, _, happen = heapq.heappop(agenda)
            happen()
            self.check()
            if self._broken is not None:
                raise self._broken
        self.now_ms = until_ms

    def check(self) -> None:
        """Raises RuleBrokenError when something is not as it must be."""

    def note(self, what: str, *values: object) -> None:
        """A line of the trace: `what` is a format for `values`, which are told as they are when it is shown."""
        self._trace.append((self.now_ms, what, values))

    def require(self, holds: object, what: str, *values: object) -> None:
        """Raises RuleBrokenError unless `holds`; at the latest after this step, should the system swallow that."""
        if not holds:
            self._broken = self._broken or RuleBrokenError(what % values)
            raise self._broken

    def trace(self, most: int = SHOWN_LINES) -> str:
        """The last things that happened, at most so many, one a line."""
        lines = list(self._trace)[-most:]
        return "\n".join(f"{now_ms:>9} ms  {what % values}" for now_ms, what, values in lines)


Simulation = Callable[[int], VirtualWorld]
"""Makes the world of a seed."""


def play(
    name: str, simulate: Callable[[VirtualWorld], None], make: Simulation, seed: int, shown: int = SHOWN_LINES
) -> VirtualWorld:
    """The schedule of `seed` was played to its end. Raises RuleBrokenError with the last lines of its trace and how to
    repeat it."""
    world = make(seed)
    try:
        simulate(world)
    except Exception as error:
        repeat = f".venv/bin/python tests/simulation/simulate.py {name} --seed {seed}"
        text = f"{name}, seed {seed}, at {world.now_ms} ms: {error!r}\n{world.trace(shown)}\nrepeat: {repeat}"
        raise RuleBrokenError(text) from error
    return world


def first_broken(play_seed: Callable[[int], object], seeds: Iterable[int]) -> int | None:
    """The first of `seeds` whose schedule breaks a rule; None when no one does."""
    for seed in seeds:
        try:
            play_seed(seed)
        except RuleBrokenError:
            return seed
    return None
