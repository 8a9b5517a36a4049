"""The statistics of a running app."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from siddhi.engine.columnar.state_size import StateSize


class HasStateSize(Protocol):
    """A part of an app that may hold something."""

    def state_size(self) -> StateSize:
        """Return how much it holds now."""


@dataclass(frozen=True, slots=True)
class PartStateSize:
    """What one part of an app holds; `kind` is `query`, `window`, `table`, `aggregation` or `partition`."""

    kind: str
    name: str
    size: StateSize


@dataclass(frozen=True, slots=True)
class EngineStatistics:
    """What an app has done since it started and what it holds now.

    It has events and failed events by stream, the state of its parts, and the strings in its pool.
    """

    events: dict[str, int]
    failures: dict[str, int]
    state: tuple[PartStateSize, ...]
    strings: int
    string_bytes: int
