"""An in-memory table: columns in which each row has its place, and hash indexes that find places again.

    place     0     1     2     3           alive   yes   no   yes   yes      (row 1 was deleted)
    symbol   'A'   'B'   'C'   'A'          index on symbol   A → 0, 3   C → 2

The primary key has an index; conditions that ask for equality have theirs made when they are built. An index costs a
row 8 bytes for each of its attributes and 32 more.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

import numpy as np

from siddhi.analysis import model
from siddhi.engine.arrays import AnyArray, BoolArray, Int64Array
from siddhi.engine.column import DTYPES, Column
from siddhi.engine.expressions.evaluation import Value
from siddhi.engine.expressions.operators import NUMERIC
from siddhi.engine.kernels import grown
from siddhi.engine.scope import EVENT_TIMESTAMP
from siddhi.engine.state import CodeChange, Codes, State, codes_in, map_codes
from siddhi.engine.state_size import StateSize, held_bytes
from siddhi.engine.strings import StringPool
from siddhi.engine.tables.hash_index import HashIndex
from siddhi.engine.tables.key_bits import key_rows
from siddhi.language.ast import AttributeType


class Table:
    """Rows are addressed by place; places of deleted rows are given up when they are more than half.

    Rows are met in order of insertion, but where one number is the whole primary key in its order, as in Siddhi (there
    a Java tree map holds such rows). `keeps_times` says that it knows when its rows came: as `EVENT_TIMESTAMP`, beside
    their attributes.
    """

    def __init__(self, analysed: model.AnalysedTable, pool: StringPool) -> None:
        self.id = analysed.schema.id
        self.types = dict(analysed.schema.attributes)
        self.primary_key = analysed.primary_key
        self.indexed = frozenset(analysed.indexes)
        self.has_index = bool(analysed.primary_key or analysed.indexes)
        self.pool = pool
        self._number = self._number_of_key()
        self._used = 0
        self._count = 0
        self._alive: BoolArray = np.zeros(8, dtype=np.bool_)
        self._values: dict[str, AnyArray] = {name: np.zeros(8, dtype=DTYPES[t]) for name, t in self.types.items()}
        self._valid: dict[str, BoolArray] = {}
        self.keeps_times = False
        self._indexes: dict[tuple[str, ...], HashIndex] = {}
        self._key = self.index_on(self.primary_key) if self.primary_key else None

    def _number_of_key(self) -> str | None:
        """The number that is the whole primary key, None when that is anything else."""
        first, *others = self.primary_key or ("",)
        return first if not others and self.types.get(first) in NUMERIC else None

    def __len__(self) -> int:
        return self._count

    def keep_times(self) -> None:
        """The table, which holds nothing yet, is to know when its rows come."""
        if not self.keeps_times:
            self.keeps_times = True
            self._values[EVENT_TIMESTAMP] = np.zeros(8, dtype=np.int64)

    def places(self) -> Int64Array:
        """The places of all rows, in the order in which they are met."""
        places = self._places()
        return places if self._number is None else places[self._values[self._number][places].argsort(kind="stable")]

    def _places(self) -> Int64Array:
        """The places of all rows, in order of insertion."""
        return np.arange(self._used) if self._count == self._used else np.flatnonzero(self._alive[: self._used])

    def as_met(self, probes: Int64Array, places: Int64Array) -> Int64Array:
        """`places` of rows that stand beside events `probes`, which do not fall, in the order in which each event meets
        its rows."""
        if self._number is None or len(places) < 2:
            return places
        return places[np.lexsort((self._values[self._number][places], probes))]

    def column(self, name: str, places: Int64Array) -> Column:
        """Attribute `name` of the rows at `places`."""
        valid = self._valid.get(name)
        taken = None if valid is None else _mask_or_none(valid[places])
        return Column(self._type_of(name), self.pool, self._values[name][places], taken)

    def _type_of(self, name: str) -> AttributeType:
        return AttributeType.LONG if name == EVENT_TIMESTAMP else self.types[name]

    def columns(self, places: Int64Array, names: Iterable[str] | None = None) -> dict[str, Column]:
        """The attributes `names` (all, without) of the rows at `places`."""
        return {name: self.column(name, places) for name in (self.types if names is None else names)}

    # ---- indexes

    def index_on(self, names: Sequence[str]) -> HashIndex:
        """The index on these attributes, made when it is first asked for."""
        wanted = tuple(name for name in self.types if name in names)
        index = self._indexes.get(wanted)
        if index is None:
            index = self._indexes[wanted] = HashIndex(wanted)
            places = self._places()
            index.add(places, self._keys(index, self.columns(places, wanted), len(places)))
        return index

    def known_index(self, names: Sequence[str]) -> HashIndex | None:
        """The index there is on most of these attributes and on no others, None when there is none."""
        known = [index for index in self._indexes.values() if set(index.names) <= set(names)]
        return max(known, key=lambda index: len(index.names), default=None)

    def _keys(self, index: HashIndex, columns: Mapping[str, Column], size: int) -> Int64Array:
        types = [self.types[name] for name in index.names]
        return key_rows([_value(columns[name]) for name in index.names], types, size, self.pool)[0]

    # ---- changes

    def insert(self, columns: Mapping[str, Column]) -> int:
        """The rows of `columns` are in the table, but for those whose primary key was in use; returns how many were
        not."""
        size = len(next(iter(columns.values())))
        if self._key is not None:
            _, fresh = self.insert_missing(self._key, columns)
            return size - int(fresh.sum())
        self._append(columns, size)
        return 0

    def insert_missing(self, index: HashIndex, columns: Mapping[str, Column]) -> tuple[Int64Array, BoolArray]:
        """Rows of `columns` whose key of `index`, which is the primary key's if there is one, is new are in the table.

        Returns for each row the first place of its key, and whether it was inserted there.
        """
        size = len(next(iter(columns.values())))
        used = self._used
        places, fresh = index.first_or_add(self._keys(index, columns, size), used)
        if fresh.all():
            self._append(columns, size, index)
        elif fresh.any():
            rows = np.flatnonzero(fresh)
            self._append({name: column.take(rows) for name, column in columns.items()}, len(rows), index)
        return places, fresh

    def _append(self, columns: Mapping[str, Column], size: int, done: HashIndex | None = None) -> None:
        """Puts rows behind all others; the index `done` knows them already."""
        start, stop = self._used, self._used + size
        self._alive = grown(self._alive, stop)
        self._alive[start:stop] = True
        if self.keeps_times and EVENT_TIMESTAMP not in columns:
            columns = {**columns, EVENT_TIMESTAMP: self._no_times(size)}
        for name, values in self._values.items():
            column = columns[name]
            if stop > len(values):
                values = self._values[name] = grown(values, stop)  # noqa: PLW2901 - the array in use from now on
            values[start:stop] = column.values
            self._set_valid(name, slice(start, stop), column)
        self._used = stop
        self._count += size
        for index in self._indexes.values():
            if index is not done:
                index.add(np.arange(start, stop), self._keys(index, columns, size))

    def _no_times(self, size: int) -> Column:
        """The times of rows of which nobody knows when they came, as Siddhi tells them."""
        return Column(AttributeType.LONG, self.pool, np.full(size, -1, dtype=np.int64))

    def _set_valid(self, name: str, places: slice | Int64Array, column: Column) -> None:
        """Books where the values of `column` that now stand at `places` are null; codes and objects tell themselves."""
        if column.type in (AttributeType.STRING, AttributeType.OBJECT):
            return
        valid, known = column.valid, self._valid.get(name)
        if known is None and valid is None:
            return
        size = len(self._values[name])
        known = np.ones(size, dtype=np.bool_) if known is None else grown(known, size, fill=True)
        self._valid[name] = known
        known[places] = True if valid is None else valid

    def delete(self, places: Int64Array) -> None:
        """The rows at `places`, each named once, are gone."""
        if not len(places):
            return
        for index in self._indexes.values():
            index.remove(places)
        self._alive[places] = False
        self._count -= len(places)
        if 2 * self._count < self._used - 16:
            self._compact()

    def update(self, places: Int64Array, changes: Mapping[str, Column]) -> int:
        """The rows at `places`, each named once, have the values of `changes`. Where these give a primary key that is
        in use none of the rows is changed; returns how many are not."""
        rekeyed = not changes.keys().isdisjoint(self.primary_key)
        if rekeyed and self._key is not None and self._collide(places, changes, self._key):
            return len(places)
        touched = [index for index in self._indexes.values() if not changes.keys().isdisjoint(index.names)]
        for index in touched:
            index.remove(places)
        for name, column in changes.items():
            self._values[name][places] = column.values
            self._set_valid(name, places, column)
        for index in touched:
            index.add(places, self._keys(index, self.columns(places, index.names), len(places)))
        return 0

    def _collide(self, places: Int64Array, changes: Mapping[str, Column], key: HashIndex) -> bool:
        """True when `changes` give two of the rows at `places` one key, or one of them that of another row."""
        columns = self.columns(places, key.names) | {n: c for n, c in changes.items() if n in key.names}
        new = self._keys(key, columns, len(places))
        found, _ = key.first(new)
        others = found[found >= 0]
        return len(np.unique(new, axis=0)) < len(new) or not np.isin(others, places).all()

    def _compact(self) -> None:
        """Rows move together, in order, and the indexes follow."""
        kept = self._places()
        if len(kept) < len(self._alive):
            self._values = {name: values[kept] for name, values in self._values.items()}
            self._valid = {name: valid[kept] for name, valid in self._valid.items()}
        self._used = self._count = len(kept)
        self._alive = np.ones(self._used, dtype=np.bool_)
        for names in self._indexes:
            self._renew(names)

    def _renew(self, names: tuple[str, ...]) -> None:
        places = np.arange(self._used)
        keys = self._keys(self._indexes[names], self.columns(places, names), len(places))
        self._indexes[names].clear()
        self._indexes[names].add(places, keys)

    # ---- state

    def state_size(self) -> StateSize:
        """How many rows there are, in about how many bytes."""
        return StateSize(rows=self._count, bytes=held_bytes(self))

    def live_codes(self) -> Iterator[Int64Array]:
        """The string codes of all rows."""
        return codes_in(self.snapshot())

    def recode(self, change: CodeChange) -> None:
        """Every string code in the table becomes what `change` makes of it."""
        self.restore(map_codes(self.snapshot(), change))

    def snapshot(self) -> State:
        places = self._places()
        parts: dict[str, State] = {}
        for name, values in self._values.items():
            kept, valid = values[places], self._valid.get(name)
            parts[name] = [
                Codes(kept) if self._type_of(name) is AttributeType.STRING else kept,
                None if valid is None else valid[places],
            ]
        return parts

    def restore(self, state: State) -> None:
        self._valid = {}
        for name, (values, valid) in state.items():
            if name not in self._values:  # times, which nobody asks for any more
                continue
            self._values[name] = values.array if isinstance(values, Codes) else values
            self._used = self._count = len(self._values[name])
            if valid is not None:
                self._valid[name] = valid
        if self.keeps_times and EVENT_TIMESTAMP not in state:
            self._values[EVENT_TIMESTAMP] = self._no_times(self._used).values
        self._alive = np.ones(self._used, dtype=np.bool_)
        for names in self._indexes:
            self._renew(names)


def _value(column: Column) -> Value:
    return Value(column.values, None if column.type is AttributeType.STRING else column.valid)


def _mask_or_none(mask: BoolArray) -> BoolArray | None:
    return None if mask.all() else mask
