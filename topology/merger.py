"""Merges streams in event-time order by their channels' watermarks. Pure: times come in as arguments.

    Arrivals   ──10──20────────▶  watermark 20
    Departures ──10──────30──▶    watermark 30
    merged       A10 D10 A20      (D30 waits: an arrival at 20…30 may still come)

Rows go by event time; at equal times by the order in which the streams are defined, then by arrival. A channel that
others wait for and that stays silent for `idle_ms` from then on no longer holds them back. One that is ahead of the
others is not waited for: it may be silent because its rows, held here, fill its window.

Before anybody has spoken, each of those who are known to bring a stream is waited for like a channel that is silent.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import msgspec
import numpy as np
import numpy.typing as npt
import pyarrow as pa

from cep_common.link_messages import StreamSchema
from siddhi.column_names import TIMESTAMP
from topology.bundle import Bundle
from topology.conversion import attributes_of, conversion_problem, converted
from topology.errors import TopologyError
from topology.frames import arrow_schema, concatenate, decode_batch, encode_batch
from topology.link import END_OF_TIME, NO_WATERMARK

Order = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class MergedStep:
    """Rows that may be processed now: for each stream its batch (non-decreasing in time) and each row's place among all
    rows of the step (0 …), strictly increasing within a stream. `watermark_ms` holds for what comes later. `finished`
    are the bundles, once for each of their batches, of which no row is held any more: settle them when the rows have
    gone on."""

    batches: tuple[tuple[str, pa.RecordBatch], ...]
    orders: tuple[Order, ...]
    watermark_ms: int
    finished: tuple[Bundle, ...]

    def sources(self) -> Order:
        """Which of `batches` each row of the step comes from, in the step's order."""
        sources = np.empty(sum(len(order) for order in self.orders), dtype=np.int64)
        for place, order in enumerate(self.orders):
            sources[order] = place
        return sources


@dataclass(slots=True)
class _Channel:
    rank: int
    watermark_ms: int = NO_WATERMARK
    idle: bool = False
    heard_ms: int = 0
    waited_for_ms: int | None = None
    """Since when rows have been held back for this channel."""


@dataclass(slots=True)
class _Pending:
    """Rows of one stream that wait, in order of arrival, the first of them in time at `earliest_ms`; and a heap of
    (latest time, number, bundle) of the batches that they came in."""

    rank: int
    batches: list[pa.RecordBatch] = field(default_factory=list)
    earliest_ms: int = END_OF_TIME
    holders: list[tuple[int, int, Bundle]] = field(default_factory=list)


_Key = tuple[str, str, tuple[str, ...]]
"""A channel: who brings it, its name there, and those of its streams that are merged. One without a name stands for all
that an instance, or a component of which one instance is enough, has not opened yet."""


class _HeldChannel(msgspec.Struct, frozen=True, array_like=True):
    origin: str
    name: str
    streams: tuple[str, ...]
    watermark_ms: int
    idle: bool


class _HeldBatch(msgspec.Struct, frozen=True, array_like=True):
    """`attributes` are those that the stream had; none: an earlier version did not tell."""

    stream: str
    rows: int
    body: bytes
    attributes: tuple[tuple[str, str], ...] = ()

    @classmethod
    def of(cls, stream: str, batch: pa.RecordBatch) -> _HeldBatch:
        return cls(stream, batch.num_rows, encode_batch(batch).to_pybytes(), attributes_of(batch.schema))

    def batch(self, schema: pa.Schema) -> pa.RecordBatch | None:
        """Return the rows as the stream, of that schema, has them now; None when they cannot be so. Raises
        DecodeError."""
        has = attributes_of(schema)
        if not self.attributes or self.attributes == has:
            return decode_batch(self.body, schema, self.rows)
        had = decode_batch(self.body, arrow_schema(StreamSchema(self.stream, self.attributes)), self.rows)
        return None if conversion_problem(self.attributes, has) else converted(had, has)


class _HeldState(msgspec.Struct, frozen=True, array_like=True):
    """Rows that wait, and the channels that they may wait for."""

    released_ms: int
    channels: tuple[_HeldChannel, ...]
    batches: tuple[_HeldBatch, ...]


