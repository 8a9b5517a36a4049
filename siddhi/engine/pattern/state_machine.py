"""The head of a state query: the fastest operator that answers its pattern or sequence."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from siddhi.analysis import model
from siddhi.engine.arrays import Int64Array
from siddhi.engine.batch import EventBatch
from siddhi.engine.operator import MergedRows, MergingOperator, OperatorContext, Step
from siddhi.engine.pattern.chain import ChainOperator
from siddhi.engine.pattern.chain_plan import plan_chain
from siddhi.engine.pattern.event_machine import EventMachineOperator
from siddhi.engine.pattern.references import Reference
from siddhi.engine.state import CodeChange, State
from siddhi.engine.state_size import StateSize


class StateMachineOperator(MergingOperator):
    """A pattern or sequence over its streams, for all partition instances at once.

    `read` are the references of the query's selection, by the name of the output column that answers each. Every match
    is a row of its own chunk, with the timestamp of the event (or of the end of the silence) that completed it.
    """

    handles_partitions = True

    def __init__(self, machine: model.StateMachine, read: Mapping[str, Reference], context: OperatorContext) -> None:
        chain = plan_chain(machine, context)
        self._operator: MergingOperator = (
            EventMachineOperator(machine, read, context) if chain is None else ChainOperator(chain, read, context)
        )
        self.sources = self._operator.sources

    def start(self, clock_ms: int) -> None:
        self._operator.start(clock_ms)

    def next_deadline_ms(self) -> int | None:
        return self._operator.next_deadline_ms()

    def process(self, inputs: MergedRows, step: Step) -> EventBatch:
        return self._operator.process(inputs, step)

    def state_size(self) -> StateSize:
        return self._operator.state_size()

    def live_codes(self) -> Iterator[Int64Array]:
        return self._operator.live_codes()

    def recode(self, change: CodeChange) -> None:
        self._operator.recode(change)

    def close_partitions(self, partitions: Int64Array) -> None:
        self._operator.close_partitions(partitions)

    def snapshot(self) -> State:
        return self._operator.snapshot()

    def restore(self, state: State) -> None:
        self._operator.restore(state)
