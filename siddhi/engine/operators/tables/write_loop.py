"""Execute the writes of whole batches in one compiled loop (`siddhi.engine.operators.tables.write_kernels`)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple, Protocol

import numpy as np

from siddhi.engine.columnar.batch import EventBatch
from siddhi.engine.columnar.column import DTYPES, Column
from siddhi.engine.jit.arrays import INT64, BoolArray, Int64Array
from siddhi.engine.jit.kernels import NO_MASK, grown
from siddhi.engine.operators.expressions.evaluation import Value
from siddhi.engine.operators.expressions.register_program import DIVISIONS
from siddhi.engine.operators.tables.hash_index import HashIndex
from siddhi.engine.operators.tables.history import History
from siddhi.engine.operators.tables.prepared_writes import PreparedWrites
from siddhi.engine.operators.tables.row_program import RowProgram
from siddhi.engine.operators.tables.table import NO_VALIDITY, Table
from siddhi.engine.operators.tables.write_kernels import (
    ACTION,
    ALIVE,
    ASK,
    BY_KEY,
    COPIES,
    COUNTERS,
    DELETE,
    END,
    GONE,
    INSERT,
    LOG_LINES,
    LOGGED,
    MOST,
    REFUSED,
    SET,
    UPDATE,
    UPSERT,
    USED,
    WRITER_LINES,
    write_rows,
)
from siddhi.engine.tuning import MAX_PREPARED_WRITES
from siddhi.language.ast import AttributeType

ACTIONS = {"insert": INSERT, "delete": DELETE, "update": UPDATE, "update or insert": UPSERT}
_NO_KEYS: Int64Array = np.zeros((0, 1), dtype=np.int64)
_NO_LINES: Int64Array = np.zeros((0, 2), dtype=np.int64)
_NO_LOG: Int64Array = np.zeros((LOG_LINES, 0), dtype=np.int64)
_NOTHING: Int64Array = np.zeros(0, dtype=np.int64)
_NO_INDEX = HashIndex.none()


class WritePlan(NamedTuple):
    """How the loop executes the writes of one query.

    It has the index that finds rows, and the program, whose first `asking` instructions test the rest of the
    condition.
    """

    action: int
    keyed_by: HashIndex | None
    program: RowProgram
    asking: int
    changed: frozenset[str]


class RowSource(Protocol):
    """Converts events into rows: the end of a query that writes the table."""

    def outputs(self, batch: EventBatch) -> dict[str, Value]:
        """Return the output values that conditions and assignments read."""

    def as_rows(self, batch: EventBatch) -> dict[str, Column]:
        """Return the rows that the events are inserted as, by the table's attributes."""

    def keys(self, batch: EventBatch) -> tuple[Int64Array, BoolArray]:
        """Return the keys by which the events find rows, and a mask of those that contain a null."""


class Write(NamedTuple):
    """A batch that `writer` writes; `rank` is the position of its query in the graph."""

    writer: RowSource
    plan: WritePlan
    batch: EventBatch
    rank: int = 0


class _Load(NamedTuple):
    """The events of one write, in the form for the loop."""

    inputs: Int64Array
    inputs_valid: BoolArray
    keys: Int64Array
    nulls: BoolArray
    fresh: Int64Array
    fresh_valid: BoolArray
    fresh_keys: Int64Array
    unique_keys: Int64Array


_BY_ROWS = frozenset(_Load._fields.index(name) for name in ("keys", "fresh_keys", "unique_keys"))
"""Parts of a load in which events are lines, not columns."""
_TRUE_BY_DEFAULT = frozenset(_Load._fields.index(name) for name in ("inputs_valid", "fresh_valid"))


