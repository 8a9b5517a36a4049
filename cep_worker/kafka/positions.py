"""Where a partition is read from. Pure.

The worker's log determines how far a partition is read; with each batch the log keeps its origin, whose number holds
the offset of the batch's last message. What is committed to Kafka is for lag tools, and for a worker that takes a
partition over from another one: it has a mark, so that offsets that other consumers committed under the group are not
used.

    number of an origin    generation (15 bits) │ offset (48 bits)

A partition whose offsets start again (its topic was deleted and created again) is of the next generation: the log would
take its messages for those that it has.
"""

from __future__ import annotations

from dataclasses import dataclass
from hashlib import blake2b
from typing import Literal, NamedTuple

from cep_worker.storage.records import SOURCE_BYTES

_OFFSET_BITS = 48
_MARK = "cep"

Reset = Literal["earliest", "latest", "none"]


class Position(NamedTuple):
    """The offset that is read next; later generations are behind earlier ones."""

    generation: int
    offset: int

    def number(self) -> int:
        """Return what the origin of the batch that ends before the position has as its number."""
        return (self.generation << _OFFSET_BITS) + self.offset - 1

    @classmethod
    def behind(cls, number: int) -> Position:
        """Return the position behind the batch whose origin has the number."""
        generation = (number + 1) >> _OFFSET_BITS
        return cls(generation, number + 1 - (generation << _OFFSET_BITS))


@dataclass(frozen=True, slots=True)
class KnownPosition:
    """The known positions of a partition when it is assigned.

    Its `low` and `high` offsets, how far the worker's log has it (`own`), and what is committed under the group, with
    our mark or without. `wanted` is the starting offset that the plan sets.
    """

    low: int
    high: int
    own: Position | None = None
    marked: Position | None = None
    unmarked: int | None = None
    wanted: int | None = None
    generation: int = 0
    """Positions of earlier generations belong to a former topic of the name."""


@dataclass(frozen=True, slots=True)
class Start:
    """Where reading starts; `lost` messages are no longer there, and `note` says what a user should know."""

    position: Position
    lost: int = 0
    note: str = ""


class OutOfRangeError(Exception):
    """There is no message at the position, and `auto.offset.reset` is none."""


def start(known: KnownPosition, reset: Reset) -> Start:
    """Decide where to read a partition from. Raises OutOfRangeError."""
    ever = [one for one in (known.own, known.marked) if one is not None]
    read = [one for one in ever if one.generation >= known.generation]
    if read:
        return in_range(max(read), known.low, known.high, reset)
    if ever:
        again = f"the topic was deleted and created again since it was read up to offset {max(ever).offset}"
        if reset == "none":
            raise OutOfRangeError(f"{again}, and auto.offset.reset is none")
        offset = known.high if reset == "latest" else known.low
        skipped = offset - known.low
        return Start(Position(known.generation, offset), skipped, f"{again}; it continues at {offset}")
    note = ""
    if known.wanted is not None:
        offset = known.wanted
    elif known.unmarked is not None:
        offset = known.unmarked
        note = f"it continues at offset {offset}, which another consumer of the group committed"
    elif reset == "none":
        raise OutOfRangeError("it was never read, and auto.offset.reset is none")
    else:
        offset = known.high if reset == "latest" else known.low
    found = in_range(Position(known.generation, offset), known.low, known.high, reset)
    return Start(found.position, found.lost, found.note or note)


def in_range(position: Position, low: int, high: int, reset: Reset) -> Start:
    """Return the position if there are messages from there on or will be, else where `reset` says."""
    generation, offset = position
    if low <= offset <= high:
        return Start(position)
    gone = f"offset {offset} is out of range, the partition has {low} to {high}"
    if reset == "none":
        raise OutOfRangeError(f"{gone}, and auto.offset.reset is none")
    target = high if reset == "latest" else low
    if offset < low:
        lost = target - offset
        why = f"{lost} messages were deleted before they were read (retention)"
        return Start(Position(generation, target), lost, f"{gone}: {why}; it continues at {target}")
    why = "the topic was created again or truncated"
    return Start(Position(generation + 1, target), 0, f"{gone}: {why}; it continues at {target}")


def source_of(plan: str, stream: str, topic: str, partition: int, cluster: str = "") -> bytes:
    """By what the log knows the batches of a partition.

    `cluster` is the id of the brokers' cluster. Without one it is what batches had before positions were of a cluster.
    """
    text = "\0".join(("kafka", plan, stream, topic, str(partition), *([cluster] if cluster else [])))
    return blake2b(text.encode(), digest_size=SOURCE_BYTES).digest()


def mark(plan: str, stream: str, generation: int) -> str:
    """Return the metadata with which a position is committed."""
    return f"{_MARK} {_digest(plan, stream)} {generation}"


def marked_position(plan: str, stream: str, metadata: str | None, offset: int) -> Position | None:
    """Return the position that was committed with `metadata`; None if it is not ours."""
    parts = (metadata or "").split(" ")
    if len(parts) != 3 or parts[:2] != [_MARK, _digest(plan, stream)] or not parts[2].isdecimal():
        return None
    return Position(int(parts[2]), offset)


def _digest(plan: str, stream: str) -> str:
    return blake2b(f"{plan}\0{stream}".encode(), digest_size=16).hexdigest()
