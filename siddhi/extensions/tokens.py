"""Stream functions that turn one event into several."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable
from itertools import islice
from typing import Any

import numpy as np

from siddhi.analysis import model
from siddhi.engine.columnar.batch import EventBatch
from siddhi.engine.columnar.column import Column
from siddhi.engine.columnar.state_tree import State
from siddhi.engine.operators.base.choices import Execution
from siddhi.engine.operators.base.operator import Operator, Step
from siddhi.engine.operators.expressions.compiler import ExpressionCompiler
from siddhi.engine.operators.expressions.evaluation import Evaluation, to_column
from siddhi.engine.operators.filters import drop_failed
from siddhi.engine.operators.functions.rows import RowError, limited
from siddhi.engine.time_limits import call_limit

MOST_TOKENS = 1_000_000
"""The maximum number of events from one event."""


class Tokens(Operator):
    """Base class of stream functions that turn one event into several.

    Subclasses implement `width` and `tokens`. Each token becomes an event of its own, with the token's values as the
    attributes that the call appends. Each is a chunk of its own, unless the tokens of a chunk stay `together`. Events
    made from one chunk fail together in a later query.
    """

    execution = Execution.EVENTS

    together = False

    def __init__(self, call: model.HandlerCall, compiler: ExpressionCompiler) -> None:
        """Compile the arguments.

        Args:
            call: The call with its analysed arguments.
            compiler: Compiles expressions.
        """
        self.nodes = [compiler.compile(argument) for argument in call.arguments]
        self.pool = compiler.context.pool
        self.appended = call.output.attributes[-self.width() :]

    @abstractmethod
    def width(self) -> int:
        """Return how many attributes are appended."""

    @abstractmethod
    def tokens(self, *arguments: Any) -> Iterable[tuple[object, ...]]:
        """Return for each event to be made the values of its appended attributes.

        Args:
            arguments: The values of the call's arguments for one row, None for null.

        Raises:
            RowError: the row cannot be processed; it is dropped (`@OnError`).
        """

    def process(self, batch: EventBatch, step: Step) -> EventBatch:
        """Return a row for each token of each row of `batch`."""
        evaluation = Evaluation(batch)
        values = [node.evaluate(evaluation) for node in self.nodes]
        columns = [
            to_column(value, node.type, self.pool, batch.size).to_list()
            for node, value in zip(self.nodes, values, strict=True)
        ]
        made: list[list[tuple[object, ...]]] = []
        with call_limit() as limit:
            for row, arguments in enumerate(zip(*columns, strict=True)):
                try:
                    made.append(limited(limit, self._all_tokens, arguments))
                except RowError as error:
                    evaluation.fail(np.arange(batch.size) == row, str(error))
                    made.append([])
        kept = drop_failed(evaluation, step).tolist()
        positions = [row for row, items in enumerate(made) if kept[row] for _ in items]
        lines = [item for row, items in enumerate(made) if kept[row] for item in items]
        places = np.array(positions, dtype=np.int64)
        chunks = batch.chunk_ids()[places]
        rows = batch.take(places).with_chunks(chunks if self.together else None).with_units(chunks, whole=True)
        added = {
            name: Column.of(type_, self.pool, [line[place] for line in lines])
            for place, (name, type_) in enumerate(self.appended)
        }
        return rows.with_columns({**rows.columns, **added})

    def _all_tokens(self, arguments: tuple[Any, ...]) -> list[tuple[object, ...]]:
        made = list(islice(self.tokens(*arguments), MOST_TOKENS + 1))
        if len(made) > MOST_TOKENS:
            raise RowError(f"one event would become more than {MOST_TOKENS} events")
        return made

    def snapshot(self) -> State:
        """Return None: there is no state."""
        return None

    def restore(self, state: State) -> None:
        """Do nothing: there is no state."""
