"""Find the parts of a snapshot that an edited app can continue with: those with the same name and definition."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum

from siddhi.engine.snapshots.part_definitions import PartDefinition, PartKind


class LossReason(str, Enum):
    """Why the state of a part was not taken over."""

    GONE = "gone"
    """The app has no part of that kind and name."""
    CHANGED = "changed"
    """The definition of the part has changed."""
    DEPENDENCIES_CHANGED = "dependencies-changed"
    """The part is the same, but not the streams, windows, tables, scripts or the clock that it depends on."""
    PARTITION_LEFT = "partition-left"
    """The query is the same, but the keys of its partition have changed."""
    NOT_HELD = "not-held"
    """The query reads attributes that its window did not store."""


_WORDS = {
    LossReason.GONE: "the app has nothing with that name",
    LossReason.CHANGED: "its definition changed",
    LossReason.DEPENDENCIES_CHANGED: "the definition of something that it reads or calls, or its clock, changed",
    LossReason.PARTITION_LEFT: "the keys of its partition changed",
    LossReason.NOT_HELD: "it reads attributes that its window did not store",
}


@dataclass(frozen=True, slots=True)
class PartName:
    """A part of an app, by kind and name."""

    kind: PartKind
    name: str

    def __str__(self) -> str:
        """Return the kind and the name, as messages show them."""
        return f"{self.kind.value} {self.name}"


@dataclass(frozen=True, slots=True)
class LostPart:
    """A part of the snapshot whose state was not taken over, and why."""

    part: PartName
    reason: LossReason
    attributes: tuple[str, ...] = ()

    def __str__(self) -> str:
        """Return the part, and why its state was not restored."""
        return f"{self.part}: {self.why()}"

    def why(self) -> str:
        """Return the reason, as text for messages."""
        more = f" ({', '.join(self.attributes)})" if self.attributes else ""
        return f"{_WORDS[self.reason]}{more}"


@dataclass(frozen=True, slots=True)
class RestoreReport:
    """The parts of a snapshot that were restored, lost or started.

    `taken` parts continue with their state, `left` ones are lost, and `begun` are the parts of the app that start
    without state. Of the taken parts, `recomputed` ones have groups and aggregates computed from the rows of their
    windows.
    """

    taken: tuple[PartName, ...]
    left: tuple[LostPart, ...]
    begun: tuple[PartName, ...]
    recomputed: tuple[PartName, ...] = ()
    formers: tuple[tuple[PartName, PartName], ...] = ()
    """For each part that is taken, the part of the snapshot."""

    @property
    def complete(self) -> bool:
        """Return whether nothing was lost and nothing starts over."""
        return not self.left and not self.begun


class PartMatch(Enum):
    """How a part takes over the state of a part in the snapshot."""

    SAME = "same"
    BUT_RATE = "but rate"
    """Everything except rows that wait for an output rate, which has changed."""
    ROWS = "rows"
    """Its stored rows; groups and aggregates are computed from them."""


Matches = dict[PartName, tuple[PartName, PartMatch]]
"""For each part that takes state over: the part of the snapshot, and how."""


def match_parts(saved: Sequence[PartDefinition], present: Sequence[PartDefinition]) -> Matches:
    """Return what an app with the parts `present` can take over from a snapshot with the parts `saved`.

    A part is identified by its name if that still means the same, else by the definition of its state: queries added
    before it, or with other names, make no difference. Among equal parts the first matches the first.
    """
    matches: Matches = {}
    partitions = _by_likeness(_of_kind(saved, PartKind.PARTITION), _of_kind(present, PartKind.PARTITION), _as_defined)
    matches |= {name: (former, PartMatch.SAME) for name, former in partitions.items()}
    others = [part for part in present if part.kind not in (PartKind.PARTITION, PartKind.QUERY)]
    before = {name_of(part): part for part in saved}
    for part in others:
        former = before.get(name_of(part))
        if former is not None and _difference(former, part) is None:
            matches[name_of(part)] = (name_of(part), PartMatch.SAME)
    places = {name.name: former.name for name, former in partitions.items()}
    queries = _of_kind(saved, PartKind.QUERY), _of_kind(present, PartKind.QUERY)
    for likeness, how in (
        (_as_defined, PartMatch.SAME),
        (_rate, PartMatch.SAME),
        (_whole, PartMatch.BUT_RATE),
        (_rows, PartMatch.ROWS),
    ):
        used = {former.name for former, _ in matches.values() if former.kind is PartKind.QUERY}
        left = [part for part in queries[0] if part.name not in used]
        begun = [part for part in queries[1] if name_of(part) not in matches]
        found = _by_likeness(left, begun, likeness, places)
        matches |= {name: (former, how) for name, former in found.items()}
    return matches


def report_of(
    matches: Matches,
    before: Sequence[PartName],
    now: Sequence[PartName],
    lacking: Mapping[PartName, tuple[str, ...]],
    saved: Sequence[PartDefinition],
    present: Sequence[PartDefinition],
) -> RestoreReport:
    """Return a report on the parts `before`.

    The rows of those in `lacking` did not have all attributes that are needed now.
    """
    taken = tuple(name for name in now if name in matches and name not in lacking)
    formers = {former: name for name, (former, _) in matches.items()}
    definitions, present_by_name = {name_of(one): one for one in saved}, {name_of(one): one for one in present}
    left = []
    for former in before:
        name = formers.get(former)
        query = definitions[former].query
        if query is not None and not query.held:
            continue  # a stateless query has nothing to lose
        if name is None:
            reason = _difference(definitions[former], present_by_name.get(former)) or LossReason.PARTITION_LEFT
            left.append(LostPart(former, reason))
        elif name in lacking:
            left.append(LostPart(former, LossReason.NOT_HELD, lacking[name]))
    recomputed = tuple(name for name in taken if matches[name][1] is PartMatch.ROWS)
    return RestoreReport(taken, tuple(left), tuple(name for name in now if name not in taken), recomputed,
                         tuple((name, matches[name][0]) for name in taken))  # fmt: skip


Likeness = Callable[[PartDefinition], object]


def _by_likeness(
    saved: Sequence[PartDefinition],
    present: Sequence[PartDefinition],
    likeness: Likeness,
    places: Mapping[str, str] | None = None,
) -> dict[PartName, PartName]:
    """Match parts of `present` with equal parts of `saved`, those of the same name first, then in order.

    Queries of a partition match only if the partition takes over its keys: `places` are their former names.
    """
    waiting: dict[object, list[PartDefinition]] = {}
    for part in saved:
        like = likeness(part)
        if like is not None:
            waiting.setdefault((like, part.partition), []).append(part)
    found: dict[PartName, PartName] = {}
    by_name = {part.name for part in saved}
    for part in sorted(present, key=lambda one: one.name not in by_name):
        place = None if part.partition is None else (places or {}).get(part.partition, "")
        alike = waiting.get((likeness(part), place), [])
        chosen = next((one for one in alike if one.name == part.name), None)
        if chosen is not None:
            alike.remove(chosen)
            found[name_of(part)] = name_of(chosen)
    for part in present:
        place = None if part.partition is None else (places or {}).get(part.partition, "")
        alike = waiting.get((likeness(part), place), [])
        if alike and name_of(part) not in found:
            found[name_of(part)] = name_of(alike.pop(0))
    return found


def _of_kind(parts: Sequence[PartDefinition], kind: PartKind) -> list[PartDefinition]:
    return [part for part in parts if part.kind is kind]


def _as_defined(part: PartDefinition) -> object:
    return part.text, part.dependencies, part.ranges


def _rate(part: PartDefinition) -> object:
    return part.query.rate if part.query is not None and part.query.rate else None


def _whole(part: PartDefinition) -> object:
    return part.query.whole if part.query is not None and part.query.whole else None


def _rows(part: PartDefinition) -> object:
    return part.query.held if part.query is not None and part.query.rows is not None else None


def name_of(part: PartDefinition) -> PartName:
    """Return the name of `part`."""
    return PartName(part.kind, part.name)


def _difference(saved: PartDefinition, present: PartDefinition | None) -> LossReason | None:
    if present is None:
        return LossReason.GONE
    if (saved.text, saved.ranges, saved.partition) != (present.text, present.ranges, present.partition):
        return LossReason.CHANGED
    return None if saved.dependencies == present.dependencies else LossReason.DEPENDENCIES_CHANGED
