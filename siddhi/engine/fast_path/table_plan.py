"""The queries on one stream that use one table, as operations of one loop.

    from S[price > 50] select symbol, price update or insert into K on K.symbol == symbol;      program, UPSERT
    from S[K.symbol == symbol in K] select symbol insert into Out;                              ASK, EMIT

Values that depend on the event alone are computed for all events before the loop, by one program for each query. They
are stored in lines of memory, from which the loop reads keys, new rows and inputs of the programs over rows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from siddhi.analysis import model
from siddhi.analysis.expression.walk import conjuncts, walk
from siddhi.analysis.parts import parts_of
from siddhi.engine.columnar.column import DTYPES
from siddhi.engine.jit.arrays import INT64, Int64Array
from siddhi.engine.operators.base.choices import Choices
from siddhi.engine.operators.base.scope import EVENT_TIMESTAMP
from siddhi.engine.operators.expressions.batch_kernel import KEEP
from siddhi.engine.operators.expressions.batch_program import BatchProgram
from siddhi.engine.operators.expressions.compiler import ExpressionCompiler
from siddhi.engine.operators.expressions.evaluation import ExpressionNode
from siddhi.engine.operators.expressions.register_program import DIVISIONS, FRACTIONS, NoProgramError
from siddhi.engine.operators.filters import Filter
from siddhi.engine.operators.joins.held import HeldTable
from siddhi.engine.operators.joins.join import JoinOperator
from siddhi.engine.operators.selection.selector import Selector
from siddhi.engine.operators.tables import event_loop as loop
from siddhi.engine.operators.tables.careful import needs_care
from siddhi.engine.operators.tables.hash_index import HashIndex
from siddhi.engine.operators.tables.matching import RowMatcher
from siddhi.engine.operators.tables.row_program import RowProgram
from siddhi.engine.operators.tables.table import Table
from siddhi.engine.operators.tables.writer import TableWriter
from siddhi.engine.planner.query import QueryNode
from siddhi.engine.tuning import MAX_PROGRAM_LINES, MAX_PROGRAM_ROWS
from siddhi.language.ast import AttributeType

_WRITES = {"insert": loop.INSERT, "delete": loop.DELETE, "update": loop.UPDATE, "update or insert": loop.UPSERT}
_WIDE = {AttributeType.INT: AttributeType.LONG, AttributeType.BOOL: AttributeType.LONG}
"""As what values are stored that take 8 bytes in a line."""


@dataclass(slots=True)
class LoopedQuery:
    """One query of the plan.

    `program` tests its filter if it is `filtered`, and stores values in lines: `stores` has for each the line, the line
    of its validity (0: none), and whether a null stops the batch. The outputs for a stream are `attributes` of events,
    values `computed` in a line, and values `of_rows`: attributes of the table, with their lines in the output of the
    loop. Each has the name of the output.
    """

    node: QueryNode
    program: BatchProgram
    filtered: bool = False
    stores: list[tuple[int, int, bool]] = field(default_factory=list)
    attributes: list[tuple[str, str]] = field(default_factory=list)
    computed: list[tuple[str, int]] = field(default_factory=list)
    of_rows: list[tuple[str, str, int]] = field(default_factory=list)


class TablePlan:
    """The operations of `nodes`, in their order, which all read the stream with the attributes `source`.

    The only table that they use is `table`. Raise NoProgramError when the loop cannot run them all.
    """

    def __init__(
        self,
        nodes: Sequence[QueryNode],
        source: Mapping[str, AttributeType],
        table: Table,
        passing: frozenset[str] = frozenset(),
    ) -> None:
        """Plan the queries; strings that are only passed on are in `passing`: they are not read."""
        self.table = table
        self.indexes = list(table.indexes.values())
        self.read = {name: source[name] for node in nodes for name in _attributes(node) if name not in passing}
        self.used: set[str] = set()
        """The attributes that are read for more than to pass them on."""
        if type(table) is not Table or len(self.indexes) > loop.SECOND_INDEX:
            raise NoProgramError("the table is in an external store, or has too many indexes")
        if AttributeType.OBJECT in {*self.read.values(), *table.types.values()}:
            raise NoProgramError("objects are read")
        self.unique = 0 if table.key is None else self.number_of(table.key)
        self._lines = {name: line for line, name in enumerate(self.read, start=1)}
        self._first_line = 2 * (1 + len(self.read))
        self.more_lines = 0
        self.copies: dict[tuple[str, bool], int] = {}
        """The lines that get copies of attributes, and whether these are numbers of a program or cells of a row."""
        self.constants: dict[tuple[object, AttributeType, bool], int] = {}
        """The lines with constants, by value and type, and whether they are numbers of a program."""
        self.keys: dict[tuple[int, tuple[int, ...]], int] = {}
        """The keys of several parts by the number of the index and the lines of the parts; their places in order."""
        self.texts: set[int] = set()
        """The lines with codes of strings that programs over rows read."""
        self.parts: list[int] = []
        self.instructions: list[tuple[int, int, int]] = []
        self.longest = 1
        """The number of registers that a program over rows takes."""
        self.taken_lines = 0
        self.divides = False
        """Whether a program over rows may give null."""
        self.operations: list[Int64Array] = []
        self.queries: list[LoopedQuery] = []
        for node in nodes:
            if node.limiter is not None or node.timed or node.by_key or node.may_fail or node.fused is not None:
                raise NoProgramError("it keeps something, or may fail")
            self.queries.append(_QueryPlanner(self, node).planned())

    @property
    def lines(self) -> int:
        """The number of lines of memory, including those that each small batch has."""
        return self._first_line + self.more_lines

    def number_of(self, index: HashIndex) -> int:
        """Return the number of `index` in the loop."""
        return next(place for place, one in enumerate(self.indexes, start=1) if one is index)

    def new_line(self) -> int:
        """Return the number of another line."""
        self.more_lines += 1
        return self.lines - 1

    def attribute(self, name: str, *, number: bool) -> int:
        """Return the line of attribute `name`, in 8 bytes: as a `number` of a program, or as a cell of a row."""
        type_ = self.read[name]
        self.used.add(name)
        if DTYPES[type_].itemsize == INT64.itemsize:
            return self._lines[name]
        key = name, number and type_ is AttributeType.FLOAT
        if key not in self.copies:
            self.copies[key] = self.new_line()
        return self.copies[key]

    def constant(self, value: object, type_: AttributeType, *, number: bool) -> int:
        """Return the line of a constant, as `attribute` does."""
        key = value, type_, number and type_ is AttributeType.FLOAT
        if key not in self.constants:
            self.constants[key] = self.new_line()
        return self.constants[key]

    def key(self, index: HashIndex, lines: Sequence[int]) -> int:
        """Return the start of the keys whose parts are these `lines`."""
        if len(lines) == 1:
            return lines[0] * MAX_PROGRAM_ROWS
        wanted = self.number_of(index), tuple(lines)
        place = sum(number == wanted[0] for number, _ in self.keys)
        return self.keys.setdefault(wanted, place) * MAX_PROGRAM_ROWS


def table_plan(nodes: Sequence[QueryNode], source: Mapping[str, AttributeType], table: Table) -> TablePlan:
    """Return the plan of `nodes`, as `TablePlan` creates it; strings that are only passed on are not read."""
    plan = TablePlan(nodes, source, table)
    strings = {name for name, type_ in plan.read.items() if type_ is AttributeType.STRING}
    passing = frozenset(strings - plan.used)
    return TablePlan(nodes, source, table, passing) if passing else plan


def _attributes(node: QueryNode) -> dict[str, None]:
    """Return the attributes of events that `node` reads."""
    join, analysed = node.head, node.analysed
    if isinstance(join, JoinOperator) and join.steady is not None:
        side = join.steady[0]
        names, read = dict.fromkeys(side.types), parts_of(_side(node, side.slot).before)
    else:
        names, read = {}, parts_of((analysed.input, analysed.selection))
    return names | dict.fromkeys(one.name for one in read if isinstance(one, model.AttributeValue))


def _side(node: QueryNode, slot: int) -> model.SourceInput:
    assert isinstance(node.analysed.input, model.Join)  # noqa: S101 - it has a join operator
    return (node.analysed.input.left, node.analysed.input.right)[slot]


class _EventProgram(RowProgram):
    """A program over rows whose inputs are lines, as `values` gives them."""

    def __init__(self, table: Table, compiler: ExpressionCompiler, values: _QueryPlanner) -> None:
        super().__init__(table, compiler)
        self._values = values

    def input_of(self, expression: model.TypedExpression) -> int:
        line = self._values.line(expression, number=True)
        if expression.type is AttributeType.STRING:
            self._values.plan.texts.add(line)
        return line

    def time_input(self) -> int:
        return 0


class _QueryPlanner:
    """Plans the query of `node`: its expressions become lines, its filters and actions operations of `plan`."""

    def __init__(self, plan: TablePlan, node: QueryNode) -> None:
        self.plan = plan
        self._node = node
        context = replace(node.context, failing=None, choices=Choices())
        self._compiler = ExpressionCompiler(context, calls=node.nodes)
        self._nodes: dict[int, ExpressionNode] = {}
        self._program = BatchProgram(self._nodes)
        self._query = LoopedQuery(node, self._program)
        self._selected = {one.name: one.expression for one in node.analysed.selection.attributes}
        self._begun = len(plan.operations)
        self._stored: list[tuple[model.TypedExpression, AttributeType, int]] = []

    def planned(self) -> LoopedQuery:
        """Return the query after adding its operations to the plan."""
        join, source = self._node.head, self._node.analysed.input
        if isinstance(join, JoinOperator):
            self._join(join)
        elif join is None and isinstance(source, model.SourceInput):
            self._select(source)
        else:
            raise NoProgramError("it is neither a selection nor a join with a table")
        if len(self._program) > MAX_PROGRAM_LINES or any(one.stateful for one in self._nodes.values()):
            raise NoProgramError("it computes too much, or a function keeps something")
        self.plan.used |= self._compiler.columns.keys()
        for operation in self.plan.operations[self._begun :]:
            operation[loop.NEXT] = len(self.plan.operations)
        return self._query

    def _select(self, source: model.SourceInput) -> None:
        """Plan a query without a join."""
        node, selection = self._node, self._node.analysed.selection
        selector = node.selector
        if not isinstance(selector, Selector) or not (selector.takes_current and selector.unlimited):
            raise NoProgramError("it does not select rows one by one")
        if selection.group_by or selection.aggregates or selection.order_by or selection.having is not None:
            raise NoProgramError("it does not select rows one by one")
        if source.kind is not model.SourceKind.STREAM or source.window is not None or source.after:
            raise NoProgramError("it has a window")
        self._filters(source)
        if node.writer is not None:
            self._write(node.writer)
            return
        for name, expression in self._selected.items():
            if isinstance(expression, model.AttributeValue):
                self._query.attributes.append((name, expression.name))
            else:
                self._query.computed.append((name, self._store(expression, expression.type, stops=False)))
        self._operation(loop.EMIT)

    def _join(self, join: JoinOperator) -> None:
        """Plan a join of events with the rows of the table."""
        node, table = self._node, self.plan.table
        if join.steady is None or not join.only_current or not node.hands_on or node.writer is not None:
            raise NoProgramError("the join does more than to pair events with rows")
        side, other = join.steady
        if not side.bare or not side.triggers or not all(isinstance(one, Filter) for one in side.chain):
            raise NoProgramError("the join does more than to pair events with rows")
        if not isinstance(other.held, HeldTable) or other.held.matcher.table is not table:
            raise NoProgramError("the join is not with the table")
        matcher = other.held.matcher
        if matcher.index is None or matcher.rest is not None:
            raise NoProgramError("the join looks at other values of rows than keys")
        if matcher.index is not table.key and table.is_met_by_number:
            raise NoProgramError("rows are met in the order of a number")
        self._filters(_side(node, side.slot))
        operation = self._operation(loop.JOIN)
        self._look_up(operation, matcher)
        operation[loop.WANTED] = side.keeps_unmatched
        operation[loop.TAKEN], operation[loop.LINE] = len(self.plan.parts), self.plan.taken_lines
        self._query.attributes += side.selected
        for output, name in other.selected:
            self._query.of_rows.append((output, name, self.plan.taken_lines))
            self.plan.parts.append(table.line_of(name))
            self.plan.taken_lines += 1
        operation[loop.TAKEN_END] = len(self.plan.parts)

    def _filters(self, source: model.SourceInput) -> None:
        """Plan the filters of `source`: a program, and operations for filters that search the table."""
        memberships: list[tuple[model.InTable, bool]] = []
        for step in source.before:
            if not isinstance(step, model.FilterStep):
                raise NoProgramError("it has a stream function")
            for part in conjuncts(step.condition):
                inner, wanted = (part.operand, False) if isinstance(part, model.Negation) else (part, True)
                if isinstance(inner, model.InTable):
                    memberships.append((inner, wanted))
                    continue
                self._know(part)
                self._program.put(KEEP, self._program.truth(part))
                self._query.filtered = True
        for membership, wanted in memberships:
            self._ask(membership, wanted=wanted)

    def _ask(self, membership: model.InTable, *, wanted: bool) -> None:
        """Plan a filter that searches the table."""
        table, condition = self.plan.table, membership.condition
        if membership.table != table.id or needs_care(condition, self._compiler):
            raise NoProgramError("it looks into another table, or may fail")
        if not any(isinstance(part, model.TableValue) for part in walk(condition)):
            raise NoProgramError("it requires nothing of a row")
        matcher = RowMatcher(condition, table, self._compiler.afresh(), makes_index=False)
        operation = self._operation(loop.ASK)
        operation[loop.WANTED] = wanted
        self._look_up(operation, matcher)
        self._row_program(operation, matcher.rest, ())

    def _write(self, writer: TableWriter) -> None:
        """Plan a write."""
        table, inserts = self.plan.table, writer.action in ("insert", "update or insert")
        if writer.table is not table or not writer.shares:
            raise NoProgramError("the loop cannot carry out its writes")
        operation = self._operation(_WRITES[writer.action])
        types = dict(self._node.analysed.output.schema.attributes)
        written = {name: model.OutputValue(output, types[output]) for name, output in writer.inserted.items()}
        if writer.replaces:
            assert table.key is not None  # noqa: S101 - what replaces rows has a primary key
            operation[loop.INDEX] = self.plan.number_of(table.key)
            operation[loop.KEY] = self._key_of(table.key, written)
        elif writer.action != "insert":
            self._look_up(operation, writer.matcher)
        asked = None if writer.replaces or writer.action == "insert" else writer.matcher.rest
        self._row_program(operation, asked, *writer.changes)
        if not inserts:
            return
        if any(one.type is not table.types[name] for name, one in written.items()):
            raise NoProgramError("the rows of the table have other types")
        stored = [0 if name == EVENT_TIMESTAMP else self.line(written[name], number=False) for name in table.stored]
        operation[loop.FRESH] = len(self.plan.parts)
        self.plan.parts += stored
        for field_, index in zip((loop.KEY_OF_FIRST, loop.KEY_OF_SECOND), self.plan.indexes, strict=False):
            operation[field_] = self._key_of(index, written)

    # ---- operations

    def _operation(self, do: int) -> Int64Array:
        """Add an operation of the query."""
        operation: Int64Array = np.zeros(loop.OPERATION_FIELDS, INT64)
        operation[loop.DO], operation[loop.QUERY] = do, len(self.plan.queries)
        operation[loop.OPENS] = len(self.plan.operations) == self._begun
        self.plan.operations.append(operation)
        return operation

    def _look_up(self, operation: Int64Array, matcher: RowMatcher) -> None:
        """Set the index by which `matcher` finds rows in `operation`, and the keys of events."""
        index = matcher.index
        if index is None:
            return
        operation[loop.INDEX] = self.plan.number_of(index)
        operation[loop.KEY] = self._key_of(index, matcher.probes)
        if not matcher.by_primary_key:
            texts = [
                place for place, name in enumerate(index.names) if matcher.probes[name].type is AttributeType.STRING
            ]
            operation[loop.TEXTS] = sum(1 << place for place in texts)

    def _key_of(self, index: HashIndex, values: Mapping[str, model.TypedExpression]) -> int:
        """Return the start of the keys of `index` with these `values` of its attributes."""
        if any(values[name].type in FRACTIONS for name in index.names):
            raise NoProgramError("keys are fractions")
        return self.plan.key(index, [self.line(values[name], number=False) for name in index.names])

    def _row_program(
        self,
        operation: Int64Array,
        condition: model.TypedExpression | None,
        assignments: Sequence[tuple[str, model.TypedExpression]],
        timed: bool = False,
    ) -> None:
        """Set the program that tests and changes rows in `operation`."""
        plan = self.plan
        program = _EventProgram(plan.table, self._compiler, self)
        start = len(plan.instructions)
        operation[loop.TEST], operation[loop.CHANGE] = start, start + program.fill(condition, assignments, timed)
        lines = [(int(do), int(first), int(second)) for do, first, second in program.lines]
        operation[loop.END] = start + len(lines)
        plan.instructions += lines
        plan.longest = max(plan.longest, len(lines))
        plan.divides |= any(do in DIVISIONS for do, _, _ in lines)

    # ---- values of events

    def line(self, expression: model.TypedExpression, *, number: bool) -> int:
        """Return the line with `expression`, in 8 bytes: a `number` of a program, or a cell of a row."""
        if isinstance(expression, model.OutputValue):
            expression = self._selected[expression.name]
        if isinstance(expression, model.AttributeValue):
            return self.plan.attribute(expression.name, number=number)
        if isinstance(expression, model.ConstantValue):
            return self.plan.constant(expression.value, expression.type, number=number)
        if expression.type is AttributeType.FLOAT:
            raise NoProgramError("a program stores no float")
        return self._store(expression, _WIDE.get(expression.type, expression.type), stops=True)

    def _store(self, expression: model.TypedExpression, type_: AttributeType, *, stops: bool) -> int:
        """Return the line in which the program of the query stores `expression` as `type_`.

        If it `stops` the batch takes the general path when a value is null.
        """
        for known, as_type, line in self._stored:
            if known is expression and as_type is type_:
                return line
        self._know(expression)
        register = self._program.register(expression)
        line = self.plan.new_line()
        self._program.store(register, type_, len(self._query.stores))
        valid = 0 if type_ in (AttributeType.BOOL, AttributeType.STRING) else self.plan.new_line()
        self._query.stores.append((line, valid, stops))
        self._stored.append((expression, type_, line))
        return line

    def _know(self, expression: model.TypedExpression) -> None:
        """Compile the parts of `expression` for the program."""
        if any(isinstance(part, model.InTable | model.Aggregate) for part in walk(expression)):
            raise NoProgramError("a value depends on a table or on other events")
        if any(isinstance(part, model.Call) and part.script is not None for part in walk(expression)):
            raise NoProgramError("a script might notice a second call")
        self._nodes.update(self._compiler.nodes_of(expression))
        for output in walk(expression):
            if isinstance(output, model.OutputValue) and output.name not in self._program.outputs:
                self._know(self._selected[output.name])
                self._program.outputs[output.name] = self._program.register(self._selected[output.name])
        if any(self._nodes[id(part)].can_fail for part in walk(expression)):
            raise NoProgramError("it may fail")
