"""The fast path through filters and a selection of computed values, where a query keeps nothing.

    records ──▶ lines ──conditions──▶ lines of what passes ──outputs──▶ lines of results ──▶ records
                          program                            program

Operations, and the functions that select, test or convert values, run as one program over the lines. Other functions
are evaluated as on the general path, from columns at fixed addresses.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa

from siddhi.analysis import model
from siddhi.analysis.expression.walk import walk
from siddhi.engine.arrow_c.copy_kernel import REFUSED
from siddhi.engine.columnar.column import DTYPES
from siddhi.engine.columnar.strings import StringPool
from siddhi.engine.fast_path.computed_outputs import ComputedOutputs, LineProgram, OutputProgram
from siddhi.engine.fast_path.instance_keys import InstanceKeys
from siddhi.engine.fast_path.reused_batch import ReusedBatches
from siddhi.engine.fast_path.small_batch import SmallBatch, SmallBatchResults
from siddhi.engine.fast_path.small_batch_route import SmallBatchRoute
from siddhi.engine.jit.bits import address_of
from siddhi.engine.operators.base.choices import Choices
from siddhi.engine.operators.expressions.batch_kernel import KEEP
from siddhi.engine.operators.expressions.batch_program import BatchProgram
from siddhi.engine.operators.expressions.compiler import ExpressionCompiler
from siddhi.engine.operators.expressions.evaluation import Evaluation, ExpressionNode, broadcast
from siddhi.engine.operators.expressions.register_program import NoProgramError
from siddhi.engine.operators.selection.plain_query import PlainTest, plain_tests
from siddhi.engine.operators.selection.selector import Selector
from siddhi.engine.planner.query import QueryNode
from siddhi.engine.streams.clock import AppClock
from siddhi.engine.tuning import MAX_PROGRAM_LINES
from siddhi.language.ast import AttributeType


class SelectionRoute(SmallBatchRoute):
    """A route for rows through `conditions` and the selection `outputs`, to a stream with the attributes `types`.

    `instances` finds the instances of rows in a partition; rows that open an instance take the general path. With
    `held` the program of the outputs ends with the condition for emitting a row.
    """

    def __init__(
        self,
        few: SmallBatch,
        pool: StringPool,
        read: Mapping[str, AttributeType],
        types: Mapping[str, AttributeType],
        conditions: BatchProgram | None,
        outputs: OutputProgram,
        instances: InstanceKeys | None,
        *,
        held: bool,
    ) -> None:
        super().__init__(few)
        self._instances = instances
        self._codes = few.values[instances.attribute] if instances is not None else None
        self._conditions = None if conditions is None else LineProgram(conditions, few.addresses, 0)
        self._results = SmallBatchResults(types, pool)
        self._computed = ComputedOutputs(outputs, few.addresses, self._results, few.stamps_at, held=held)
        self._evaluated = [(name, node, DTYPES[node.type]) for name, node in outputs.evaluated.items()]
        self._evaluates = bool(self._evaluated) or self._computed.evaluates
        self._kept: list[object] = []
        """Keeps the memory of results alive until they are written."""
        self._batches = ReusedBatches(few, read, pool)

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
            return self._computed.run(rows, None)
        evaluation = Evaluation(self._batches.of(rows, clock))
        with np.errstate(all="ignore"):  # numbers overflow silently, as in Java
            for name, node, dtype in self._evaluated:
                values, valid = broadcast(node.evaluate(evaluation), rows)
                values = np.ascontiguousarray(values, dtype)
                valid = None if valid is None or node.type is AttributeType.STRING else np.ascontiguousarray(valid)
                self._kept.append((values, valid))
                self._results.set_values(name, address_of(values), 0 if valid is None else address_of(valid))
            count = self._computed.run(rows, evaluation)
        if evaluation.failed is not None:
            self.end()
            return REFUSED
        return count

    def _tested(self, conditions: LineProgram, rows: int, clock: AppClock) -> int:
        """Return how many of the rows pass the conditions, `REFUSED` when one fails."""
        if not conditions.evaluates:
            return conditions.run(rows, None)[0]
        evaluation = Evaluation(self._batches.of(rows, clock))
        with np.errstate(all="ignore"):
            kept, _ = conditions.run(rows, evaluation)
        return REFUSED if evaluation.failed is not None else kept

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
    the instances. There is no route through anything that keeps state, reads tables, reads or returns objects, or calls
    scripts of the app, which could observe a repeated call.
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
    """Return the route of the stateless `query`; raise NoProgramError when a program cannot test its rows."""
    selection, having = query.analysed.selection, query.analysed.selection.having
    compiler = ExpressionCompiler(replace(query.context, failing=None, choices=Choices()), calls=query.nodes)
    nodes: dict[int, ExpressionNode] = {}
    tested: BatchProgram | None = None
    for condition in conditions:
        nodes.update(compiler.nodes_of(condition))
        tested = BatchProgram(nodes) if tested is None else tested
        tested.put(KEEP, tested.truth(condition))
    wanted = having is not None
    outputs = OutputProgram(BatchProgram(nodes))
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
