"""An in-memory table: columns in which each row has a position, and hash indexes that find positions.

    place     0     1     2     3           alive   yes   no   yes   yes      (row 1 was deleted)
    symbol   'A'   'B'   'C'   'A'          index on symbol   A → 0, 3   C → 2

The primary key has an index; conditions that ask for equality have theirs made when they are built. An index costs a
row 8 bytes for each of its attributes and 32 more.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

import numpy as np

from siddhi.analysis import model
from siddhi.engine.columnar.batch import EventBatch
from siddhi.engine.columnar.column import DTYPES, Column, mask_or_none
from siddhi.engine.columnar.state_size import StateSize, held_bytes
from siddhi.engine.columnar.state_tree import CodeChange, Codes, State, codes_in, map_codes
from siddhi.engine.columnar.strings import StringPool
from siddhi.engine.jit.arrays import NO_POSITIONS, AnyArray, BoolArray, Int64Array
from siddhi.engine.jit.kernels import grown
from siddhi.engine.operators.base.scope import EVENT_TIMESTAMP
from siddhi.engine.operators.expressions.evaluation import Value
from siddhi.engine.operators.expressions.operators import NUMERIC
from siddhi.engine.operators.tables.hash_index import HashIndex
from siddhi.engine.operators.tables.history import History
from siddhi.engine.operators.tables.key_bits import key_rows
from siddhi.engine.operators.tables.pairs import Pairs
from siddhi.engine.operators.tables.prepared_writes import PreparedWrites
from siddhi.engine.operators.tables.write_kernels import LOG_LINES
from siddhi.language.ast import AttributeType

NO_VALIDITY: BoolArray = np.zeros((0, 0), dtype=np.bool_)
"""The mask of a table without nulls, except those that codes mark."""


class Table:
    """Rows are addressed by position; positions of deleted rows are reclaimed when they are more than half.

    Rows are found in order of insertion or, if one number is the whole primary key, in its order, as in Siddhi (where a
    Java tree map contains such rows). With `keeps_times` it also stores the timestamps of its rows, as
    `EVENT_TIMESTAMP`, beside their attributes.
    """

    def __init__(self, analysed: model.AnalysedTable, pool: StringPool) -> None:
        self.id = analysed.schema.id
        self.types = dict(analysed.schema.attributes)
        self.primary_key = analysed.primary_key
        self.indexed = frozenset(analysed.indexes)
        self.has_index = bool(analysed.primary_key or analysed.indexes)
        self.pool = pool
        self._number = self._number_of_key()
        self.used = 0
        self._count = 0
        self.alive: BoolArray = np.zeros(8, dtype=np.bool_)
        self.cells: Int64Array = np.zeros((0, 8), dtype=np.int64)
        self.valid: BoolArray = NO_VALIDITY
        self._values: dict[str, AnyArray] = {}
        self.keeps_times = False
        self._lay_out(8)
        self.history: History | None = None
        """The contents of the table at each moment of the current step, if they are read."""
        self.log: Int64Array = np.zeros((LOG_LINES, 64), dtype=np.int64)
        self._heads = self._tails = NO_POSITIONS
        self.prepared: dict[tuple[int, ...], PreparedWrites] = {}
        """The data that write loops need about their queries' plans."""
        self.indexes: dict[tuple[str, ...], HashIndex] = {}
        self.key = self.index_on(self.primary_key) if self.primary_key else None

    def _number_of_key(self) -> str | None:
        """Return the number that is the whole primary key, None when it is anything else."""
        first, *others = self.primary_key or ("",)
        return first if not others and self.types.get(first) in NUMERIC else None

    def __len__(self) -> int:
        return self._count

    @property
    def is_met_by_number(self) -> bool:
        """Whether rows are met in the order of their key, not in that of insertion."""
        return self._number is not None

    def keep_times(self) -> None:
        """Store the times at which rows arrive, in a table that is still empty."""
        if not self.keeps_times:
            self.keeps_times = True
            self._values = {}
            self._lay_out(8)

    # ---- memory

    @property
    def stored(self) -> dict[str, AttributeType]:
        """Return the values stored for each row, in their order in `cells`."""
        return {**self.types, EVENT_TIMESTAMP: AttributeType.LONG} if self.keeps_times else self.types

    def _lay_out(self, room: int) -> None:
        """Allocate memory for `room` rows, keeping their values.

        Values are in the low bytes of their cells, where compiled loops find them; objects have arrays of their own.
        """
        stored, before = self.stored, self._values
        cells: Int64Array = np.zeros((len(stored), room), dtype=np.int64)
        if before:
            kept = min(self.cells.shape[1], room)
            cells[:, :kept] = self.cells[:, :kept]
        self.cells, self._values = cells, {}
        for place, (name, type_) in enumerate(stored.items()):
            if type_ is AttributeType.OBJECT:
                self._values[name] = grown(before.get(name, np.zeros(0, dtype=object)), room)
            else:
                line = cells[place].view(DTYPES[type_])
                self._values[name] = line[:: len(line) // room]
        if self.valid.size:
            valid = np.ones((len(stored), room), dtype=np.bool_)
            valid[:, : min(self.valid.shape[1], room)] = self.valid[:, :room]
            self.valid = valid

    def make_room(self, count: int) -> None:
        """Provide room for `count` positions."""
        room = self.cells.shape[1]
        if count > room:
            self._lay_out(max(count, 2 * room))
        self.alive = grown(self.alive, self.cells.shape[1])

    def make_validity(self) -> None:
        """Make room for the marks of nulls."""
        if not self.valid.size:
            self.valid = np.ones(self.cells.shape, dtype=np.bool_)

    def _valid_of(self, name: str) -> BoolArray | None:
        """Return a mask of the values of `name` that are not null, None when no null was stored.

        Codes and objects mark nulls themselves.
        """
        if not self.valid.size or self._type_of(name) in (AttributeType.STRING, AttributeType.OBJECT):
            return None
        line: BoolArray = self.valid[self.line_of(name)]
        return line

    def line_of(self, name: str) -> int:
        """Return the line of `cells` with `name`."""
        return list(self.stored).index(name)

    def places(self) -> Int64Array:
        """Return the positions of all rows, in the order in which events meet them."""
        places = self._places()
        return places if self._number is None else places[self._values[self._number][places].argsort(kind="stable")]

    def _places(self) -> Int64Array:
        """Return the places of all rows, in order of insertion."""
        if self._count == self.used or self.history is not None:  # rows that are deleted existed earlier in this step
            return np.arange(self.used)
        return np.flatnonzero(self.alive[: self.used])

    def as_met(self, probes: Int64Array, places: Int64Array) -> Int64Array:
        """Return `places` of rows in the order in which each event meets its rows.

        They belong to events `probes`, which are non-decreasing.
        """
        if self._number is None or len(places) < 2:
            return places
        return places[np.lexsort((self._values[self._number][places], probes))]

    def column(self, name: str, places: Int64Array) -> Column:
        """Attribute `name` of the rows at `places`."""
        valid = self._valid_of(name)
        taken = None if valid is None else mask_or_none(valid[places])
        return Column(self._type_of(name), self.pool, self._values[name][places], taken)

    def _type_of(self, name: str) -> AttributeType:
        return AttributeType.LONG if name == EVENT_TIMESTAMP else self.types[name]

    def columns(self, places: Int64Array, names: Iterable[str] | None = None) -> dict[str, Column]:
        """Return the attributes `names` (all, without) of the rows at `places`."""
        return {name: self.column(name, places) for name in (self.types if names is None else names)}

    # ---- indexes

    def index_on(self, names: Sequence[str]) -> HashIndex:
        """Return the index on these attributes, which is created on first use."""
        wanted = tuple(name for name in self.types if name in names)
        index = self.indexes.get(wanted)
        if index is None:
            index = self.indexes[wanted] = HashIndex(wanted)
            places = self._places()
            index.add(places, self.keys_of(index, self.columns(places, wanted), len(places)))
        return index

    def known_index(self, names: Sequence[str]) -> HashIndex | None:
        """Return the index on the largest set of these attributes and on no others, None when there is none."""
        known = [index for index in self.indexes.values() if set(index.names) <= set(names)]
        return max(known, key=lambda index: len(index.names), default=None)

    def keys_of(self, index: HashIndex, columns: Mapping[str, Column], size: int) -> Int64Array:
        types = [self.types[name] for name in index.names]
        return key_rows([_value(columns[name]) for name in index.names], types, size, self.pool)[0]

    # ---- changes

    def insert(self, columns: Mapping[str, Column]) -> int:
        """Insert the rows of `columns`; return how many were not inserted because their primary key was in use."""
        size = len(next(iter(columns.values())))
        if self.key is not None:
            _, fresh = self.insert_missing(self.key, columns)
            return size - int(fresh.sum())
        self._append(columns, size)
        return 0

    def insert_missing(self, index: HashIndex, columns: Mapping[str, Column]) -> tuple[Int64Array, BoolArray]:
        """Insert the rows of `columns` whose key of `index`, the primary key's if there is one, is new.

        Return for each row the first place of its key, and whether it was inserted there.
        """
        size = len(next(iter(columns.values())))
        used = self.used
        places, fresh = index.first_or_add(self.keys_of(index, columns, size), used)
        if fresh.all():
            self._append(columns, size, index)
        elif fresh.any():
            rows = np.flatnonzero(fresh)
            self._append({name: column.take(rows) for name, column in columns.items()}, len(rows), index)
        return places, fresh

    def _append(self, columns: Mapping[str, Column], size: int, done: HashIndex | None = None) -> None:
        """Append rows; the index `done` contains them already."""
        start, stop = self.used, self.used + size
        self.make_room(stop)
        self.alive[start:stop] = True
        if self.keeps_times and EVENT_TIMESTAMP not in columns:
            columns = {**columns, EVENT_TIMESTAMP: self._no_times(size)}
        for name, values in self._values.items():
            values[start:stop] = columns[name].values
            self._set_valid(name, slice(start, stop), columns[name])
        self.used = stop
        self._count += size
        for index in self.indexes.values():
            if index is not done:
                index.add(np.arange(start, stop), self.keys_of(index, columns, size))

    def _no_times(self, size: int) -> Column:
        """Return the times of rows whose arrival is unknown, as Siddhi shows them."""
        return Column(AttributeType.LONG, self.pool, np.full(size, -1, dtype=np.int64))

    def _set_valid(self, name: str, places: slice | Int64Array, column: Column) -> None:
        """Record where the new values of `column` at `places` are null.

        Codes and objects mark nulls themselves.
        """
        if column.type in (AttributeType.STRING, AttributeType.OBJECT):
            return
        valid = column.valid
        if valid is not None:
            self.make_validity()
        if self.valid.size:
            self.valid[self.line_of(name), places] = True if valid is None else valid

    def delete(self, places: Int64Array) -> None:
        """Delete the rows at `places`, each named once."""
        if not len(places):
            return
        self.alive[places] = False
        self._count -= len(places)
        self.drop_from_indexes(places)

    def update(self, places: Int64Array, changes: Mapping[str, Column]) -> int:
        """Set the values of `changes` in the rows at `places`, each named once; return how many were refused.

        When the changes set a primary key that is in use, no row is changed.
        """
        rekeyed = not changes.keys().isdisjoint(self.primary_key)
        if rekeyed and self.key is not None and self._collide(places, changes, self.key):
            return len(places)
        touched = [index for index in self.indexes.values() if not changes.keys().isdisjoint(index.names)]
        for index in touched:
            index.remove(places)
        for name, column in changes.items():
            self._values[name][places] = column.values
            self._set_valid(name, places, column)
        for index in touched:
            index.add(places, self.keys_of(index, self.columns(places, index.names), len(places)))
        return 0

    def _collide(self, places: Int64Array, changes: Mapping[str, Column], key: HashIndex) -> bool:
        """Return whether `changes` give one of the rows at `places` the key of another row, there or elsewhere."""
        columns = self.columns(places, key.names) | {n: c for n, c in changes.items() if n in key.names}
        new = self.keys_of(key, columns, len(places))
        found, _ = key.first(new)
        others = found[found >= 0]
        return len(np.unique(new, axis=0)) < len(new) or not np.isin(others, places).all()

    def heads_and_tails(self) -> tuple[Int64Array, Int64Array]:
        """Return for each position its first and its last record, -1 for none."""
        room = self.cells.shape[1]
        self._heads, self._tails = grown(self._heads, room, -1), grown(self._tails, room, -1)
        return self._heads, self._tails

    def take_up(self, used: int, count: int) -> None:
        """Take over the result of a write loop: `count` rows at the first `used` positions."""
        self.used, self._count = used, count

    def drop_from_indexes(self, places: Int64Array) -> None:
        """Remove the rows at `places`, which are deleted, from all indexes."""
        if len(places):
            for index in self.indexes.values():
                index.remove(places)
            if 2 * self._count < self.used - 16:
                self._compact()

    def close_history(self) -> None:
        """End the step in which earlier contents of the table were read."""
        history, self.history = self.history, None
        if history is not None:
            history.close()
            self.drop_from_indexes(history.gone)

    def undo(self) -> None:
        """Undo the writes of this step, so that they can be repeated differently."""
        history, self.history = self.history, None
        if history is not None:
            history.undo(self.cells, self.valid, self.alive)
            fresh = np.arange(history.used_before, self.used)
            for index in self.indexes.values():
                index.remove(fresh)
            self.take_up(history.used_before, history.count_before)

    def seen(self, pairs: Pairs, events: EventBatch) -> Pairs:
        """Return the `pairs` of events and rows as the events see these."""
        return pairs if self.history is None else self.history.seen(pairs, events, self.alive)

    def _compact(self) -> None:
        """Move rows together, in order, and update the indexes."""
        kept = self._places()
        self.cells = self.cells[:, kept]
        self._values = {name: values[kept] for name, values in self._values.items()}
        self.valid = self.valid[:, kept] if self.valid.size else NO_VALIDITY
        self.used = self._count = len(kept)
        self._lay_out(max(self.used, 8))
        self.alive = np.zeros(max(self.used, 8), dtype=np.bool_)
        self.alive[: self.used] = True
        for names in self.indexes:
            self._renew(names)

    def _renew(self, names: tuple[str, ...]) -> None:
        places = np.arange(self.used)
        keys = self.keys_of(self.indexes[names], self.columns(places, names), len(places))
        self.indexes[names].clear()
        self.indexes[names].add(places, keys)

    # ---- state

    def state_size(self) -> StateSize:
        """Return how many rows there are, in about how many bytes."""
        return StateSize(rows=self._count, bytes=held_bytes(self))

    def live_codes(self) -> Iterator[Int64Array]:
        """Return the string codes of all rows."""
        return codes_in(self.snapshot())

    def recode(self, change: CodeChange) -> None:
        """Replace every string code in the table by the one that `change` gives."""
        self.restore(map_codes(self.snapshot(), change))

    def snapshot(self) -> State:
        places = self._places()
        parts: dict[str, State] = {}
        for name, values in self._values.items():
            kept, valid = values[places], self._valid_of(name)
            known = None if valid is None else mask_or_none(valid[places])
            parts[name] = [Codes(kept) if self._type_of(name) is AttributeType.STRING else kept, known]
        return parts

    def restore(self, state: State) -> None:
        columns = {name: (v.array if isinstance(v, Codes) else v, valid) for name, (v, valid) in state.items()}
        size = len(columns[next(iter(self.types))][0])
        self.valid, self._values = NO_VALIDITY, {}
        self._lay_out(max(size, 8))
        for name, target in self._values.items():
            values, valid = columns.get(name, (self._no_times(size).values, None))
            target[:size] = values
            if valid is not None:
                self.make_validity()
                self.valid[self.line_of(name), :size] = valid
        self.used = self._count = size
        self.alive = np.zeros(max(size, 8), dtype=np.bool_)
        self.alive[:size] = True
        for names in self.indexes:
            self._renew(names)


def _value(column: Column) -> Value:
    return Value(column.values, None if column.type is AttributeType.STRING else column.valid)