def carry_out(table: Table, writes: Sequence[Write], *, recorded: bool = False) -> list[int]:
    """Execute the `writes` in the order of their events; return how many rows of each were refused.

    With `recorded` the table keeps its contents at each moment until the end of the step.
    """
    prepared = _prepare(table, writes)
    index, live, touched = prepared.lookup, prepared.live, prepared.touched
    load = _beside([_load(table, write, index) for write in writes], [write.batch.size for write in writes])
    units, moments = _units(writes, in_order=recorded or len(writes) > 1)
    writers, lines = prepared.writers, prepared.lines
    writers[:, REFUSED] = 0
    inserts = sum(write.batch.size for write in writes if write.plan.action in (INSERT, UPSERT))
    first, most, before = table.used, table.used + inserts, len(table)
    counters: Int64Array = np.zeros(COUNTERS, dtype=np.int64)
    counters[USED], counters[ALIVE], counters[COPIES] = first, len(table), most
    table.make_room(most)
    for one in live:
        one.make_room(most)
    whole, broken, known = prepared.registers
    missed: Int64Array = np.empty(int((units[:, 2] - units[:, 1]).max()), INT64)
    gone: Int64Array = np.empty(len(table) + inserts if prepared.deletes else 0, INT64)
    dirty = np.zeros(most if touched else 0, dtype=np.bool_)
    log, heads, tails = (table.log, *table.heads_and_tails()) if recorded else (_NO_LOG, _NOTHING, _NOTHING)
    if any(len(mask) for mask in (load.fresh_valid, load.nulls)) or not load.inputs_valid.all() or prepared.divides:
        table.make_validity()
    fresh_valid = (
        load.fresh_valid if len(load.fresh_valid) or not table.valid.size else np.ones_like(load.fresh, np.bool_)
    )
    done = False
    while not done:
        cells, ends = table.cells, (index or _NO_INDEX).arrays
        done = write_rows(
            counters, units, writers, lines, load.inputs, load.inputs.view(np.float64), load.inputs_valid,
            load.keys, load.nulls, load.fresh, fresh_valid, load.fresh_keys, load.unique_keys,
            cells, cells.view(np.float64), cells.view(np.float32), table.valid, table.alive,
            *ends, *(table.key or _NO_INDEX).arrays, index is not table.key,
            whole, broken, known, missed, gone, dirty, log, heads, tails,
        )  # fmt: skip
        if not done:  # what follows writes down more than there is room for
            table.make_room(int(counters[COPIES] + counters[MOST]))
            notes = int(counters[LOGGED] + counters[MOST])
            if notes > log.shape[1]:
                log = table.log = np.ascontiguousarray(grown(log.T, notes).T)
            heads, tails = table.heads_and_tails()
    table.take_up(int(counters[USED]), int(counters[ALIVE]))
    deleted = gone[: counters[GONE]]
    fresh = np.arange(first, table.used)
    for one in table.indexes.values():
        if one not in live:
            one.make_room(table.used)  # rows that were inserted and deleted in this step are only taken out
            here = fresh if recorded or not len(deleted) else fresh[table.alive[first : table.used]]
            one.add(here, table.keys_of(one, table.columns(here, one.names), len(here)))
    if recorded:
        table.history = History(
            moments, log, int(counters[LOGGED]), heads, tails, deleted, used_before=first, count_before=before
        )
    else:
        table.drop_from_indexes(deleted)
    for one in touched:
        places = np.flatnonzero(dirty[:first] & table.alive[:first])
        one.remove(places)
        one.add(places, table.keys_of(one, table.columns(places, one.names), len(places)))
    return writers[:, REFUSED].tolist()  # type: ignore[no-any-return]


def _load(table: Table, write: Write, index: HashIndex | None) -> _Load:
    """Return the load of a write; `index` is the one by which writes of the step find rows."""
    plan, batch, writer = write.plan, write.batch, write.writer
    size = batch.size
    inputs, inputs_valid = plan.program.values(batch, writer.outputs(batch))
    keys, nulls = _NO_KEYS, NO_MASK
    if plan.keyed_by is not None and plan.action != INSERT:
        keys, nulls = writer.keys(batch)
    fresh, fresh_valid = np.zeros((0, size), dtype=np.int64), NO_VALIDITY
    fresh_keys = unique_keys = _NO_KEYS
    if plan.action in (INSERT, UPSERT):
        columns = writer.as_rows(batch)
        fresh, fresh_valid = _cells(table, columns, size)
        if table.key is not None:
            unique_keys = table.keys_of(table.key, columns, size)
        if index is not None and index is not table.key:
            fresh_keys = table.keys_of(index, columns, size)
    return _Load(inputs, inputs_valid, keys, nulls, fresh, fresh_valid, fresh_keys, unique_keys)


