"""Named windows: a window that queries insert into, read from and look into."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from siddhi.analysis import model
from siddhi.engine.batch import EventBatch
from siddhi.engine.expressions.compiler import ExpressionCompiler
from siddhi.engine.kinds import EXPIRED
from siddhi.engine.node import Node
from siddhi.engine.operator import OperatorContext, Step
from siddhi.engine.selector import ACCEPTED
from siddhi.engine.windows.window import WINDOWS, WindowContext


def window_inlet(window: str) -> str:
    """The stream on which the named window `window` gets its events."""
    return f"+{window}"


class NamedWindow(Node):
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
        self.parts = (self.window,)

    def process(self, inputs: Sequence[EventBatch], step: Step) -> EventBatch:
        sent = self.window.process(inputs[0], step)
        wanted = np.isin(sent.kinds, self.kinds)
        return sent if wanted.all() else sent.take(np.flatnonzero(wanted))
