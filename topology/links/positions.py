"""Read positions of a topology in workers' logs. Pure.

Positions survive links, and with checkpoints the topology's tasks: a sender that reconnects gets its position.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

import msgspec

from topology.errors import STATE_UNREADABLE, TopologyError


class LogPosition(msgspec.Struct, frozen=True, array_like=True):
    """The position up to which the log `log` was accepted."""

    log: str
    position: int


_ENCODER = msgspec.msgpack.Encoder(order="deterministic")
_DECODER = msgspec.msgpack.Decoder(dict[str, LogPosition])


@dataclass(slots=True)
class Positions:
    """The positions of the channels (sender and stream) that one receiver knows, and those that checkpoints contain.

    Each is stored under its log and channel: when a log was recreated, other receivers may know the former log.
    """

    taken: dict[str, LogPosition] = field(default_factory=dict)
    secured: dict[str, LogPosition] = field(default_factory=dict)
    unneeded: dict[str, LogPosition] = field(default_factory=dict)
    """The positions in all checkpoints that the topology may be restored from, except those of earlier attempts."""
    _marked: dict[int, dict[str, LogPosition]] = field(default_factory=dict)

    @classmethod
    def restored(cls, states: Iterable[bytes], secured: Iterable[bytes] | None = None) -> Positions:
        """Return the positions that any of several receivers had accepted.

        For a log that several receivers know, this is the farthest position. `secured` is the part that a checkpoint
        contains; None means all of it.

        Raises:
            TopologyError: When a state is invalid.
        """
        taken = _farthest(states)
        return cls(taken, dict(taken) if secured is None else _farthest(secured))

    def of(self, channel: str, log: str) -> int:
        """Return how far `log` was taken; 0 for a log that was recreated."""
        return _position(self.taken, channel, log)

    def secured_of(self, channel: str, log: str) -> int:
        """Return how far a checkpoint holds `log`."""
        return _position(self.secured, channel, log)

    def unneeded_of(self, channel: str, log: str) -> int:
        """Return how far every retained checkpoint holds `log`."""
        return _position(self.unneeded, channel, log)

    def take(self, channel: str, log: str, position: int) -> bool:
        """Record that `log` has been taken up to `position`; return False when it had been before."""
        # The sender keeps no log and cannot send again; everything it sends is new.
        if not log or not position:
            return True
        # resent after a lost link or a restart: accepting it twice would count its events twice
        if position <= self.of(channel, log):
            return False
        place = _place(channel, log)
        if place not in self.taken:
            # The channel has begun a new log; positions of the former one would only grow the state.
            self._forget_logs_of(channel)
        self.taken[place] = LogPosition(log, position)
        return True

    def snapshot(self) -> bytes:
        """Return what has been taken, as `restored` reads it."""
        return _ENCODER.encode(self.taken)

    def secured_snapshot(self) -> bytes:
        """Return the part that checkpoints contain, as `restored` reads it."""
        return _ENCODER.encode(self.secured)

    def mark(self, checkpoint: int) -> None:
        """Record that `checkpoint` holds what has been taken until now."""
        self._marked[checkpoint] = dict(self.taken)

    def complete(self, checkpoint: int, oldest: int = 0) -> None:
        """Record that `checkpoint` is complete, which secures its contents.

        Senders need not keep what the `oldest` retained checkpoint contains.
        """
        self.secured.update(self._marked.get(checkpoint, {}))
        self.unneeded.update(self._marked.get(oldest, {}))
        # Older marks can no longer become `unneeded`.
        self._marked = {number: marked for number, marked in self._marked.items() if number >= oldest}

    def abandon(self, checkpoint: int) -> None:
        """Discard `checkpoint`, which will not be completed."""
        self._marked.pop(checkpoint, None)

    def _forget_logs_of(self, channel: str) -> None:
        for place in [place for place in self.taken if place.partition("/")[2] == channel]:
            del self.taken[place]
            self.secured.pop(place, None)
            self.unneeded.pop(place, None)


def _place(channel: str, log: str) -> str:
    """Under what a position is kept; what a log is called has no slash in it."""
    return f"{log}/{channel}"


def _position(positions: Mapping[str, LogPosition], channel: str, log: str) -> int:
    known = positions.get(_place(channel, log))
    return known.position if known is not None else 0


def _farthest(states: Iterable[bytes]) -> dict[str, LogPosition]:
    found: dict[str, LogPosition] = {}
    for state in states:
        try:
            positions = _DECODER.decode(state)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            reason = f"the positions of a receiver cannot be read: {error}"
            raise TopologyError(STATE_UNREADABLE, reason) from error
        for place, position in positions.items():
            known = found.get(place)
            # After a change of the number of receivers several may know a log; the state contains whatever any of them
            # accepted.
            if known is None or known.position < position.position:
                found[place] = position
    return found
