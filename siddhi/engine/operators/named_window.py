"""Named windows, which queries insert into and read."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from siddhi.analysis import model
from siddhi.analysis.parts import parts_of
from siddhi.engine.columnar.batch import EventBatch
from siddhi.engine.columnar.kinds import CURRENT, EXPIRED
from siddhi.engine.jit.arrays import BoolArray
from siddhi.engine.operators.base.operator import OperatorContext, Step
from siddhi.engine.operators.expressions.compiler import ExpressionCompiler
from siddhi.engine.operators.node import AppNode
from siddhi.engine.operators.selection.selector import ACCEPTED
from siddhi.engine.operators.windows.base.emission import ORDER, emitted
from siddhi.engine.operators.windows.base.sliding import SlidingWindow
from siddhi.engine.operators.windows.base.window import WINDOWS, WindowContext, may_reject
from siddhi.language.ast import EventType


def window_inlet(window: str) -> str:
    """Return the stream on which the named window `window` gets its events."""
    return f"+{window}"


class NamedWindow(AppNode):
    """Sends the current and expired events that its definition selects, on the stream of its name."""

    inserts = False

    def __init__(
        self, analysed: model.AnalysedWindow, context: OperatorContext, *, times_of_expiry_seen: bool = True
    ) -> None:
        """Build the window; `times_of_expiry_seen` says whether queries may read when its rows expire."""
        self.name = analysed.schema.id
        self.sources = (window_inlet(self.name),)
        self.arrival = (0,)
        self.target = self.name
        self.writes = frozenset({self.name})
        compiler = ExpressionCompiler(context)
        call = analysed.window
        columns = dict(analysed.schema.attributes)
        make = WINDOWS.find(call.namespace, call.name, call.syntax)
        self.kinds = ACCEPTED[analysed.output]
        self._wanted: BoolArray = np.isin(np.arange(128), self.kinds)
        """Whether rows of each kind are sent; a look-up in it takes a fiftieth of the time of `isin`."""
        self.may_fail = may_reject(call)
        shows_expired = EXPIRED in self.kinds
        self.window = make(
            WindowContext(
                call,
                context,
                columns,
                expired=True,
                compiler=compiler,
                selected=tuple(columns),
                shows_expired=shows_expired,
            )
        )
        self.window.keeps_moves = self.tells_all = self._tells_all(times_of_expiry_seen=times_of_expiry_seen)
        self.parts = (self.window,)

    def _tells_all(self, *, times_of_expiry_seen: bool) -> bool:
        """Return whether its stream contains every row that enters and every one that leaves.

        Rows of a batch that were read expire with other timestamps. If these timestamps are used, the reads and their
        times must be known before the rows expire.
        """
        window = self.window
        apart = window.notes_looks and times_of_expiry_seen
        return window.reports_moves and not apart and set(self.kinds) == {CURRENT, EXPIRED}

    def process(self, inputs: Sequence[EventBatch], step: Step) -> EventBatch:
        if isinstance(self.window, SlidingWindow):
            emission, count = self.window.let_out(inputs[0], step)
            self.window.moves = emission[:, :count]
            sent = emitted(emission, count, self.window.store)
        else:
            sent = self.window.process(inputs[0], step)
        if self.tells_all and step.whole is not step:
            # Joins compare the changes with their own rows, by the orders of the whole step.
            self.window.moves = self.window.moves.copy()
            self.window.moves[ORDER] = step.of_whole(self.window.moves[ORDER])
        wanted = self._wanted[sent.kinds]
        return sent if wanted.all() else sent.take(np.flatnonzero(wanted))


def read_with_expired_rows(app: model.AnalysedApp) -> frozenset[str]:
    """Return the named windows of `app` that a query reads that may show, or log, when a row has expired."""
    queries: list[model.AnalysedQuery] = []
    for element in app.elements:
        queries.extend(element.queries if isinstance(element, model.AnalysedPartition) else [element])
    found: set[str] = set()
    for query in queries:
        asks = any(isinstance(part, model.EventReference) for part in parts_of((query.input, query.selection)))
        shows = asks or query.output.events is not EventType.CURRENT or not isinstance(query.input, _PLAIN)
        sources = (part for part in parts_of(query.input) if isinstance(part, model.SourceInput))
        found.update(source.source for source in sources if shows or _logs(source))
    return frozenset(found)


def _logs(source: model.SourceInput) -> bool:
    """Return whether `#log` writes rows of `source`, expired ones among them, with their timestamps."""
    return any(isinstance(step, model.HandlerCall) and step.name == "log" for step in (*source.before, *source.after))


_PLAIN = (model.SourceInput, model.Join)