class EventTimeMerger:
    """`origins` are the inputs in order of definition, each with the instances that bring it, and as whom each of them
    is waited for: see `Topology.origins`. `late_rows` counts rows older than what was released before; with `drop_late`
    they are dropped, else processed as they come."""

    def __init__(
        self, origins: Mapping[str, Mapping[str, str]], idle_ms: int, drop_late: bool = False, now_ms: int = 0
    ) -> None:
        self._origins = origins
        self._ranks = {stream: rank for rank, stream in enumerate(origins)}
        self._pending = {stream: _Pending(rank) for rank, stream in enumerate(origins)}
        self._idle_ms = idle_ms
        self._drop_late = drop_late
        self._channels: dict[_Key, _Channel] = {}
        self._await_others(now_ms)
        self._released_ms = NO_WATERMARK
        self._pushed_batches = 0
        self._unseen = False
        """Rows are held again of which nobody has looked yet for whom they wait."""
        self.held_rows = 0
        self.late_rows = 0
        self.left: tuple[str, ...] = ()
        """Rows that were held, and that an edit of their stream has made impossible, for people."""

    def push(self, bundle: Bundle, now_ms: int) -> None:
        """Takes in a bundle, whose batches are of the merged streams; it is held until its rows are released."""
        streams = tuple(stream for stream in bundle.streams if stream in self._ranks)
        if streams:
            self._note_watermark(bundle, streams, now_ms)
        for stream, batch in bundle.batches:
            if batch.num_rows:
                self._hold(self._pending[stream], batch, bundle)
        bundle.settle()

    def release(self, now_ms: int) -> MergedStep | None:
        """The rows whose turn has come, or None when there are none."""
        self._unseen = False
        watermark_ms, rank = self._bound()
        parts: list[tuple[str, pa.RecordBatch, Order]] = []
        finished: list[Bundle] = []
        for stream, pending in self._pending.items():
            last_ms = watermark_ms if pending.rank <= rank else watermark_ms - 1
            if not pending.batches or pending.earliest_ms > last_ms:
                continue
            batch = self._take(pending, last_ms)
            while pending.holders and pending.holders[0][0] <= last_ms:
                finished.append(heapq.heappop(pending.holders)[2])
            if batch is not None:
                parts.append((stream, batch, batch.column(TIMESTAMP).to_numpy()))
        self._note_waiting(now_ms)
        if not parts:
            for bundle in finished:
                bundle.settle()
            return None
        self._released_ms = max(self._released_ms, *(int(times[-1]) for _, _, times in parts))
        batches = tuple((stream, batch) for stream, batch, _ in parts)
        return MergedStep(batches, _common_order(parts), watermark_ms, tuple(finished))

    def watermark_ms(self) -> int:
        """Later rows have at least this time; END_OF_TIME when every channel is idle."""
        return self._bound()[0]

    def next_deadline_ms(self) -> int | None:
        """When a silent channel stops holding rows back, or None when nothing waits; a time that is past when rows were
        restored, which wait from the next `release` on."""
        if self._unseen:
            return 0
        deadlines = (self._deadline(channel) for channel in self._channels.values())
        return min((deadline for deadline in deadlines if deadline is not None), default=None)

    def on_time(self, now_ms: int) -> None:
        """Stops waiting for channels that have been silent for too long; `release` gives what they held back."""
        for channel in self._channels.values():
            deadline_ms = self._deadline(channel)
            if deadline_ms is not None and deadline_ms <= now_ms:
                channel.idle = True

    def settle_held(self) -> None:
        """The bundles whose rows are held are settled: the rows are part of a state that goes elsewhere."""
        for pending in self._pending.values():
            for _, _, bundle in pending.holders:
                bundle.settle()
            pending.holders.clear()

    def snapshot(self) -> bytes:
        """What is held, and how far each channel had come."""
        state = _HeldState(
            self._released_ms,
            tuple(_HeldChannel(*key, one.watermark_ms, one.idle) for key, one in self._channels.items()),
            tuple(
                _HeldBatch.of(stream, batch) for stream, pending in self._pending.items() for batch in pending.batches
            ),
        )
        return msgspec.msgpack.encode(state)

    def restore(self, state: bytes, schemas: Mapping[str, pa.Schema], now_ms: int) -> None:
        """What `snapshot` told is held again; the channels that there were are waited for like those that have not
        spoken yet, whichever receiver they come to now, but for those of instances that are not there any more. Raises
        TopologyError when `state` is no such thing, DecodeError when a batch of it is not."""
        held = _decoded(state)
        self._released_ms = held.released_ms
        self._channels = {}
        for channel in held.channels:
            self._restore_channel(channel, now_ms)
        self._await_others(now_ms)
        for one in held.batches:
            if one.stream not in self._pending:
                raise TopologyError(
                    "state-unreadable", f"rows of {one.stream} are held, which is no input of the stage"
                )
            batch = one.batch(schemas[one.stream])
            if batch is None:
                problem = conversion_problem(one.attributes, attributes_of(schemas[one.stream]))
                self.left += (f"{one.rows} events of {one.stream} that waited for their turn: {problem}",)
                continue
            pending = self._pending[one.stream]
            pending.batches.append(batch)
            pending.earliest_ms = min(pending.earliest_ms, int(batch.column(TIMESTAMP).to_numpy().min()))
            self.held_rows += one.rows
        self._unseen = self.held_rows > 0

    def _deadline(self, channel: _Channel) -> int | None:
        if channel.idle or channel.waited_for_ms is None:
            return None
        return max(channel.heard_ms, channel.waited_for_ms) + self._idle_ms

    def _note_waiting(self, now_ms: int) -> None:
        """A channel is waited for while not even the first of the rows held may go before it moves."""
        first = min(((one.earliest_ms, one.rank) for one in self._pending.values() if one.batches), default=None)
        for channel in self._channels.values():
            if first is None or (channel.watermark_ms, channel.rank) >= first:
                channel.waited_for_ms = None
            elif channel.waited_for_ms is None:
                channel.waited_for_ms = now_ms

    def _hold(self, pending: _Pending, batch: pa.RecordBatch, bundle: Bundle) -> None:
        times = batch.column(TIMESTAMP).to_numpy()
        pending.batches.append(batch)
        pending.earliest_ms = min(pending.earliest_ms, int(times.min()))
        self.held_rows += batch.num_rows
        if bundle.receipt is not None:
            bundle.hold()
            self._pushed_batches += 1
            heapq.heappush(pending.holders, (int(times.max()), self._pushed_batches, bundle))

    def _restore_channel(self, held: _HeldChannel, now_ms: int) -> None:
        streams = tuple(stream for stream in held.streams if stream in self._origins)
        heard_as = {origin: awaited for stream in streams for origin, awaited in self._origins[stream].items()}
        awaited = heard_as.get(held.origin, held.origin)
        if awaited not in heard_as.values():
            awaited = held.origin.rpartition("#")[0]  # a receiver that is gone: its workers come to the others
        if awaited in heard_as.values():
            former = self._channels.get((awaited, held.name, streams))
            channel = former or self._new_channel(streams, now_ms, idle=True)
            channel.watermark_ms = max(channel.watermark_ms, held.watermark_ms)
            # A worker that rested may have sent since, and sends that again; what nobody had opened rests on.
            channel.idle = channel.idle and held.idle and not held.name
            self._channels[awaited, held.name, streams] = channel

    def _await_others(self, now_ms: int) -> None:
        """Everybody is waited for of whom no channel is known."""
        known = {(origin, stream) for origin, _, streams in self._channels for stream in streams}
        for stream, heard_as in self._origins.items():
            for awaited in dict.fromkeys(heard_as.values()):
                if (awaited, stream) not in known:
                    self._channels[awaited, "", (stream,)] = self._new_channel((stream,), now_ms)

    def _new_channel(self, streams: Iterable[str], now_ms: int, *, idle: bool = False) -> _Channel:
        return _Channel(min(self._ranks[stream] for stream in streams), idle=idle, heard_ms=now_ms)

    def _note_watermark(self, bundle: Bundle, streams: tuple[str, ...], now_ms: int) -> None:
        awaited = self._origins[streams[0]].get(bundle.origin, bundle.origin)
        key = (bundle.origin, bundle.channel, streams)
        channel = self._channels.get(key)
        if channel is None:
            channel = self._channels.pop((awaited, bundle.channel, streams), None)
            self._channels[key] = channel = channel or self._new_channel(streams, now_ms)
            for stream in streams:
                self._channels.pop((awaited, "", (stream,)), None)
        channel.watermark_ms = max(channel.watermark_ms, bundle.watermark_ms)
        channel.idle = bundle.idle
        channel.heard_ms = now_ms

    def _bound(self) -> tuple[int, int]:
        """(watermark, rank) of the channel that holds most: rows up to there may go."""
        holding = [(channel.watermark_ms, channel.rank) for channel in self._channels.values() if not channel.idle]
        return min(holding, default=(END_OF_TIME, len(self._ranks)))

    def _take(self, pending: _Pending, last_ms: int) -> pa.RecordBatch | None:
        """The rows up to `last_ms`, by time, arrival at equal times; the others stay."""
        batch = concatenate(pending.batches)
        times = batch.column(TIMESTAMP).to_numpy()
        if len(times) > 1 and (times[1:] < times[:-1]).any():
            place = np.argsort(times, kind="stable")
            batch, times = batch.take(pa.array(place)), times[place]
        count = int(np.searchsorted(times, last_ms, side="right"))
        pending.batches = [batch.slice(count)] if count < len(times) else []
        pending.earliest_ms = int(times[count]) if count < len(times) else END_OF_TIME
        self.held_rows -= count
        late = int(np.searchsorted(times[:count], self._released_ms, side="left"))
        self.late_rows += late
        start = late if self._drop_late else 0
        return batch.slice(start, count - start) if count > start else None


