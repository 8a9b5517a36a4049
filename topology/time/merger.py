"""Merges streams in one order by their channels' watermarks. Pure: times come in as arguments.

    Arrivals   ──10──20────────▶  watermark 20
    Departures ──10──────30──▶    watermark 30
    merged       A10 D10 A20      (D30 waits: an arrival at 20…30 may still come)

With event time, rows are ordered by it; at equal times by the order in which the streams are defined, then by arrival.
Under the system clock they are ordered by the processing time at which they were accepted, then by arrival.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import msgspec
import numpy as np
import numpy.typing as npt
import pyarrow as pa

from cep_common.protocol.links import StreamSchema
from siddhi.column_names import TIMESTAMP
from topology.errors import STATE_UNREADABLE, TopologyError
from topology.events.bundle import Bundle
from topology.events.conversion import attributes_of, conversion_problem, converted
from topology.events.frames import CLOCK, arrow_schema, concatenate, decode_batch, encode_batch, has_clocks, with_clocks
from topology.events.watermarks import END_OF_TIME, NO_WATERMARK
from topology.time.channels import Channels, HeldChannel

Order = npt.NDArray[np.int64]

_ARRIVAL_BITS = 20
"""Under the system clock a row's place is its processing time, followed by so many bits of its number of arrival."""
_ARRIVALS = 1 << _ARRIVAL_BITS

_PIECE_ROWS = 4_096
"""The rows up to which small waiting batches are joined: a batch of one row needs a hundred times the memory of its
row, and a release checks each batch."""
_FEW_BATCHES = 64
"""The number of waiting batches from which small ones are joined."""


@dataclass(frozen=True, slots=True)
class MergedStep:
    """Rows that may be processed now.

    There is a batch for each stream (non-decreasing in time), and each row's place among all rows of the step (0 …),
    strictly increasing within a stream. `watermark_ms` holds for what comes later. `finished` are the bundles, once
    for each of their batches, of which no row is held any more: settle them when the rows have been passed on.
    `more`: others are ready as well.
    """

    batches: tuple[tuple[str, pa.RecordBatch], ...]
    orders: tuple[Order, ...]
    watermark_ms: int
    finished: tuple[Bundle, ...]
    more: bool = False

    def clocks(self) -> Order:
        """Return the processing time of each row of the step, in the step's order; only under the system clock."""
        clocks = np.empty(sum(len(order) for order in self.orders), dtype=np.int64)
        for (_, batch), order in zip(self.batches, self.orders, strict=True):
            clocks[order] = batch.column(CLOCK).to_numpy() >> _ARRIVAL_BITS
        return clocks

    def sources(self) -> Order:
        """Return which of `batches` each row of the step comes from, in the step's order."""
        sources = np.empty(sum(len(order) for order in self.orders), dtype=np.int64)
        for place, order in enumerate(self.orders):
            sources[order] = place
        return sources


@dataclass(slots=True)
class _Pending:
    """Rows of one stream that wait: (first place, batch), in order of arrival.

    The first of them is at the place `earliest`. A heap holds (last place, number, bundle) of the batches that they
    came in.
    """

    rank: int
    batches: list[tuple[int, pa.RecordBatch]] = field(default_factory=list)
    earliest: int = END_OF_TIME
    holders: list[tuple[int, int, Bundle]] = field(default_factory=list)
    most_batches: int = _FEW_BATCHES
    """With more batches than these, small ones are joined."""

    def add(self, first: int, batch: pa.RecordBatch) -> None:
        """Hold a batch whose first row is at the place `first`."""
        self.batches.append((first, batch))
        self.earliest = min(self.earliest, first)
        if len(self.batches) > self.most_batches:
            self._join()

    def _join(self) -> None:
        """Join small batches that came one after another.

        The number from which this is done again is doubled, so that few rows are copied more than once.
        """
        joined: list[tuple[int, pa.RecordBatch]] = []
        group: list[tuple[int, pa.RecordBatch]] = []
        rows = 0
        for one in self.batches:
            if group and rows + one[1].num_rows > _PIECE_ROWS:
                joined.append(_one_of(group))
                group, rows = [], 0
            group.append(one)
            rows += one[1].num_rows
        joined.append(_one_of(group))
        self.batches = joined
        self.most_batches = 2 * len(joined) + _FEW_BATCHES


