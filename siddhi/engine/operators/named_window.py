"""Named windows: a window that queries insert into, read from and look into."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from siddhi.analysis import model
from siddhi.engine.columnar.batch import EventBatch
from siddhi.engine.columnar.kinds import CURRENT, EXPIRED
from siddhi.engine.operators.base.operator import OperatorContext, Step
from siddhi.engine.operators.expressions.compiler import ExpressionCompiler
from siddhi.engine.operators.node import AppNode
from siddhi.engine.operators.selection.selector import ACCEPTED
from siddhi.engine.operators.windows.base.emission import emitted, new_emission
from siddhi.engine.operators.windows.base.sliding import SlidingWindow
from siddhi.engine.operators.windows.base.window import WINDOWS, WindowContext


def window_inlet(window: str) -> str:
    """Return the stream on which the named window `window` gets its events."""
    return f"+{window}"


class NamedWindow(AppNode):
    """Sends current and expired events, as its definition says, on the stream of its name."""

    inserts = False

    def __init__(self, analysed: model.AnalysedWindow, context: OperatorContext) -> None:
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
        self.emission = new_emission(0)
        """What a sliding window let out when it was last asked."""
        self.parts = (self.window,)

    @property
    def tells_all(self) -> bool:
        """True when its stream has every row that comes and every one that leaves."""
        return isinstance(self.window, SlidingWindow) and set(self.kinds) == {CURRENT, EXPIRED}

    def process(self, inputs: Sequence[EventBatch], step: Step) -> EventBatch:
        if isinstance(self.window, SlidingWindow):
            emission, count = self.window.let_out(inputs[0], step)
            self.emission = emission[:, :count]
            sent = emitted(emission, count, self.window.store)
        else:
            sent = self.window.process(inputs[0], step)
        wanted = np.isin(sent.kinds, self.kinds)
        return sent if wanted.all() else sent.take(np.flatnonzero(wanted))
