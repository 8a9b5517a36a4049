"""The fast path through filters and a selection of computed values, where a query keeps nothing.

    records ──▶ lines ──conditions──▶ lines of what passes ──outputs──▶ lines of results ──▶ records
                          program                            program

Operations, and the functions that choose, test or convert values, run as one program over the lines; other functions
are evaluated as on the general path, from columns that stay in the same places for all batches.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa

from siddhi.analysis import model
from siddhi.analysis.expression.walk import walk
from siddhi.engine.arrow_c.copy_kernel import REFUSED
from siddhi.engine.columnar.batch import EventBatch
from siddhi.engine.columnar.column import DTYPES, Column
from siddhi.engine.columnar.strings import StringPool
from siddhi.engine.fast_path.instance_keys import InstanceKeys
from siddhi.engine.fast_path.small_batch import SmallBatch, SmallBatchResults
from siddhi.engine.fast_path.small_batch_route import SmallBatchRoute
from siddhi.engine.jit.arrays import BOOL, INT64, AnyArray, BoolArray, Int64Array
from siddhi.engine.jit.bits import address_of
from siddhi.engine.operators.base.choices import Choices
from siddhi.engine.operators.expressions.batch_kernel import KEEP, RESULT_WORDS
from siddhi.engine.operators.expressions.batch_program import BatchProgram, ProgramInputs, run_program
from siddhi.engine.operators.expressions.compiler import ExpressionCompiler
from siddhi.engine.operators.expressions.evaluation import Evaluation, ExpressionNode, broadcast
from siddhi.engine.operators.expressions.leaves import ColumnNode
from siddhi.engine.operators.expressions.register_program import NoProgramError
from siddhi.engine.operators.selection.plain_query import PlainTest, plain_tests
from siddhi.engine.operators.selection.selector import Selector
from siddhi.engine.planner.query import QueryNode
from siddhi.engine.streams.clock import AppClock
from siddhi.engine.tuning import MAX_PROGRAM_LINES, MAX_SMALL_BATCH_ROWS
from siddhi.language.ast import AttributeType


class _ReusedBatch(EventBatch):
    """Rows in the lines of a small batch, which the next batch overwrites: nothing may keep its arrays.

    The clock is asked only for what reads it.
    """

    __slots__ = ("clock",)
    clock: AppClock

    def _from_origin(self, name: str) -> AnyArray:
        if name != "clocks":
            raise AssertionError(f"rows of a selection by itself have no {name}")
        return self.clock.at_rows(self.timestamps)


class _Program:
    """A program over the lines of a small batch; `results_at` is where the words of its results are."""

    def __init__(self, program: BatchProgram, few: SmallBatch, results_at: int) -> None:
        self._inputs = ProgramInputs(program)
        self._inputs.fix(few.addresses)
        self._lines = program.lines
        self._results_at = results_at
        self.positions: Int64Array = np.zeros(MAX_SMALL_BATCH_ROWS, INT64)
        """The rows that are kept, where the program has a condition."""
        self.evaluates = self._inputs.evaluates
        """Whether nodes evaluate inputs."""

    def run(self, rows: int, evaluation: Evaluation | None) -> tuple[int, int]:
        """Run the program as `run_over_rows` does; `evaluation` is required if inputs are evaluated."""
        kept = None if evaluation is None else self._inputs.evaluate(evaluation)
        told = run_program(self._lines, self._inputs.plan_at, self._results_at, rows, self.positions)
        del kept
        return told


class _Outputs:
    """How the output values of a selection are produced.

    Copied from attributes, stored by a program, or evaluated by nodes.
    """

    def __init__(self, program: BatchProgram) -> None:
        self.program = program
        self.as_they_are: dict[str, str] = {}
        self.stored: dict[str, AttributeType] = {}
        self.evaluated: dict[str, ExpressionNode] = {}

    def add(self, name: str, node: ExpressionNode, expression: model.TypedExpression, *, wanted: bool) -> None:
        """Add the output `name`. Conditions read it if it is `wanted`: then it has a register."""
        program = self.program
        if isinstance(node, ColumnNode):
            self.as_they_are[name] = node.column
            if wanted:
                program.outputs[name] = program.register(expression)
            return
        mark = program.mark()
        try:
            register = program.register(expression)
            if wanted or not program.is_read(register):
                program.outputs[name] = register
                program.store(register, expression.type, len(self.stored))
                self.stored[name] = expression.type
                return
        except NoProgramError:
            if wanted:
                raise
        program.back_to(mark)
        self.evaluated[name] = node


class SelectionRoute(SmallBatchRoute):
    """A route for rows through `conditions` and the selection `outputs`, to a stream with the attributes `types`.

    `instances` finds the instances of rows in a partition: those that open one take the general path. With `held` the
    program of the outputs ends with the condition for rows to come out.
    """

    def __init__(
        self,
        few: SmallBatch,
        pool: StringPool,
        read: Mapping[str, AttributeType],
        types: Mapping[str, AttributeType],
        conditions: BatchProgram | None,
        outputs: _Outputs,
        instances: InstanceKeys | None,
        *,
        held: bool,
    ) -> None:
        super().__init__(few)
        self._instances = instances
        self._codes = few.values[instances.attribute] if instances is not None else None
        self._conditions = None if conditions is None else _Program(conditions, few, 0)
        count = len(outputs.stored)
        self._out: Int64Array = np.zeros((count, MAX_SMALL_BATCH_ROWS), INT64)
        self._valid: BoolArray = np.zeros((count, MAX_SMALL_BATCH_ROWS), BOOL)
        self._words: Int64Array = np.zeros((max(count, 1), RESULT_WORDS), INT64)
        self._results = SmallBatchResults(types, pool)
        program = outputs.program
        self._program = _Program(program, few, address_of(self._words)) if len(program) else None
        self._positions_at = address_of(self._program.positions) if held and self._program is not None else 0
        self._results.stamps_lie(few.stamps_at, self._positions_at)
        for name, attribute in outputs.as_they_are.items():
            self._results.values_lie(name, few.addresses[attribute], 0, self._positions_at)
        self._stored: list[tuple[str, int, int]] = []
        for number, (name, type_) in enumerate(outputs.stored.items()):
            values_at, valid_at = address_of(self._out[number]), address_of(self._valid[number])
            never_null = type_ in (AttributeType.BOOL, AttributeType.STRING)
            self._words[number] = values_at, 0 if never_null else valid_at, 0
            self._results.values_lie(name, values_at, 0, self._positions_at)
            self._stored.append((name, values_at, 0 if never_null else valid_at))
        self._evaluated = [(name, node, DTYPES[node.type]) for name, node in outputs.evaluated.items()]
        self._evaluates = bool(self._evaluated) or (self._program is not None and self._program.evaluates)
        self._masked = False
        self._kept: list[object] = []
        """Keeps the memory of results alive until they are written."""
        self._columns = {name: (type_, few.values[name], few.addresses[name]) for name, type_ in read.items()}
        self._pool = pool
        self._batches: dict[int, _ReusedBatch] = {}
        """Views of the same lines by their number of rows, so at most `MAX_SMALL_BATCH_ROWS`."""

    def cut(self, rows: int) -> None:
        """Do nothing: rows are counted when conditions have been tested."""

    def take_in(self, rows: int, clock: AppClock) -> int:
        if self._instances is not None and self._codes is not None and self._instances.ids(self._codes[:rows]) is None:
            return REFUSED
        conditions = self._conditions
        if conditions is not None:
            kept = self._tested(conditions, rows, clock)
            if kept <= 0:
                return kept
            if kept < rows and not self.few.keep(conditions.positions, kept, rows):
                return REFUSED
            rows = kept
        if not self._evaluates:
            return rows if self._program is None else self._run(self._program, rows, None)
        evaluation = Evaluation(self._batch(rows, clock))
        with np.errstate(all="ignore"):  # Java's numbers overflow in silence
            for name, node, dtype in self._evaluated:
                values, valid = broadcast(node.evaluate(evaluation), rows)
                values = np.ascontiguousarray(values, dtype)
                valid = None if valid is None or node.type is AttributeType.STRING else np.ascontiguousarray(valid)
                self._kept.append((values, valid))
                self._results.values_lie(name, address_of(values), 0 if valid is None else address_of(valid))
            count = rows if self._program is None else self._run(self._program, rows, evaluation)
        if evaluation.failed is not None:
            self.end()
            return REFUSED
        return count

    def _tested(self, conditions: _Program, rows: int, clock: AppClock) -> int:
        """Return how many of the rows pass the conditions, `REFUSED` when one fails."""
        if not conditions.evaluates:
            return conditions.run(rows, None)[0]
        evaluation = Evaluation(self._batch(rows, clock))
        with np.errstate(all="ignore"):
            kept, _ = conditions.run(rows, evaluation)
        return REFUSED if evaluation.failed is not None else kept

    def _run(self, program: _Program, rows: int, evaluation: Evaluation | None) -> int:
        """Run the program of the outputs; return how many rows come out."""
        count, nulls = program.run(rows, evaluation if program.evaluates else None)
        if nulls or self._masked:
            self._masked = bool(nulls)
            for name, values_at, valid_at in self._stored:
                self._results.values_lie(name, values_at, valid_at if nulls else 0, self._positions_at)
        return count

    def _batch(self, rows: int, clock: AppClock) -> _ReusedBatch:
        batch = self._batches.get(rows)
        if batch is None:
            columns = {
                name: Column(type_, self._pool, values[:rows], None, None, None, address)
                for name, (type_, values, address) in self._columns.items()
            }
            batch = self._batches[rows] = _ReusedBatch(
                self.few.stamps[:rows], None, None, None, columns, only_current=True
            )
        batch.clock, batch._clocks = clock, None
        return batch

    def write(self, count: int) -> pa.RecordBatch:
        return self._results.write(count)

    def end(self) -> None:
        self._kept.clear()


def selection_route(
    query: QueryNode,
    source: Mapping[str, AttributeType],
    types: Mapping[str, AttributeType],
    instances: InstanceKeys | None,
) -> SelectionRoute | None:
    """Return the fast route of events through `query`, None if there is none.

    The events have the attributes `source`, the target stream the attributes `types`; in a partition `instances` finds
    theirs. There is no route through anything that keeps state, reads tables, reads or returns objects, or calls
    scripts of the app, which might notice a second call.
    """
    analysed, selector = query.analysed, query.selector
    origin, selection = analysed.input, analysed.selection
    if not isinstance(selector, Selector) or not isinstance(origin, model.SourceInput) or query.limiter is not None:
        return None
    if origin.kind is not model.SourceKind.STREAM or origin.window is not None or origin.after:
        return None
    if not selector.takes_current or selection.group_by or selection.aggregates or selection.order_by:
        return None
    if not selector.unlimited or AttributeType.OBJECT in types.values() or query.writer is not None:
        return None
    tests = None if instances is not None else plain_tests(origin)  # all rows of a partition open its instances
    conditions = [step.condition for step in origin.before if isinstance(step, model.FilterStep)]
    if len(conditions) < len(origin.before):
        return None
    having = [] if selection.having is None else [selection.having]
    computed = [*([] if tests is not None else conditions), *(one.expression for one in selection.attributes), *having]
    parts = [part for one in computed for part in walk(one)]
    if any(isinstance(part, model.InTable | model.Aggregate) for part in parts):
        return None
    if any(isinstance(part, model.Call) and part.script is not None for part in parts):
        return None
    try:
        return _route(query, source, types, instances, tests, [] if tests is not None else conditions)
    except NoProgramError:
        return None


def _route(
    query: QueryNode,
    source: Mapping[str, AttributeType],
    types: Mapping[str, AttributeType],
    instances: InstanceKeys | None,
    tests: Sequence[PlainTest] | None,
    conditions: Iterable[model.TypedExpression],
) -> SelectionRoute | None:
    """Return the route of `query`, which keeps nothing; raise NoProgramError when a program cannot test its rows."""
    selection, having = query.analysed.selection, query.analysed.selection.having
    compiler = ExpressionCompiler(replace(query.context, failing=None, choices=Choices()), calls=query.nodes)
    nodes: dict[int, ExpressionNode] = {}
    tested: BatchProgram | None = None
    for condition in conditions:
        nodes.update(compiler.nodes_of(condition))
        tested = BatchProgram(nodes) if tested is None else tested
        tested.put(KEEP, tested.truth(condition))
    wanted = having is not None
    outputs = _Outputs(BatchProgram(nodes))
    for one in selection.attributes:
        nodes.update(compiler.nodes_of(one.expression))
        outputs.add(one.name, compiler.compile(one.expression), one.expression, wanted=wanted)
    if having is not None:
        nodes.update(compiler.nodes_of(having))
        outputs.program.put(KEEP, outputs.program.truth(having))
    longest = max(len(outputs.program), 0 if tested is None else len(tested))
    if any(node.stateful for node in nodes.values()) or longest > MAX_PROGRAM_LINES:
        return None
    names = dict.fromkeys([*compiler.columns, *([] if instances is None else [instances.attribute])])
    read = {name: source[name] for name in names}
    if AttributeType.OBJECT in read.values():
        return None
    pool = query.context.pool
    few = SmallBatch(read, pool, tests or ())
    return SelectionRoute(few, pool, read, types, tested, outputs, instances, held=wanted)
