"""What operators cost, by the name of their class: nanoseconds an event, microseconds a batch."""

from __future__ import annotations

COSTS: dict[str, tuple[float, float]] = {}
