"""The definition of a query's state, independent of its name, so that an edit resets only what it affects.

from S[a > 1]#window.time(1 min)[b > 2] select k, sum(v) as v group by k having v > 5 output … insert into Out
     └────────── held rows ──────────┘ └──────────── groups ──────────┘                └ rate ┘
a change of     resets it              is computed from the held rows                   resets it
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from siddhi.analysis import model
from siddhi.analysis.expression.walk import walk
from siddhi.engine.columnar.state_tree import State
from siddhi.engine.operators.base.operator import Stateful
from siddhi.engine.operators.base.per_instance import PerInstance
from siddhi.engine.operators.fused_windows.fused import FusedSelection
from siddhi.engine.operators.fused_windows.sliding import SlidingSelection
from siddhi.engine.operators.patterns.base.references import selection_references
from siddhi.engine.operators.selection.selector import Selector
from siddhi.engine.operators.windows.base.row_window import RowWindow
from siddhi.engine.operators.windows.base.window import WindowOperator
from siddhi.engine.operators.windows.keyed.window import KeyedWindow
from siddhi.engine.snapshots.envelope import fingerprint

if TYPE_CHECKING:
    from siddhi.engine.planner.query import QueryNode

ROW_BY_ROW = frozenset({"length", "time", "timeLength", "externalTime"})
"""Windows that have the same state and output after their rows have run through them once more."""


@dataclass(frozen=True, slots=True)
class QueryStateDefinition:
    """The definition of a query's state, in layers.

    `held` identifies the definition of its stored rows or its partial matches; `whole` adds the groups and aggregates
    after them, and `rate` the output rate. `rows` lists the columns of each stored row, by name and type, and their
    storage; None when rows cannot be read.
    """

    held: bytes = b""
    whole: bytes = b""
    rate: bytes = b""
    rows: State = None

    def saved(self) -> State:
        """Return the definition as a state."""
        return [self.held, self.whole, self.rate, self.rows]

    @classmethod
    def of(cls, saved: State) -> QueryStateDefinition:
        """Return the definition in `saved`."""
        held, whole, rate, rows = saved
        return cls(held, whole, rate, rows)


def query_state(query: QueryNode, dependencies: Iterable[str]) -> QueryStateDefinition:
    """Return the definition of the state of `query`; `dependencies` identify its inputs, calls and clock."""
    analysed = query.analysed
    source = analysed.input
    windowed = not isinstance(source, model.SourceInput) or source.window is not None
    if not (windowed or analysed.selection.aggregates or query.limiter is not None):
        return QueryStateDefinition()  # it is stateless
    held = [*dependencies, _held_text(analysed.input)]
    whole = [*held, _after_text(analysed.input), *_behind(query), *map(_layout, _kept_parts(query))]
    rate = [*whole, repr(analysed.rate), str(analysed.output.events)]
    return QueryStateDefinition(_digest(held), _digest(whole), _digest(rate), _rows_of(query))


def _held_text(source: model.QueryInput) -> str:
    """Return the input without the handlers after its window."""
    if not isinstance(source, model.SourceInput):
        return repr(source)
    return repr((source.source, source.kind, [*map(_step, source.before)], source.window and _step(source.window)))


def _after_text(source: model.QueryInput) -> str:
    return repr([*map(_step, source.after)]) if isinstance(source, model.SourceInput) else ""


def _step(step: model.FilterStep | model.HandlerCall) -> str:
    """Return the step without its schema, since unused attributes make no difference."""
    if isinstance(step, model.FilterStep):
        return repr(step.condition)
    return repr((step.namespace, step.name, step.arguments, step.condition))


def _behind(query: QueryNode) -> Iterator[str]:
    """Yield the definitions of groups and aggregates, and of the handlers before them."""
    analysed = query.analysed
    selection = analysed.selection
    yield repr(selection.group_by)
    yield repr([part for expression in _expressions(selection) for part in walk(expression)
                if isinstance(part, model.Aggregate)])  # fmt: skip
    if query.head is not None:  # a pattern stores the attributes that are read
        yield repr(sorted(selection_references(analysed)))
        yield repr((analysed.output.events, analysed.rate is None, query.hands_on, selection.aggregates))
    if isinstance(query.selector, Selector):
        selector = query.selector
        yield repr((selector.collapse, selector.keep_resets, analysed.output.events, query.limiter is None))


def _expressions(selection: model.AnalysedSelection) -> Iterator[model.TypedExpression]:
    for output in selection.attributes:
        yield output.expression
    if selection.having is not None:
        yield selection.having


def _kept_parts(query: QueryNode) -> tuple[Stateful, ...]:
    """Return the parts whose state `whole` covers: all but the limiter."""
    return query.parts[:-1] if query.limiter is not None else query.parts


def _layout(part: Stateful) -> str:
    """Return the kind of the part, and the attributes that it stores of each row."""
    if isinstance(part, PerInstance):
        return f"of each instance {_layout(part.template)}"
    columns: object = ()
    match part:
        case RowWindow() | KeyedWindow():
            columns = sorted((name, type_.value) for name, type_ in part.slots.types.items())
        case WindowOperator():
            columns = sorted((name, type_.value) for name, type_ in part.store.types.items())
        case SlidingSelection():
            columns = _lines(part)
        case FusedSelection():
            columns = sorted((name, type_.value) for name, type_ in part.shape.outputs.columns.items())
    return repr((type(part).__name__, columns))


def _lines(part: SlidingSelection) -> State:
    """Return the attribute and type of each line of stored rows.

    The name is empty for the time and None for computed values.
    """
    names = dict(part.nodes.attributes() or ())
    reserved = part.nodes.reserved
    lines: State = []
    for number, node in enumerate(part.nodes.nodes, start=reserved):
        name = "" if names.get(number, node) is None else names.get(number)
        lines.append([name, node.type.value])
    return lines


def _rows_of(query: QueryNode) -> State:
    source = query.analysed.input
    if query.partition is not None or not isinstance(source, model.SourceInput) or source.window is None:
        return None
    if source.window.namespace or source.window.name not in ROW_BY_ROW:
        return None
    if isinstance(query.selector, SlidingSelection):
        keys = [[name, type_.value] for name, type_ in query.selector.shape.keys]
        return ["fused", _lines(query.selector), keys]
    window = next((part for part in query.chain if isinstance(part, WindowOperator)), None)
    if window is None:
        return None
    types = window.slots.types if isinstance(window, RowWindow | KeyedWindow) else window.store.types
    return ["window", query.parts.index(window), [[name, type_.value] for name, type_ in types.items()]]


def _digest(texts: list[str]) -> bytes:
    return fingerprint("\0".join(texts))
