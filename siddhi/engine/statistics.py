"""The statistics of a running app."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from siddhi.engine.columnar.state_size import StateSize


class HasStateSize(Protocol):
    """A part of an app that may have state."""

    def state_size(self) -> StateSize:
        """Return the current size of the state."""


@dataclass(frozen=True, slots=True)
class PartStateSize:
    """The size of one part of an app; `kind` is `query`, `window`, `table`, `aggregation` or `partition`."""

    kind: str
    name: str
    size: StateSize


@dataclass(frozen=True, slots=True)
class EngineStatistics:
    """The statistics of an app since its start.

    They contain events and failed events by stream, the size of its parts, and the strings in its pool.
    """

    events: dict[str, int]
    failures: dict[str, int]
    state: tuple[PartStateSize, ...]
    strings: int
    string_bytes: int
