"""Events a second over the last minute, five and fifteen, each older second counting less than the one after. Pure."""

from __future__ import annotations

import math

_WINDOWS_S = {"m1_rate": 60, "m5_rate": 300, "m15_rate": 900}


class Meter:
    """Follows a counter that only grows; one that fell was restarted."""

    def __init__(self, count: int, at_ms: int, since_ms: int) -> None:
        """`count` were counted from `since_ms` to `at_ms`, as evenly as anybody knows."""
        self._count = count
        self._at_ms = at_ms
        self._since_ms = since_ms
        first = _per_second(count, at_ms - since_ms)
        self._rates = dict.fromkeys(_WINDOWS_S, first)

    def update(self, count: int, at_ms: int, since_ms: int) -> float | None:
        """Return the counter stood at `count` at `at_ms`.

        Gives how fast it has grown since the last time; None when no time has passed: nothing new is known.
        """
        elapsed_ms = at_ms - self._at_ms
        if elapsed_ms <= 0:
            return None
        growth = count - self._count if count >= self._count else count
        rate = _per_second(growth, elapsed_ms)
        for name, window_s in _WINDOWS_S.items():
            weight = math.exp(-elapsed_ms / 1_000 / window_s)
            self._rates[name] = weight * self._rates[name] + (1 - weight) * rate
        self._count, self._at_ms, self._since_ms = count, at_ms, since_ms
        return rate

    def rates(self) -> dict[str, float]:
        """Return the columns of a meter; the mean is that of all the time in which was counted."""
        return {"mean_rate": _per_second(self._count, self._at_ms - self._since_ms), **self._rates}


def _per_second(events: int, elapsed_ms: int) -> float:
    return events * 1_000 / elapsed_ms if elapsed_ms > 0 else 0.0
