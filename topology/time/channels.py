"""The channels of a merger: their streams, the watermark of each, and which of them are waited for. Pure.

A channel that others wait for and that stays silent for `idle_ms` from then on no longer holds them back. One that is
ahead of the others is not waited for: it may be silent because its rows, held here, fill its window.

Before the first message, each known source of a stream is waited for like a silent channel. Streams of which the
`first` event is awaited hold everything back until it comes, however long that takes.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

import msgspec

from topology.events.bundle import Bundle
from topology.events.watermarks import END_OF_TIME, NO_WATERMARK

Bound = tuple[int, int]
"""(watermark, rank) up to which rows may be released."""


@dataclass(slots=True)
class _Channel:
    rank: int
    watermark_ms: int = NO_WATERMARK
    idle: bool = False
    heard_ms: int = 0
    full: bool = False
    """Its sender may send no more until rows are settled."""
    waited_for_ms: int | None = None
    """Since when rows have been held back for this channel."""


_Key = tuple[str, str, tuple[str, ...]]
"""A channel: its source, its name there, and those of its streams that are merged. One without a name represents all
that an instance, or a component of which one instance is enough, has not opened yet."""


class HeldChannel(msgspec.Struct, frozen=True, array_like=True):
    """A channel in a snapshot."""

    origin: str
    name: str
    streams: tuple[str, ...]
    watermark_ms: int
    idle: bool


class Channels:
    """`origins` as in `EventTimeMerger`; `ranks` determine which of two streams precedes the other at the same time."""

    def __init__(
        self,
        origins: Mapping[str, Mapping[str, str]],
        ranks: Mapping[str, int],
        idle_ms: int,
        first: Collection[str],
        now_ms: int,
    ) -> None:
        self._origins = origins
        self._ranks = ranks
        self._idle_ms = idle_ms
        self._first = dict.fromkeys(stream for stream in origins if stream in first)
        self._channels: dict[_Key, _Channel] = {}
        self._await_others(now_ms)
        self.let_go: list[str] = []
        """Channels whose wait timed out, until the owner clears them."""

    def note(self, bundle: Bundle, streams: tuple[str, ...], now_ms: int) -> None:
        """Apply the watermark of `bundle` for `streams`, which are merged."""
        key = (bundle.origin, bundle.channel, streams)
        channel = self._channels.get(key)
        if channel is None:
            awaited = self._origins[streams[0]].get(bundle.origin, bundle.origin)
            channel = self._channels.pop((awaited, bundle.channel, streams), None)
            self._channels[key] = channel = channel or self._new(streams, now_ms)
            for stream in streams:
                self._channels.pop((awaited, "", (stream,)), None)
        channel.watermark_ms = max(channel.watermark_ms, bundle.watermark_ms)
        channel.idle, channel.full = bundle.idle, bundle.full
        channel.heard_ms = now_ms
        if self._first and (bundle.watermark_ms > NO_WATERMARK or bundle.rows()):
            self.begin(streams)

    def begin(self, streams: Iterable[str]) -> None:
        """Stop waiting for the first event of these streams."""
        for stream in streams:
            self._first.pop(stream, None)

    def bound(self) -> Bound:
        """Return the bound set by the slowest channel; END_OF_TIME when no channel is awaited."""
        holding = [(channel.watermark_ms, channel.rank) for channel in self._channels.values() if not channel.idle]
        holding += [(NO_WATERMARK, self._ranks[stream]) for stream in self._first]
        return min(holding, default=(END_OF_TIME, len(self._ranks)))

    def choked(self) -> frozenset[tuple[str, str]]:
        """Return the channels that hold time back and cannot send what would move it: (origin, channel) of each."""
        full = [(key, channel) for key, channel in self._channels.items() if channel.full and not channel.idle]
        if not full:
            return frozenset()
        bound_ms, _ = self.bound()
        return frozenset((origin, name) for (origin, name, _), channel in full if channel.watermark_ms <= bound_ms)

    def note_waiting(self, first: Bound | None, now_ms: int) -> None:
        """Mark the channels that are awaited: those that hold back even `first`, the next item."""
        for channel in self._channels.values():
            if first is None or (channel.watermark_ms, channel.rank) >= first:
                channel.waited_for_ms = None
            elif channel.waited_for_ms is None:
                channel.waited_for_ms = now_ms

    def next_deadline_ms(self) -> int | None:
        """Return when a silent channel stops holding others back."""
        deadlines = (self._deadline(channel) for channel in self._channels.values())
        return min((deadline for deadline in deadlines if deadline is not None), default=None)

    def clock_was_set(self, by_ms: int) -> None:
        """Adjust deadlines after the time of day was set forward by so much (negative: back)."""
        for channel in self._channels.values():
            channel.heard_ms += by_ms
            if channel.waited_for_ms is not None:
                channel.waited_for_ms += by_ms

    def on_time(self, now_ms: int) -> None:
        """Stop waiting for channels that have been silent for too long."""
        for (origin, name, streams), channel in self._channels.items():
            deadline_ms = self._deadline(channel)
            if deadline_ms is not None and deadline_ms <= now_ms:
                channel.idle = True
                self.let_go.append(name or f"{origin}/{','.join(streams)}")

    def awaited(self) -> tuple[str, ...]:
        """Return the streams whose first event is awaited."""
        return tuple(self._first)

    def behind(self) -> tuple[str, ...]:
        """Return the channels that hold others back: which source has which stream."""
        found = [
            name if "/" in name else f"{name or origin}/{','.join(streams)}"
            for (origin, name, streams), channel in self._channels.items()
            if not channel.idle
        ]
        return tuple(dict.fromkeys(found))

    def held(self) -> tuple[HeldChannel, ...]:
        """Return the channels, for a snapshot."""
        return tuple(HeldChannel(*key, one.watermark_ms, one.idle) for key, one in self._channels.items())

    def restore(self, held: Iterable[HeldChannel], begun: Collection[str], now_ms: int) -> None:
        """Wait for the restored channels as for those that have not spoken yet, except for those of removed instances.

        They may now connect to another receiver. Streams in `begun` have had their first event.
        """
        self._channels = {}
        self.begin(begun)
        for channel in held:
            if channel.watermark_ms > NO_WATERMARK:
                self.begin(channel.streams)
            self._restore(channel, now_ms)
        self._await_others(now_ms)

    def _deadline(self, channel: _Channel) -> int | None:
        if channel.idle or channel.waited_for_ms is None:
            return None
        return max(channel.heard_ms, channel.waited_for_ms) + self._idle_ms

    def _restore(self, held: HeldChannel, now_ms: int) -> None:
        streams = tuple(stream for stream in held.streams if stream in self._origins)
        heard_as = {origin: awaited for stream in streams for origin, awaited in self._origins[stream].items()}
        awaited = heard_as.get(held.origin, held.origin)
        if awaited not in heard_as.values():
            awaited = held.origin.rpartition("#")[0]  # a lost receiver: its workers connect to the others
        if awaited in heard_as.values():
            former = self._channels.get((awaited, held.name, streams))
            channel = former or self._new(streams, now_ms, idle=True)
            channel.watermark_ms = max(channel.watermark_ms, held.watermark_ms)
            # An idle worker may have sent events since, and resends them; channels that were never opened stay idle.
            channel.idle = channel.idle and held.idle and not held.name
            self._channels[awaited, held.name, streams] = channel

    def _await_others(self, now_ms: int) -> None:
        """Wait for all sources without a known channel."""
        known = {(origin, stream) for origin, _, streams in self._channels for stream in streams}
        for stream, heard_as in self._origins.items():
            for awaited in dict.fromkeys(heard_as.values()):
                if (awaited, stream) not in known:
                    self._channels[awaited, "", (stream,)] = self._new((stream,), now_ms)

    def _new(self, streams: Iterable[str], now_ms: int, *, idle: bool = False) -> _Channel:
        return _Channel(min(self._ranks[stream] for stream in streams), idle=idle, heard_ms=now_ms)