class _HeldBatch(msgspec.Struct, frozen=True, array_like=True):
    """`attributes` are those that the stream had; none: an earlier version did not store it."""

    stream: str
    rows: int
    body: bytes
    attributes: tuple[tuple[str, str], ...] = ()

    @classmethod
    def of(cls, stream: str, batch: pa.RecordBatch) -> _HeldBatch:
        return cls(stream, batch.num_rows, encode_batch(batch).to_pybytes(), attributes_of(batch.schema))

    def batch(self, schema: pa.Schema) -> pa.RecordBatch | None:
        """Return the rows in the stream's present schema, None when they cannot be converted. Raise DecodeError."""
        has = attributes_of(schema)
        if not self.attributes or self.attributes == has:
            return decode_batch(self.body, schema, self.rows)
        had = decode_batch(self.body, arrow_schema(StreamSchema(self.stream, self.attributes)), self.rows)
        return None if conversion_problem(self.attributes, has) else converted(had, has)


class _HeldState(msgspec.Struct, frozen=True, array_like=True):
    """Rows that wait, the channels that they may wait for, and the streams that have had their first event."""

    released_ms: int
    channels: tuple[HeldChannel, ...]
    batches: tuple[_HeldBatch, ...]
    begun: tuple[str, ...] = ()


class EventTimeMerger:
    """Merges bundles in order of event time.

    `origins` are the inputs in order of definition, each with the instances that bring it and the source as which
    each is awaited: see `Topology.origins`. `late` counts rows by stream that came behind the time until which others
    had been released; with `drop_late` they are dropped, else processed on arrival. The `first` event of these
    streams is awaited without limit. With `by_clock` rows are released by processing time, that of `Bundle.clock_ms`
    or a batch's own.
    """

    def __init__(
        self,
        origins: Mapping[str, Mapping[str, str]],
        idle_ms: int,
        drop_late: bool = False,
        now_ms: int = 0,
        first: Collection[str] = (),
        by_clock: bool = False,
    ) -> None:
        self._by_clock = by_clock
        self._ranks = {stream: 0 if by_clock else rank for rank, stream in enumerate(origins)}
        self._pending = {stream: _Pending(self._ranks[stream]) for stream in origins}
        self._drop_late = drop_late
        self.channels = Channels(origins, self._ranks, idle_ms, first, now_ms)
        self._released_ms = NO_WATERMARK
        self._pushed_batches = 0
        self._arrived = 0
        self._unseen = False
        """Whether rows are held again for which the awaited channels have not been determined yet."""
        self.held_rows = 0
        self.late: dict[str, int] = {}
        self.left: tuple[str, ...] = ()
        """Rows that were held, and that an edit of their stream has made impossible, for people."""

    @property
    def late_rows(self) -> int:
        """Return the number of late rows of all streams."""
        return sum(self.late.values())

    def hear(self, bundle: Bundle, now_ms: int) -> None:
        """Apply the watermark of a bundle."""
        streams = tuple(stream for stream in bundle.streams if stream in self._ranks)
        if streams:
            self.channels.note(bundle, streams, now_ms)

    def push(self, bundle: Bundle, now_ms: int) -> None:
        """Accept a bundle, whose batches are of the merged streams, and hold it until its rows are released."""
        self.hear(bundle, now_ms)
        self.hold(bundle, now_ms)

    def hold(self, bundle: Bundle, now_ms: int) -> None:
        """Hold the rows of a bundle that was heard."""
        for stream, batch in bundle.batches:
            if batch.num_rows:
                placed = self._placed(batch, bundle.clock_ms, now_ms) if self._by_clock else batch
                self._hold(self._pending[stream], placed, bundle)
        bundle.settle()

    def release(self, now_ms: int, wanted_ms: int | None = None, most_rows: int | None = None) -> MergedStep | None:
        """Return the rows that may be processed now, or None.

        Args:
            now_ms: The time of day.
            wanted_ms: A time that is due and for which channels that hold it back are waited for, as for rows.
            most_rows: Release about so many rows at most, the first ones; all of one time go together.
        """
        self._unseen = False
        watermark_ms, rank = self.channels.bound()
        most_ms = self._time_of_row(most_rows) if most_rows is not None and self.held_rows > most_rows else None
        more = most_ms is not None and most_ms < watermark_ms
        if more and most_ms is not None:
            watermark_ms = most_ms
        parts: list[tuple[str, pa.RecordBatch, Order]] = []
        finished: list[Bundle] = []
        for stream, pending in self._pending.items():
            last = self._last_place(watermark_ms, pending.rank <= rank)
            if not pending.batches or pending.earliest > last:
                continue
            batch = self._take(stream, pending, last)
            while pending.holders and pending.holders[0][0] <= last:
                finished.append(heapq.heappop(pending.holders)[2])
            if batch is not None:
                parts.append((stream, batch, self._places(batch)))
        self._note_waiting(now_ms, wanted_ms)
        if not parts:
            self._note_released(watermark_ms)
            for bundle in finished:
                bundle.settle()
            return None
        self._note_released(max(self._time_of(int(places[-1])) for _, _, places in parts))
        self._note_released(watermark_ms)
        batches = tuple((stream, batch) for stream, batch, _ in parts)
        return MergedStep(batches, _common_order(parts), watermark_ms, tuple(finished), more)

    def watermark_ms(self) -> int:
        """Later rows have at least this time; END_OF_TIME when every channel is idle."""
        return self.channels.bound()[0]

    def next_deadline_ms(self) -> int | None:
        """Return when a silent channel stops holding rows back, or None when nothing waits.

        The time is past when rows were restored, which wait for the next `release`.
        """
        return 0 if self._unseen else self.channels.next_deadline_ms()

    def on_time(self, now_ms: int) -> None:
        """Stop waiting for channels that have been silent for too long; `release` returns what they held back."""
        self.channels.on_time(now_ms)

    def passed(self, time_ms: int) -> None:
        """Record that time has advanced to `time_ms`, so that earlier rows are late."""
        self._released_ms = max(self._released_ms, time_ms)

    def settle_held(self) -> None:
        """Settle the bundles whose rows are held: the rows are part of a state that is transferred."""
        for pending in self._pending.values():
            for _, _, bundle in pending.holders:
                bundle.settle()
            pending.holders.clear()

    def settle_choked(self) -> bool:
        """Settle what is held of a channel whose own held rows keep it from sending a later watermark.

        Its sources are further apart than its window. The rows stay here, as part of the state, and it goes on sending.

        Returns:
            Whether there is such a channel.
        """
        choked = self.channels.choked()
        if not choked:
            return False
        for pending in self._pending.values():
            others = []
            for holder in pending.holders:
                bundle = holder[2]
                if (bundle.origin, bundle.channel) in choked:
                    bundle.settle()
                else:
                    others.append(holder)
            heapq.heapify(others)
            pending.holders = others
        return True

    def snapshot(self) -> bytes:
        """Return the held rows, and how far each channel had come."""
        awaited = self.channels.awaited()
        state = _HeldState(
            self._released_ms,
            self.channels.held(),
            tuple(
                _HeldBatch.of(stream, batch)
                for stream, pending in self._pending.items()
                for _, batch in pending.batches
            ),
            tuple(stream for stream in self._pending if stream not in awaited),
        )
        return msgspec.msgpack.encode(state)

    def restore(self, state: bytes, schemas: Mapping[str, pa.Schema], now_ms: int) -> None:
        """Restore what `snapshot` returned.

        The channels are awaited like those that have not spoken yet, whichever receiver they come to now, except for
        those of removed instances. Raises TopologyError when `state` is invalid, DecodeError when a batch of it is.
        """
        held = _decoded(state)
        self._released_ms = held.released_ms
        self.channels.restore(held.channels, held.begun, now_ms)
        for one in held.batches:
            if one.stream not in self._pending:
                raise TopologyError(STATE_UNREADABLE, f"the state has rows of {one.stream}, not an input of the stage")
            batch = one.batch(schemas[one.stream])
            if batch is None:
                problem = conversion_problem(one.attributes, attributes_of(schemas[one.stream]))
                self.left += (f"{one.rows} events of {one.stream} that waited for their turn: {problem}",)
                continue
            if self._by_clock and batch.column(CLOCK).null_count:  # they waited under event time, before an edit
                batch = self._placed(batch.drop_columns([CLOCK]), NO_WATERMARK, now_ms)
            places = self._places(batch)
            self._pending[one.stream].add(int(places.min()), batch)
            if self._by_clock:
                self._arrived = max(self._arrived, int((places & (_ARRIVALS - 1)).max()) + 1)
            self.held_rows += one.rows
        self._unseen = self.held_rows > 0

    # ---- places: a row's time, under the system clock followed by its number of arrival

    def _placed(self, batch: pa.RecordBatch, clock_ms: int, now_ms: int) -> pa.RecordBatch:
        """Return `batch` with the place of each row in the order of processing, instead of its processing time."""
        if has_clocks(batch):
            clocks = np.minimum(batch.column(CLOCK).to_numpy(), now_ms)
            batch = batch.drop_columns([CLOCK])
        else:
            clocks = np.full(batch.num_rows, min(clock_ms, now_ms) if clock_ms > 0 else now_ms, dtype=np.int64)
        if not self.held_rows:
            self._arrived = 0  # so that the count does not wrap among batches of one millisecond that are held
        arrival = self._arrived % _ARRIVALS
        self._arrived += 1
        return with_clocks(batch, pa.array((clocks << _ARRIVAL_BITS) + arrival))

    def _places(self, batch: pa.RecordBatch) -> Order:
        places: Order = batch.column(CLOCK if self._by_clock else TIMESTAMP).to_numpy()
        return places

    def _time_of(self, place: int) -> int:
        return place >> _ARRIVAL_BITS if self._by_clock else place

    def _last_place(self, watermark_ms: int, goes_first: bool) -> int:
        """Return the last place that may be released when the bound is at `watermark_ms`."""
        if watermark_ms == END_OF_TIME or not self._by_clock:
            return watermark_ms if goes_first else watermark_ms - 1
        return max(NO_WATERMARK, ((watermark_ms + 1) << _ARRIVAL_BITS) - 1)

    def _time_of_row(self, number: int) -> int:
        """Return the time of row `number` (0 …) of those that are held, in the order of their places."""
        places = np.concatenate([self._places(one) for held in self._pending.values() for _, one in held.batches])
        return self._time_of(int(np.partition(places, number)[number]))

    def _note_released(self, time_ms: int) -> None:
        if time_ms != END_OF_TIME:
            self._released_ms = max(self._released_ms, time_ms)

    def _note_waiting(self, now_ms: int, wanted_ms: int | None) -> None:
        """Channels are waited for until the time of the first waiting row, or of what is due."""
        firsts = [(self._time_of(one.earliest), one.rank) for one in self._pending.values() if one.batches]
        if wanted_ms is not None:
            firsts.append((wanted_ms, 0))
        self.channels.note_waiting(min(firsts, default=None), now_ms)

    def _hold(self, pending: _Pending, batch: pa.RecordBatch, bundle: Bundle) -> None:
        places = self._places(batch)
        pending.add(int(places.min()), batch)
        self.held_rows += batch.num_rows
        if bundle.receipt is not None:
            bundle.hold()
            self._pushed_batches += 1
            heapq.heappush(pending.holders, (int(places.max()), self._pushed_batches, bundle))

    def _take(self, stream: str, pending: _Pending, last: int) -> pa.RecordBatch | None:
        """Remove and return the rows of `stream` up to the place `last`, by time, then by arrival."""
        ready: list[pa.RecordBatch] = []
        waiting: list[tuple[int, pa.RecordBatch]] = []
        for one in pending.batches:
            if one[0] > last:
                waiting.append(one)
                continue
            goes = self._places(one[1]) <= last
            size = int(goes.sum())
            if goes[:size].all():  # as where rows come in the order of time: nothing is copied
                part, rest = one[1].slice(0, size), one[1].slice(size)
            else:
                part, rest = one[1].filter(pa.array(goes)), one[1].filter(pa.array(~goes))
            ready.append(part)
            if rest.num_rows:
                waiting.append((int(self._places(rest).min()), rest))
        pending.batches = waiting
        pending.earliest = min((first for first, _ in waiting), default=END_OF_TIME)
        batch = concatenate(ready)
        places, count = self._places(batch), batch.num_rows
        if count > 1 and (places[1:] < places[:-1]).any():
            order = np.argsort(places, kind="stable")
            batch, places = batch.take(pa.array(order)), places[order]
        self.held_rows -= count
        behind = self._released_ms << _ARRIVAL_BITS if self._by_clock else self._released_ms
        late = int(np.searchsorted(places, max(behind, NO_WATERMARK), side="left"))
        if late:
            self.late[stream] = self.late.get(stream, 0) + late
        start = late if self._drop_late else 0
        return batch.slice(start, count - start) if count > start else None


