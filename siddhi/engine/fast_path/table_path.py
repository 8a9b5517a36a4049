"""The fast path of events whose queries write, search or join one table.

    records ──▶ lines ──programs──▶ lines ──one loop: event by event through all queries──▶ lines ──▶ records
                                                 │ ▲
                                               the table

Larger batches run in pieces, where nothing can stop a later piece.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import pyarrow as pa

from siddhi.column_names import column_name
from siddhi.engine.arrow_c.copy_kernel import REFUSED
from siddhi.engine.columnar.column import DTYPES
from siddhi.engine.columnar.strings import take_strings
from siddhi.engine.emit.batch_writer import record_schema
from siddhi.engine.fast_path.computed_outputs import LineProgram
from siddhi.engine.fast_path.path import FastPathResult
from siddhi.engine.fast_path.reused_batch import ReusedBatches
from siddhi.engine.fast_path.small_batch import SmallBatch, SmallBatchResults
from siddhi.engine.fast_path.table_plan import LoopedQuery, TablePlan
from siddhi.engine.ingest.batch_reader import RecordLayout
from siddhi.engine.jit.arrays import BOOL, FLOAT64, INT64, AnyArray, BoolArray, Int64Array
from siddhi.engine.jit.bits import address_of
from siddhi.engine.operators.expressions.batch_kernel import RESULT_WORDS
from siddhi.engine.operators.expressions.evaluation import Evaluation
from siddhi.engine.operators.expressions.leaves import ColumnNode, ConstantNode, StringConstantNode
from siddhi.engine.operators.expressions.register_program import DIVISIONS
from siddhi.engine.operators.node import AppNode
from siddhi.engine.operators.tables import event_loop as loop
from siddhi.engine.operators.tables.hash_index import HashIndex
from siddhi.engine.streams.clock import AppClock
from siddhi.engine.streams.junction import Junction
from siddhi.engine.streams.query_watch import QueryWatch
from siddhi.engine.streams.scheduled_node import ScheduledNode
from siddhi.engine.tuning import MAX_PROGRAM_ROWS, MAX_TABLE_PATH_ROWS
from siddhi.language.ast import AttributeType

_NONE = HashIndex.none()
TellRefused = Callable[[AppNode, int], None]
"""Reports how many rows of a node the table refused."""


class TablePath:
    """The fast path of events of `source` through `stages`, whose operations are `plan`.

    Queries that feed a stream have it in `targets`. With `shared` several queries use the table; `tell_refused`
    receives the number of rows that the table refused.
    """

    def __init__(
        self,
        source: Junction,
        stages: Sequence[ScheduledNode],
        targets: Sequence[Junction | None],
        plan: TablePlan,
        tell_refused: TellRefused,
        *,
        shared: bool,
    ) -> None:
        self._source = source
        self._stages = list(stages)
        self.table = plan.table
        self._indexes = plan.indexes
        self._unique = plan.unique
        self._tell_refused = tell_refused
        few = self.few = SmallBatch(plan.read, source.pool, room=MAX_PROGRAM_ROWS, more_lines=plan.more_lines)
        self.strings = few.strings
        self._inputs = few.memory
        self._inputs_f = few.memory.view(FLOAT64)
        self._known: BoolArray = np.ones(few.memory.shape, BOOL)
        self._texts = sorted(plan.texts)
        self._copies = [
            (self._as_cells(line, plan.read[name]) if not number else self._inputs_f[line], few.values[name])
            for (name, number), line in plan.copies.items()
        ]
        self._constant_texts: list[tuple[Int64Array, str]] = []
        for (value, type_, number), line in plan.constants.items():
            if isinstance(value, str):
                self._constant_texts.append((few.memory[line], value))
            else:
                (self._inputs_f[line] if number else self._as_cells(line, type_))[:] = value
        self._keys, self._key_parts = self._lay_out_keys(plan)
        self._operations: Int64Array = np.stack(plan.operations)
        self._parts: Int64Array = np.array([*plan.parts, 0], INT64)
        self._instructions: Int64Array = np.array([*plan.instructions, (0, 0, 0)], INT64)
        self._divides = plan.divides
        self._inserts = sum(int(one[loop.DO]) in (loop.INSERT, loop.UPSERT) for one in plan.operations)
        self._deletes = any(int(one[loop.DO]) == loop.DELETE for one in plan.operations)
        self._registers = (np.zeros(plan.longest, INT64), np.zeros(plan.longest, FLOAT64), np.zeros(plan.longest, BOOL))
        self._counters: Int64Array = np.zeros(loop.COUNTERS, INT64)
        self._gone: Int64Array = np.zeros(0, INT64)
        count = len(plan.queries)
        self._passing: Int64Array = np.zeros((count, MAX_PROGRAM_ROWS), INT64)
        self._counts: Int64Array = np.full(count, -1, INT64)
        self._reached: Int64Array = np.zeros(count, INT64)
        self._emitted: Int64Array = np.zeros(count, INT64)
        self.sources: Int64Array = np.zeros((count, MAX_PROGRAM_ROWS), INT64)
        self.taken: Int64Array = np.zeros((plan.taken_lines, MAX_PROGRAM_ROWS), INT64)
        self.taken_valid: BoolArray = np.zeros((plan.taken_lines, MAX_PROGRAM_ROWS), BOOL)
        self._batches = ReusedBatches(few, plan.read, source.pool)
        self._programs = [
            _Program(number, query, few, self._passing[number])
            for number, query in enumerate(plan.queries)
            if query.filtered or query.stores
        ]
        self._writers = [
            _ResultWriter(number, query, target, self)
            for number, (query, target) in enumerate(zip(plan.queries, targets, strict=True))
            if target is not None
        ]
        whole = all(program.is_whole for program in self._programs)
        self._most_rows = MAX_TABLE_PATH_ROWS if shared and whole else MAX_PROGRAM_ROWS
        self._layout: RecordLayout | None = None
        self._numbers: list[int] = []
        """The places of the columns in which a null stops a batch."""

    def _as_cells(self, line: int, type_: AttributeType) -> AnyArray:
        """Return a view of the low bytes of a line as values of `type_`, in the form in which a row stores them."""
        if type_ in (AttributeType.INT, AttributeType.BOOL):  # integers are read without a conversion, too
            cells: AnyArray = self._inputs[line]
            return cells
        values: AnyArray = self._inputs[line].view(DTYPES[type_])
        return values[:: len(values) // MAX_PROGRAM_ROWS]

    def _lay_out_keys(self, plan: TablePlan) -> tuple[list[Int64Array], list[tuple[Int64Array, int]]]:
        """Return the keys for both indexes, and the places for the parts of keys with their source lines."""
        keys, parts = [self._inputs.reshape(-1, 1) for _ in range(loop.SECOND_INDEX)], []
        for number, index in enumerate(plan.indexes, start=1):
            if len(index.names) == 1:
                continue
            blocks = [lines for one, lines in plan.keys if one == number]
            held: Int64Array = np.zeros((max(len(blocks), 1), MAX_PROGRAM_ROWS, len(index.names)), INT64)
            parts += [
                (held[block, :, part], line) for block, lines in enumerate(blocks) for part, line in enumerate(lines)
            ]
            keys[number - 1] = held.reshape(-1, len(index.names))
        return keys, parts

    def is_open(self, rows: int) -> bool:
        """Return whether batches of this many rows may take the fast path, as `FastPath.is_open` does."""
        if rows > self._most_rows or self._source.listeners or len(self.table.indexes) != len(self._indexes):
            return False
        return not any(stage.has_listeners for stage in self._stages)

    def run(
        self, records: pa.RecordBatch, rows: int, layout: RecordLayout, clock: AppClock, watch: QueryWatch | None
    ) -> FastPathResult | None:
        """Return the result of `records`, as `FastPath.run` does."""
        if layout is not self._layout:
            if layout.casts or layout.timestamp < 0:
                return None
            self.few.lay_out(layout)
            read = [layout.attributes[name][1] for name in self.few.values if name not in self.strings]
            self._numbers = [layout.timestamp, *read]
            for writer in self._writers:
                writer.lay_out(layout)
            self._layout = layout
        began_ns = 0 if watch is None else watch.now_ns()
        self._operations[:, loop.REFUSED] = 0
        for writer in self._writers:
            writer.begin()
        if rows <= MAX_PROGRAM_ROWS:
            if not self._take(records, rows, clock):
                return None
            latest = self.few.latest(rows)
        elif any(records.column(place).null_count for place in self._numbers):
            return None
        else:
            latest = self._take_pieces(records, rows, clock)
        if watch is not None:
            self._report(watch, rows, watch.now_ns() - began_ns)
        results = [(writer.target, writer.count, writer if writer.blocks else None) for writer in self._writers]
        return FastPathResult(rows, latest, results)

    def _take_pieces(self, records: pa.RecordBatch, rows: int, clock: AppClock) -> int:
        """Run more rows than fit into the lines at once, if none can be stopped; return their latest timestamp."""
        latest = []
        for start in range(0, rows, MAX_PROGRAM_ROWS):
            count = min(rows - start, MAX_PROGRAM_ROWS)
            if not self._take(records.slice(start, count), count, clock):
                raise AssertionError("a piece of a batch was stopped when pieces before it had run")
            latest.append(self.few.latest(count))
        return max(latest)

    def _report(self, watch: QueryWatch, rows: int, length_ns: int) -> None:
        """Report the working time of the queries: equal shares, as they run together."""
        for stage in self._stages:
            watch.worked(stage.node.name, rows, length_ns // len(self._stages))

    def tell(self, passed: FastPathResult) -> None:
        """Count the results and pass them to the listeners, then report the rows that the table refused."""
        self._source.events += passed.rows
        for target, count, _ in passed.results:
            target.events += count
        given = [(target, writer.give()) for target, _, writer in passed.results if writer is not None]
        refused = self._operations[:, loop.REFUSED]
        counts = [(int(self._operations[place, loop.QUERY]), int(refused[place])) for place in refused.nonzero()[0]]
        for target, records in given:  # a callback may send events
            target.notify_converted(records)
        for query, count in counts:
            self._tell_refused(self._stages[query].node, count)

    # ---- one piece

    def _take(self, records: pa.RecordBatch, rows: int, clock: AppClock) -> bool:
        """Run rows through all queries; return False without a change if they must take the general path."""
        few, inputs = self.few, self._inputs
        if few.read(records, rows) == REFUSED:
            return False
        for target, source in self._copies:
            target[:rows] = source[:rows]
        for line, text in self._constant_texts:
            line[:rows] = few.code(text)
        if not self._compute(rows, clock):
            return False
        for part, number in self._key_parts:
            part[:rows] = inputs[number, :rows]
        for number in self._texts:
            np.greater_equal(inputs[number, :rows], 0, out=self._known[number, :rows])
        self._run_loop(rows)
        for writer in self._writers:
            writer.write(int(self._emitted[writer.number]), records)
        return True

    def _compute(self, rows: int, clock: AppClock) -> bool:
        """Run the programs of all queries; return False when the rows must take the general path."""
        evaluation = None
        for program in self._programs:
            if program.evaluates and evaluation is None:
                evaluation = Evaluation(self._batches.of(rows, clock))
            kept = program.run(rows, evaluation)
            if kept == REFUSED:
                return False
            if program.filtered:
                self._counts[program.number] = kept
        return evaluation is None or evaluation.failed is None

    def _run_loop(self, rows: int) -> None:
        """Run the loop over `rows` events."""
        table, counters = self.table, self._counters
        table.make_room(table.used + self._inserts * rows)
        for index in self._indexes:
            index.make_room(table.used + self._inserts * rows)
        if self._divides:
            table.make_validity()
        if self._deletes and len(self._gone) < len(table) + self._inserts * rows:
            self._gone = np.zeros(2 * (len(table) + self._inserts * rows), INT64)
        counters[:] = table.used, len(table), 0, 0, -1
        self._reached[:] = 0
        self._emitted[:] = 0
        first, second = [index.arrays for index in (*self._indexes, _NONE, _NONE)[: loop.SECOND_INDEX]]
        cells, done = table.cells, False
        while not done:
            done = loop.run_events(
                counters, self._operations, self._parts, self._instructions, rows, self._passing, self._counts,
                self._reached, self._unique, self._inputs, self._inputs_f, self._known, *self._keys,
                cells, cells.view(FLOAT64), cells.view(np.float32), table.valid, table.alive, *first, *second,
                *self._registers, self._gone, self._emitted, self.sources, self.taken, self.taken_valid,
            )  # fmt: skip
            if not done:
                self._make_room_for_results()
        table.take_up(int(counters[loop.USED]), int(counters[loop.ALIVE]))
        if counters[loop.GONE]:
            table.drop_from_indexes(self._gone[: counters[loop.GONE]])

    def _make_room_for_results(self) -> None:
        room = 2 * self.sources.shape[1]
        self.sources = _wider(self.sources, room)
        self.taken = _wider(self.taken, room)
        self.taken_valid = _wider(self.taken_valid, room)
        for writer in self._writers:
            writer.find_values()


class _Program:
    """The program of one query of `path`, and the addresses of its results."""

    def __init__(self, number: int, query: LoopedQuery, few: SmallBatch, passing: Int64Array) -> None:
        self.number = number
        self.filtered = query.filtered
        self._words: Int64Array = np.zeros((max(len(query.stores), 1), RESULT_WORDS), INT64)
        for words, (line, valid, _) in zip(self._words, query.stores, strict=False):
            words[0] = address_of(few.memory[line])
            words[1] = 0 if not valid else address_of(few.memory[valid])
        self._stops = np.array([stops for _, _, stops in query.stores], BOOL)
        self._program = LineProgram(query.program, few.addresses, address_of(self._words), positions=passing)
        self.evaluates = self._program.evaluates
        simple = all(isinstance(node, ColumnNode | ConstantNode | StringConstantNode) for node in query.program.inputs)
        divides = bool(np.isin(query.program.lines[:, 0], DIVISIONS).any())
        self.is_whole = simple and not (divides and self._stops.any())
        """Whether it stops no batch, and gives the same for parts of one."""

    def run(self, rows: int, evaluation: Evaluation | None) -> int:
        """Return how many rows pass the filter, `REFUSED` when the batch must take the general path."""
        with np.errstate(all="ignore"):  # numbers overflow silently, as in Java
            kept, nulls = self._program.run(rows, evaluation if self.evaluates else None)
        if nulls and self._words[: len(self._stops)][self._stops, RESULT_WORDS - 1].any():
            return REFUSED
        return kept


class _ResultWriter:
    """Writes the results of one query for its stream `target`."""

    def __init__(self, number: int, query: LoopedQuery, target: Junction, path: TablePath) -> None:
        self.number = number
        self.target = target
        self.count = 0
        self.blocks: list[pa.RecordBatch] = []
        self._path = path
        self._query = query
        self._passing = {name: attribute for name, attribute in query.attributes if attribute not in path.few.values}
        """The strings that only pass by, which are taken from the batch that came."""
        self._places: dict[str, int] = {}
        written = {name: type_ for name, type_ in target.types.items() if name not in self._passing}
        self._results = SmallBatchResults(written, target.pool)
        self._schema = record_schema(target.types)
        self._valid = {line: valid for line, valid, _ in query.stores}
        self._narrow = [
            (name, line, dtype)
            for name, attribute, line in query.of_rows
            if (dtype := DTYPES[path.table.types[attribute]]).itemsize < INT64.itemsize
        ]
        self.find_values()

    def lay_out(self, layout: RecordLayout) -> None:
        """Prepare for batches with the columns of `layout`."""
        self._places = {column_name(name): layout.attributes[attribute][1] for name, attribute in self._passing.items()}

    def begin(self) -> None:
        """Start another batch."""
        self.count = 0
        self.blocks.clear()

    def find_values(self) -> None:
        """Set the addresses of the values after they have moved."""
        path, few, results = self._path, self._path.few, self._results
        rows_at = address_of(path.sources[self.number])
        results.set_timestamps(few.stamps_at, rows_at)
        for name, attribute in self._query.attributes:
            if name in self._passing:
                continue
            results.set_values(name, few.addresses[attribute], 0, rows_at)
        for name, line in self._query.computed:
            valid = self._valid[line]
            valid_at = address_of(few.memory[valid]) if valid else 0
            results.set_values(name, address_of(few.memory[line]), valid_at, rows_at)
        for name, attribute, line in self._query.of_rows:
            valid_at = 0 if path.table.types[attribute] is AttributeType.STRING else address_of(path.taken_valid[line])
            results.set_values(name, address_of(path.taken[line]), valid_at)

    def write(self, count: int, records: pa.RecordBatch) -> None:
        """Add the first `count` results of `records`."""
        self.count += count
        if not count or not self.target.listeners:
            return
        kept = []
        for name, line, dtype in self._narrow:
            cells = self._path.taken[line].view(dtype)
            values = np.ascontiguousarray(cells[:: len(cells) // self._path.taken.shape[1]][:count])
            kept.append(values)
            self._results.set_values(name, address_of(values), address_of(self._path.taken_valid[line]))
        block = self._results.write(count)
        del kept
        if self._passing:
            rows = self._path.sources[self.number, :count].copy()
            passed = {name: take_strings(records.column(place), rows) for name, place in self._places.items()}
            columns = [passed[name] if name in passed else block.column(name) for name in self._schema.names]
            block = pa.RecordBatch.from_arrays(columns, schema=self._schema)
        self.blocks.append(block)

    def give(self) -> pa.RecordBatch:
        """Return the results of the batch."""
        blocks, self.blocks = self.blocks, []
        return blocks[0] if len(blocks) == 1 else pa.concat_batches(blocks)


def _wider(array: AnyArray, room: int) -> AnyArray:
    """Return a copy of the lines of `array` with room for so many values."""
    wider = np.zeros((len(array), room), array.dtype)
    wider[:, : array.shape[1]] = array
    return wider
