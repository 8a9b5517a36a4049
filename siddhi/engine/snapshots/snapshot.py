"""A snapshot: the state and definition of every part of an app, and their common data."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Protocol

from siddhi.engine.columnar.state_tree import Buffer, State, StateError, decode_state, encode_state
from siddhi.engine.snapshots.envelope import sealed, unsealed, unusable
from siddhi.engine.snapshots.part_definitions import PartDefinition
from siddhi.engine.streams.clock import ClockState


class HoldsState(Protocol):
    """An object with a part's state: a node of the graph, a table, the instances of a partition."""

    def snapshot(self) -> State:
        """Return the whole state."""

    def restore(self, state: State) -> None:
        """Replace the state by one from `snapshot`."""


@dataclass(frozen=True, slots=True)
class AppPart:
    """A part of a running app and the object with its state."""

    definition: PartDefinition
    holder: HoldsState


@dataclass(frozen=True, slots=True)
class SavedPart:
    """The state of a part."""

    definition: PartDefinition
    state: State


@dataclass(frozen=True, slots=True)
class SavedApp:
    """The contents of a snapshot.

    These are the fingerprint of the app's text, its clock (None: never set), the strings whose codes the parts hold,
    and the parts in text order. With `waits` the app starts with its first event, and has not started yet.
    """

    app: bytes
    clock: ClockState | None
    strings: State
    parts: tuple[SavedPart, ...]
    waits: bool = False


def write_snapshot(saved: SavedApp) -> bytes:
    """Return the bytes of `saved`."""
    parts = [[part.definition.saved(), part.state] for part in saved.parts]
    waits = [True] if saved.waits else []
    clock = None if saved.clock is None else list(saved.clock)
    return sealed(encode_state([clock, saved.strings, parts, *waits]), saved.app)


def read_snapshot(data: Buffer) -> SavedApp:
    """Return the contents of a snapshot from `write_snapshot`; raise `SnapshotError` for anything else."""
    app, body = unsealed(data)
    try:
        clock, strings, parts, *waits = decode_state(body)
        saved = tuple(SavedPart(PartDefinition.of(definition), state) for definition, state in parts)
        times = None if clock is None else ClockState(*clock)
    except (StateError, TypeError, ValueError) as error:
        raise unusable("snapshot-damaged", str(error)) from error
    if times is not None and any(type(time) is not int for time in times):
        raise unusable("snapshot-damaged", "its clock is not a time")
    return SavedApp(app, times, strings, saved, waits=bool(waits))


@contextmanager
def reporting_damage(of: str) -> Iterator[None]:
    """Raise `SnapshotError` for any failure inside that is caused by invalid contents of a snapshot."""
    try:
        yield
    except (ArithmeticError, AttributeError, LookupError, MemoryError, TypeError, ValueError) as error:
        raise unusable("snapshot-damaged", f"what it says of {of} makes no sense: {error!r}") from error
