"""The effects of queries on tables: insert, delete, update, update or insert.

Events take effect one after another. Where this makes no difference, they take effect together: all find their rows at
once, and rows that several events change are changed in rounds, first by the first event of each row, then by the
second:

    event    0    1    2    3          round 1   0 → row A, 1 → row B
    row      A    B    A    A          round 2   2 → row A         round 3   3 → row A
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property

import numpy as np

from siddhi.analysis import model
from siddhi.analysis.expression.walk import walk
from siddhi.engine.columnar.batch import EventBatch, split_chunks
from siddhi.engine.columnar.column import Column
from siddhi.engine.columnar.java_order import hash_order
from siddhi.engine.columnar.kinds import EXPIRED
from siddhi.engine.jit.arrays import BoolArray, Int64Array
from siddhi.engine.jit.kernels import NO_MASK
from siddhi.engine.operators.base.choices import Execution
from siddhi.engine.operators.base.operator import Step
from siddhi.engine.operators.base.scope import EVENT_TIMESTAMP
from siddhi.engine.operators.expressions.compiler import ExpressionCompiler, table_column
from siddhi.engine.operators.expressions.evaluation import Evaluation, Value, as_type, to_column
from siddhi.engine.operators.expressions.operators import NUMERIC
from siddhi.engine.operators.expressions.register_program import NoProgramError
from siddhi.engine.operators.tables.careful import CarefulMatcher, needs_care
from siddhi.engine.operators.tables.matching import RowMatcher
from siddhi.engine.operators.tables.pairs import Pairs
from siddhi.engine.operators.tables.row_program import RowProgram
from siddhi.engine.operators.tables.session import WriteSession
from siddhi.engine.operators.tables.table import Table
from siddhi.engine.operators.tables.write_loop import ACTIONS, Write, WritePlan, carry_out
from siddhi.language.ast import AttributeType

_CHANGING = ("update", "update or insert")


class TableWriter:
    """Carries the output of a query into its table, event by event in order."""

    @property
    def execution(self) -> Execution:
        """How it processes the events of a batch."""
        if self.plan is not None:
            return Execution.BATCHES if self.action == "insert" else Execution.COMPILED
        at_once = {"update": self.together, "update or insert": self.upserts_by_key}.get(self.action, True)
        return Execution.BATCHES if at_once else Execution.EVENTS

    def __init__(self, output: model.AnalysedOutput, table: Table, compiler: ExpressionCompiler) -> None:
        self.table = table
        self.action = output.action
        self.session: WriteSession | None = None
        """The session that collects the writes of a step in which several queries use the table."""
        self.inserted = dict(zip(table.types, output.schema.names(), strict=False))
        self.matcher = RowMatcher(output.on, table, compiler)
        replaces = self._replaces_rows(output)
        assigned = () if replaces else output.assignments
        self.replaces = replaces
        """Whether events replace the row that has their key."""
        settled = set(table.primary_key) if replaces else self._settled(assigned)
        plain = [model.Assignment(n, model.OutputValue(n, t)) for n, t in output.schema.attributes if n in table.types]
        assignments = [one for one in _in_order(assigned or plain, table) if one.attribute not in settled]
        self.assigned = [(one.attribute, one.value) for one in assignments]
        self.assignments = [(name, compiler.compile(value)) for name, value in self.assigned]
        values = [part for one in assignments for part in walk(one.value)]
        self.reads = frozenset(part.name for part in values if isinstance(part, model.TableValue))
        changed = {one.attribute for one in assignments}
        self.together = changed.isdisjoint(self.matcher.reads) and changed.isdisjoint(table.primary_key)
        self.upserts_by_key = replaces or (self.together and self._inserts_what_it_asks_for())
        self._careful = None if replaces else self._careful_matcher(output, compiler)
        self._on_may_fail = self._careful is not None and needs_care(output.on, compiler)
        self._compiler = compiler

    def _careful_matcher(self, output: model.AnalysedOutput, compiler: ExpressionCompiler) -> CarefulMatcher | None:
        """Return the matcher for events that may fail, in `on` or in `set`."""
        if output.on is not None and any(node.can_fail for _, node in self.assignments):
            return CarefulMatcher(output.on, self.table, compiler)
        return CarefulMatcher.if_needed(output.on, self.table, compiler)

    def _replaces_rows(self, output: model.AnalysedOutput) -> bool:
        """Return whether the event replaces the row with its own key, whatever `set` and `on` are.

        As in Siddhi, an `update or insert` by the whole primary key does, unless `set` reads stored values.
        """
        looks = any(isinstance(part, model.TableValue) for one in output.assignments for part in walk(one.value))
        return self.action == "update or insert" and self.matcher.by_primary_key and not looks

    def _settled(self, assignments: Sequence[model.Assignment]) -> set[str]:
        """Return the attributes that already have the value to be assigned, because the condition requires it."""
        assigned = {one.attribute: one.value for one in assignments}
        settled = set()
        for name, probe in self.matcher.probes.items():
            value = assigned.get(name, None if assigned else model.OutputValue(name, self.table.types[name]))
            if value == probe:
                settled.add(name)
        return settled

    def _inserts_what_it_asks_for(self) -> bool:
        """Return whether an event looks up exactly the rows with the key that it would be inserted with."""
        matcher = self.matcher
        same = all(
            isinstance(probe, model.OutputValue) and probe.name == self.inserted.get(name)
            for name, probe in matcher.probes.items()
        )
        return matcher.exact and same and (matcher.by_primary_key or not self.table.primary_key)

    @cached_property
    def plan(self) -> WritePlan | None:
        """Return how compiled code executes the query, or None if it cannot.

        It cannot if events may fail, rows have objects or an external store, keys change, or functions read the values
        of rows. This is called when all queries are built.
        """
        table, matcher = self.table, self.matcher
        index = table.key if self.replaces else matcher.index
        changed = frozenset(name for name, _ in self.assigned) if self.action in _CHANGING else frozenset[str]()
        keys = {*table.primary_key, *(index.names if index is not None else ())}
        if self._careful is not None or type(table) is not Table or not changed.isdisjoint(keys):
            return None
        if AttributeType.OBJECT in table.types.values():
            return None
        asked = None if self.replaces or self.action == "insert" else matcher.rest
        program = RowProgram(table, self._compiler.afresh())
        try:
            asking = program.fill(asked, *self.changes)
        except NoProgramError:
            return None
        return WritePlan(ACTIONS[self.action], index, program, asking, changed)

    @property
    def changes(self) -> tuple[Sequence[tuple[str, model.TypedExpression]], bool]:
        """Return the assignments to rows that are found, and whether these get the timestamp of the event."""
        return self.assigned if self.action in _CHANGING else (), self.replaces and self.table.keeps_times

    @property
    def shares(self) -> bool:
        """Return whether several queries may change and read the table in the same step."""
        plan = self.plan
        return plan is not None and all(plan.changed.isdisjoint(index) for index in self.table.indexes)

    def keys(self, batch: EventBatch) -> tuple[Int64Array, BoolArray]:
        """Return the keys of the plan's index that events look up, and a mask of those that find nothing."""
        if self.replaces:
            assert self.table.key is not None  # noqa: S101 - what replaces rows has a primary key
            return self.table.keys_of(self.table.key, self.as_rows(batch), batch.size), NO_MASK
        return self.matcher.keys(batch, self.outputs(batch))

    def write(self, batch: EventBatch, step: Step) -> int:
        """Write the events of `batch`, and record those that fail; return how many the table refused.

        Events are refused when their primary key was in use.
        """
        if not batch.only_current:
            events = batch.kinds <= EXPIRED
            if not events.all():
                batch = batch.take(np.flatnonzero(events))
        if not batch.size:
            return 0
        if self.session is not None:
            self.session.add(self, batch)
            return 0
        if self.plan is not None and self.action != "insert":
            (refused,) = carry_out(self.table, [Write(self, self.plan, batch)])
            return refused
        if self._careful is None:
            return self._write_at_once(batch)
        if self.action == "delete" or (self.together if self.action == "update" else self.upserts_by_key):
            try:
                return self._write_at_once(batch)
            except _EventFailedError:
                pass  # the table is unchanged: write the events one by one
        return sum(self._write_carefully(self._careful, chunk, step) for chunk in split_chunks(batch))

    def _write_at_once(self, batch: EventBatch) -> int:
        """Write a batch of events, as `write` does.

        Raise `_EventFailedError` when one fails: then no change that is made at once was made.
        """
        if self.action == "insert":
            return self.table.insert(self.as_rows(batch))
        if self.action == "delete":
            self.table.delete(np.unique(self._pairs(batch).places))
            return 0
        if self.action == "update":
            parts = [batch] if self.together else [batch.slice(row, row + 1) for row in range(batch.size)]
            return sum(self._update(part, self._pairs(part)) for part in parts)
        if self.upserts_by_key and (self.matcher.by_primary_key or not self._lacks_keys(batch)):
            return self._upsert_by_key(batch)
        return sum(self._upsert(chunk) for chunk in split_chunks(batch))

    @staticmethod
    def outputs(batch: EventBatch) -> dict[str, Value]:
        """Return the output values that conditions and assignments read."""
        return {name: Value(column.values, column.valid) for name, column in batch.columns.items()}

    def as_rows(self, batch: EventBatch) -> dict[str, Column]:
        """Return the output's columns under the names of the table's attributes, which are in the same order."""
        rows = {name: batch.columns[output] for name, output in self.inserted.items()}
        if self.table.keeps_times:
            rows[EVENT_TIMESTAMP] = self._times(batch)
        return rows

    def _times(self, batch: EventBatch) -> Column:
        return Column(AttributeType.LONG, self.table.pool, batch.timestamps)

    def _pairs(self, batch: EventBatch) -> Pairs:
        if self._careful is None or not self._on_may_fail:
            return self.matcher.pairs(batch, self.outputs(batch))
        verdicts = self._careful.verdicts(batch, self.outputs(batch))
        if verdicts.fails:
            raise _EventFailedError(verdicts.reasons.first)
        return Pairs(verdicts.probes, verdicts.places)

    # ---- events that may fail

    def _write_carefully(self, matcher: CarefulMatcher, chunk: EventBatch, step: Step) -> int:
        """Write the events of `chunk` one after the other, row by row, up to the first that fails.

        Changes by this event and those before it remain; the other events of the chunk have no effect.
        """
        refused = 0
        missed: list[EventBatch] = []
        try:
            for row in range(chunk.size):
                one = chunk.slice(row, row + 1)
                found, rejected = self._act(matcher, one)
                refused += rejected
                if not found and self.action == "update or insert":
                    missed.append(one)
            for one in missed:
                found, rejected = (False, 0) if one is missed[0] else self._act(matcher, one)
                refused += rejected if found else self.table.insert(self.as_rows(one))
        except _EventFailedError as error:
            step.failures.add(np.unique(chunk.orders), str(error))
        return refused

    def _act(self, matcher: CarefulMatcher, one: EventBatch) -> tuple[bool, int]:
        """Write the only event of `one`; return whether it found rows, and how many the table refused.

        Raise `_EventFailedError` where it fails: rows that a table without key and index shows before are changed
        then.
        """
        verdicts = matcher.verdicts(one, self.outputs(one))
        found = verdicts.places[: np.argmax(verdicts.failed)] if verdicts.failed.any() else verdicts.places
        refused = 0
        if self.table.has_index and verdicts.fails:
            found = found[:0]
        if self.action == "delete":
            self.table.delete(found)
        else:
            refused = sum(self._change_one(one, found[row : row + 1]) for row in range(len(found)))
        if verdicts.fails:
            raise _EventFailedError(verdicts.reasons.first)
        return bool(len(found)), refused

    def _change_one(self, one: EventBatch, place: Int64Array) -> int:
        """Change one row for one event, as `_change` does; assignments before one that fails remain."""
        try:
            return self._change(one, np.zeros(1, dtype=np.int64), place)
        except _EventFailedError as error:
            if error.changes:
                self.table.update(place, error.changes)
            raise

    # ---- update or insert

    def _lacks_keys(self, batch: EventBatch) -> bool:
        columns = [batch.columns[self.inserted[name]] for name in self.matcher.probes]
        return any(column.valid is not None for column in columns)

    def _upsert_by_key(self, batch: EventBatch) -> int:
        """Insert the first event of each new key; the others update all rows of their key."""
        index = self.matcher.index
        assert index is not None  # noqa: S101 - a condition that is all equality has one
        columns = self.as_rows(batch)
        if self.matcher.by_primary_key:
            places, fresh = self.table.insert_missing(index, columns)
            (probes,) = (~fresh).nonzero()
            return self._update_beside(places[fresh], batch, Pairs(probes, places[probes]))
        known = self._pairs(batch)
        missed = np.ones(batch.size, dtype=np.bool_)
        missed[known.probes] = False
        (rows,) = missed.nonzero()
        if not len(rows):
            return self._update(batch, known)
        places, fresh = self.table.insert_missing(index, {name: column.take(rows) for name, column in columns.items()})
        inserted = places[fresh]
        probes = np.concatenate([known.probes, rows[~fresh]])
        places = np.concatenate([known.places, places[~fresh]])
        order = np.argsort(probes, kind="stable")
        return self._update_beside(inserted, batch, Pairs(probes[order], places[order]))

    def _update_beside(self, inserted: Int64Array, batch: EventBatch, pairs: Pairs) -> int:
        """Update rows as `_update` does; when that fails, delete the rows at `inserted`, which `batch` has added."""
        try:
            return self._update(batch, pairs)
        except _EventFailedError:
            self.table.delete(inserted)
            raise

    def _upsert(self, chunk: EventBatch) -> int:
        """Update the rows that the events of the chunk find, one event after another, and return how many were refused.

        Of the events that find no row the first is inserted, and later ones update that row.
        """
        refused = 0
        missed: list[EventBatch] = []
        for row in range(chunk.size):
            one = chunk.slice(row, row + 1)
            pairs = self._pairs(one)
            if len(pairs.places):
                refused += self._update(one, pairs)
            else:
                missed.append(one)
        for one in missed:
            pairs = Pairs(*_NONE) if one is missed[0] else self._pairs(one)
            if len(pairs.places):
                refused += self._update(one, pairs)
            else:
                refused += self.table.insert(self.as_rows(one))
        return refused

    # ---- update

    def _update(self, batch: EventBatch, pairs: Pairs) -> int:
        if self._careful is None:
            return sum(self._change(batch, probes, places) for probes, places in self._rounds(pairs) if len(places))
        if not len(pairs.places):
            return 0
        if not self.reads:
            changes = self._changes(batch, pairs.probes, pairs.places)  # also for events whose changes are overwritten
            if len(pairs.places) == 1:
                return self.table.update(pairs.places, changes)
            last = _last_of_each(pairs.places)
            return self.table.update(pairs.places[last], {name: column.take(last) for name, column in changes.items()})
        changed = np.unique(pairs.places)
        before = self.table.columns(changed, [name for name, _ in self.assignments])
        try:
            return sum(self._change(batch, probes, places) for probes, places in self._rounds(pairs) if len(places))
        except _EventFailedError:
            self.table.update(changed, before)
            raise

    def _rounds(self, pairs: Pairs) -> Iterator[tuple[Int64Array, Int64Array]]:
        """Yield `pairs` in rounds in which each row occurs once.

        Only the last event of a row counts when no assignment reads the row.
        """
        if len(pairs.places) < 2:
            yield pairs.probes, pairs.places
            return
        order = np.argsort(pairs.places, kind="stable")
        probes, places = pairs.probes[order], pairs.places[order]
        new = np.append(True, places[1:] != places[:-1])
        if new.all():
            yield probes, places
        elif not self.reads and self.together:
            last = np.append(new[1:], True)
            yield probes[last], places[last]
        else:
            starts = np.flatnonzero(new)
            numbers = np.arange(len(places)) - np.repeat(starts, np.diff(np.append(starts, len(places))))
            for number in range(int(numbers.max()) + 1):
                now = numbers == number
                yield probes[now], places[now]

    def _change(self, batch: EventBatch, probes: Int64Array, places: Int64Array) -> int:
        changes = self._changes(batch, probes, places)
        return self.table.update(places, changes) if changes else 0

    def _changes(self, batch: EventBatch, probes: Int64Array, places: Int64Array) -> dict[str, Column]:
        """Return the values of the assignments, each based on earlier changes of its row.

        Raise `_EventFailedError` if one fails; it has the values of those before it.
        """
        events = batch.take(probes)
        stored = self.table.columns(places, self.reads)
        changes: dict[str, Column] = {}
        for name, node in self.assignments:
            evaluation = Evaluation(
                events.with_columns({table_column(self.table.id, n): stored[n] for n in self.reads})
            )
            evaluation.outputs = self.outputs(events)
            value = node.evaluate(evaluation)
            if evaluation.failed is not None and self._careful is not None:
                raise _EventFailedError(evaluation.message, changes)
            column = self._column(value, node.type, self.table.types[name], len(places))
            changes[name] = column
            if name in stored:
                stored[name] = column
        if self.replaces and self.table.keeps_times:
            changes[EVENT_TIMESTAMP] = self._times(events)
        return changes

    def _column(self, value: Value, type_: AttributeType, wanted: AttributeType, size: int) -> Column:
        """Return `value` as the table's type; numbers of other types are widened or truncated."""
        if type_ in NUMERIC and wanted in NUMERIC:
            return to_column(Value(as_type(value.values, wanted), value.valid), wanted, self.table.pool, size)
        column = to_column(value, type_, self.table.pool, size)
        return column if type_ is wanted else Column.of(wanted, self.table.pool, column.to_list())


def _last_of_each(places: Int64Array) -> Int64Array:
    """Return the last position of each of `places`."""
    order: Int64Array = np.argsort(places, kind="stable")
    sorted_places = places[order]
    last: Int64Array = order[np.append(sorted_places[1:] != sorted_places[:-1], True)]
    return last


class _EventFailedError(Exception):
    """An event failed, for the reason `message`, after it had made `changes` to the table."""

    def __init__(self, message: str, changes: dict[str, Column] | None = None) -> None:
        super().__init__(message)
        self.changes = changes or {}


def _in_order(assignments: Sequence[model.Assignment], table: Table) -> list[model.Assignment]:
    """Return the last assignment of each attribute, in the order in which Siddhi makes them.

    This is the order of the table's attributes in a Java hash map.
    """
    last = {one.attribute: one for one in assignments}
    names = list(last)
    attributes = list(table.types)
    return [last[names[place]] for place in hash_order([attributes.index(name) for name in names])]


_NONE = (np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64))