def _cells(table: Table, columns: Mapping[str, Column], size: int) -> tuple[Int64Array, BoolArray]:
    """Return the cells of rows with these `columns`, and a mask of those that are not null.

    The mask covers only nulls that codes do not mark.
    """
    stored = table.stored
    cells: Int64Array = np.empty((len(stored), size), INT64)
    masks: dict[int, BoolArray] = {}
    for line, (name, type_) in enumerate(stored.items()):
        column, bits = columns[name], cells[line].view(DTYPES[type_])
        bits[:: len(bits) // size] = column.values
        if type_ is not AttributeType.STRING and column.valid is not None:
            masks[line] = column.valid
    if not masks and not table.valid.size:
        return cells, NO_VALIDITY
    valid: BoolArray = np.ones((len(stored), size), dtype=np.bool_)
    for line, mask in masks.items():
        valid[line] = mask
    return cells, valid


def _beside(loads: Sequence[_Load], sizes: Sequence[int]) -> _Load:
    """Return the loads of several writes, one behind the other."""
    if len(loads) == 1:
        return loads[0]
    stops = np.cumsum(sizes)
    joined = []
    for place, parts in enumerate(zip(*loads, strict=True)):
        by_rows = place in _BY_ROWS
        shapes = [part.shape[::-1] if by_rows and part.ndim > 1 else part.shape for part in parts]
        if not any(all(shape) for shape in shapes):
            joined.append(parts[0])
            continue
        lines = max(shape[0] for shape in shapes) if parts[0].ndim > 1 else 0
        whole = np.full((lines, stops[-1]) if lines else stops[-1], place in _TRUE_BY_DEFAULT, dtype=parts[0].dtype)
        for part, stop, size in zip(parts, stops, sizes, strict=True):
            turned = part.T if by_rows and part.ndim > 1 else part
            if turned.size:
                target = whole[: len(turned)] if lines else whole
                target[..., stop - size : stop] = turned
        joined.append(np.ascontiguousarray(whole.T) if by_rows and lines else whole)
    return _Load(*joined)


def _units(writes: Sequence[Write], *, in_order: bool) -> tuple[Int64Array, Int64Array]:
    """Return the units of events that act together, and their moments if they are `in_order`."""
    parts, moments, offset = [], [], 0
    for number, (_, plan, batch, rank) in enumerate(writes):
        starts = _starts(batch) if in_order or plan.action == UPSERT else np.zeros(1, dtype=np.int64)
        units: Int64Array = np.empty((len(starts), 3), INT64)
        units[:, 0] = number
        units[:, 1] = starts + offset
        units[:-1, 2] = units[1:, 1]
        units[-1, 2] = offset = offset + batch.size
        parts.append(units)
        if in_order:
            times: Int64Array = np.empty((3, len(starts)), INT64)
            times[0], times[1], times[2] = batch.orders[starts], batch.clocks[starts], rank
            moments.append(times)
    if not in_order:
        return parts[0], _NO_LINES
    if len(parts) == 1:
        return parts[0], moments[0]
    units, times = np.concatenate(parts), np.concatenate(moments, axis=1)
    order = np.lexsort((times[2], times[1], times[0]))
    return units[order], np.ascontiguousarray(times[:, order])


def _starts(batch: EventBatch) -> Int64Array:
    """Return where the chunks of `batch` begin, or the units that fail together where these are larger."""
    ids = batch.chunks if batch.units is None else batch.units
    if ids is None:
        return np.arange(batch.size)
    return np.append(0, np.flatnonzero(ids[1:] != ids[:-1]) + 1)


def _prepare(table: Table, writes: Sequence[Write]) -> PreparedWrites:
    """Return the data that the loop needs about the writes' plans.

    It is prepared once, until the table has a new index.
    """
    key = (len(table.indexes), *(id(write.plan) for write in writes))
    prepared = table.prepared.get(key)
    if prepared is None:
        if len(table.prepared) >= MAX_PREPARED_WRITES:  # on-demand queries have plans of their own
            table.prepared.clear()
        prepared = table.prepared[key] = _new_prepared(table, [write.plan for write in writes])
    return prepared


def _new_prepared(table: Table, plans: Sequence[WritePlan]) -> PreparedWrites:
    writers: Int64Array = np.zeros((len(plans), WRITER_LINES), dtype=np.int64)
    programs, start = [], 0
    for number, plan in enumerate(plans):
        lines = plan.program.lines
        writers[number, ACTION] = plan.action
        writers[number, BY_KEY] = plan.keyed_by is not None
        writers[number, ASK], writers[number, SET] = start, start + plan.asking
        start += len(lines)
        writers[number, END] = start
        programs.append(lines)
    index = next((plan.keyed_by for plan in plans if plan.keyed_by is not None), None)
    changed = frozenset[str]().union(*(plan.changed for plan in plans))
    live = [one for one in (index, table.key) if one is not None]
    touched = [one for one in table.indexes.values() if one not in live and not changed.isdisjoint(one.names)]
    room = max(start, 1)
    registers = (np.zeros(room, dtype=np.int64), np.zeros(room, dtype=np.float64), np.zeros(room, dtype=np.bool_))
    deletes = any(plan.action == DELETE for plan in plans)
    lines = np.concatenate(programs)
    divides = bool(np.isin(lines[:, 0], DIVISIONS).any())
    return PreparedWrites(plans, index, live, touched, deletes, writers, lines, divides, registers)
