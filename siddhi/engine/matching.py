"""Which parts of a snapshot an edited app can take over: those that are the same, by name and by definition."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum

from siddhi.engine.part_definitions import PartDefinition, PartKind


class LeftReason(str, Enum):
    """Why the state of a part was not taken over."""

    GONE = "gone"
    """The app has no part of that kind and name."""
    CHANGED = "changed"
    """The part itself is defined otherwise."""
    SURROUNDINGS_CHANGED = "surroundings-changed"
    """The part is the same, but not the streams, windows, tables, scripts or the clock that it depends on."""
    PARTITION_LEFT = "partition-left"
    """The query is the same, but not the keys of the partition in which it stands."""


_WORDS = {
    LeftReason.GONE: "the app has none of that name",
    LeftReason.CHANGED: "it is defined otherwise",
    LeftReason.SURROUNDINGS_CHANGED: "what it reads, calls or is driven by is defined otherwise",
    LeftReason.PARTITION_LEFT: "the keys of its partition are others",
}


@dataclass(frozen=True, slots=True)
class PartName:
    """A part of an app, as people know it."""

    kind: PartKind
    name: str

    def __str__(self) -> str:
        return f"{self.kind.value} {self.name}"


@dataclass(frozen=True, slots=True)
class LeftPart:
    """A part of the snapshot whose state was not taken over, and why."""

    part: PartName
    reason: LeftReason

    def __str__(self) -> str:
        return f"{self.part}: {_WORDS[self.reason]}"


@dataclass(frozen=True, slots=True)
class RestoreReport:
    """What became of the parts of a snapshot: `taken` go on where they stood, `left` are lost. `begun` are the parts
    of the app that hold nothing yet."""

    taken: tuple[PartName, ...]
    left: tuple[LeftPart, ...]
    begun: tuple[PartName, ...]

    @property
    def complete(self) -> bool:
        """True when nothing was lost and nothing begins anew."""
        return not self.left and not self.begun


def match_parts(saved: Sequence[PartDefinition], present: Sequence[PartDefinition]) -> RestoreReport:
    """What an app with the parts `present` can take over of a snapshot with the parts `saved`."""
    now = {name_of(part): part for part in present}
    reasons = {name_of(part): _difference(part, now.get(name_of(part))) for part in saved}
    for part in saved:
        name = name_of(part)
        if reasons[name] is None and part.partition is not None and reasons[_keys_of(part.partition)] is not None:
            reasons[name] = LeftReason.PARTITION_LEFT
    taken = tuple(name for name, reason in reasons.items() if reason is None)
    left = tuple(LeftPart(name, reason) for name, reason in reasons.items() if reason is not None)
    return RestoreReport(taken, left, tuple(name for name in now if reasons.get(name, LeftReason.GONE) is not None))


def name_of(part: PartDefinition) -> PartName:
    """The name of `part`."""
    return PartName(part.kind, part.name)


def _keys_of(partition: str) -> PartName:
    return PartName(PartKind.PARTITION, partition)


def _difference(saved: PartDefinition, present: PartDefinition | None) -> LeftReason | None:
    if present is None:
        return LeftReason.GONE
    if (saved.text, saved.ranges, saved.partition) != (present.text, present.ranges, present.partition):
        return LeftReason.CHANGED
    return None if saved.surroundings == present.surroundings else LeftReason.SURROUNDINGS_CHANGED