def _one_of(group: Sequence[tuple[int, pa.RecordBatch]]) -> tuple[int, pa.RecordBatch]:
    """Return batches that came one after another as one, with its first place."""
    if len(group) == 1:
        return group[0]
    return min(first for first, _ in group), concatenate([batch for _, batch in group])


def held_streams(state: bytes) -> set[str]:
    """Return the streams of which the `state` of a merger holds rows. Raise TopologyError when it is invalid."""
    return {batch.stream for batch in _decoded(state).batches}


def share_out(
    states: Sequence[bytes],
    schemas: Mapping[str, pa.Schema],
    everywhere: Collection[str],
    share: Callable[[str, pa.RecordBatch], Iterable[tuple[int, pa.RecordBatch]]],
    instances: int,
) -> list[bytes]:
    """Return the states of `instances` mergers that share the rows of `states`.

    `share` determines which of them get which rows of a stream. All mergers of a stage get the same channels, and all
    rows of the streams in `everywhere`.
    """
    held = [_decoded(state) for state in states]
    batches: list[list[_HeldBatch]] = [[] for _ in range(instances)]
    for number, one in enumerate(held):
        for batch in one.batches:
            if number > 0 and batch.stream in everywhere:
                continue
            rows = batch.batch(schemas[batch.stream])
            if rows is None:  # the instance that restores it reports the reason
                batches[0].append(batch)
                continue
            for index, part in share(batch.stream, rows):
                batches[index].append(_HeldBatch.of(batch.stream, part))
    released_ms = max(one.released_ms for one in held)
    shared = held[0].channels, held[0].begun
    return [msgspec.msgpack.encode(_HeldState(released_ms, shared[0], tuple(own), shared[1])) for own in batches]


def _decoded(state: bytes) -> _HeldState:
    try:
        return msgspec.msgpack.decode(state, type=_HeldState)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise TopologyError(STATE_UNREADABLE, f"the events that wait to be merged cannot be read: {error}") from error


def _common_order(parts: Sequence[tuple[str, pa.RecordBatch, Order]]) -> tuple[Order, ...]:
    """Each row's place among the rows of all parts, which stand in order of rank and are sorted by time."""
    if len(parts) == 1:
        return (np.arange(len(parts[0][2]), dtype=np.int64),)
    places = np.concatenate([part[2] for part in parts])
    order = np.empty(len(places), dtype=np.int64)
    order[np.argsort(places, kind="stable")] = np.arange(len(places))
    sizes = np.cumsum([len(part[2]) for part in parts])[:-1]
    return tuple(np.split(order, sizes))