def share_out(
    states: Sequence[bytes],
    schemas: Mapping[str, pa.Schema],
    everywhere: Collection[str],
    share: Callable[[str, pa.RecordBatch], Iterable[tuple[int, pa.RecordBatch]]],
    instances: int,
) -> list[bytes]:
    """The states of `instances` mergers that hold what those of `states` held; `share` says which of them get which
    rows of a stream. All mergers of a stage are told the same of their channels, and have all of the streams in
    `everywhere`."""
    held = [_decoded(state) for state in states]
    batches: list[list[_HeldBatch]] = [[] for _ in range(instances)]
    for number, one in enumerate(held):
        for batch in one.batches:
            if number > 0 and batch.stream in everywhere:
                continue
            rows = batch.batch(schemas[batch.stream])
            if rows is None:  # the instance that restores it tells why
                batches[0].append(batch)
                continue
            for index, part in share(batch.stream, rows):
                batches[index].append(_HeldBatch.of(batch.stream, part))
    released_ms = max(one.released_ms for one in held)
    return [msgspec.msgpack.encode(_HeldState(released_ms, held[0].channels, tuple(own))) for own in batches]


def _decoded(state: bytes) -> _HeldState:
    try:
        return msgspec.msgpack.decode(state, type=_HeldState)
    except msgspec.DecodeError as error:
        raise TopologyError("state-unreadable", f"what waited to be merged cannot be read: {error}") from error


def _common_order(parts: Sequence[tuple[str, pa.RecordBatch, Order]]) -> tuple[Order, ...]:
    """Each row's place among the rows of all parts, which stand in order of rank and are sorted by time."""
    if len(parts) == 1:
        return (np.arange(len(parts[0][2]), dtype=np.int64),)
    times = np.concatenate([part[2] for part in parts])
    order = np.empty(len(times), dtype=np.int64)
    order[np.argsort(times, kind="stable")] = np.arange(len(times))
    sizes = np.cumsum([len(part[2]) for part in parts])[:-1]
    return tuple(np.split(order, sizes))
