"""The head of a state query: the fastest operator that answers its pattern or sequence."""

from __future__ import annotations

from collections.abc import Mapping

from siddhi.analysis import model
from siddhi.engine.operator import MergingOperator, OperatorContext
from siddhi.engine.pattern.chain import ChainOperator
from siddhi.engine.pattern.chain_plan import plan_chain
from siddhi.engine.pattern.compiled.expressions import NotCompilableError
from siddhi.engine.pattern.compiled.operator import CompiledMachineOperator
from siddhi.engine.pattern.event_machine import EventMachineOperator
from siddhi.engine.pattern.references import Reference
from siddhi.engine.planner.choices import NotApplicable


def build_state_machine(
    machine: model.StateMachine, read: Mapping[str, Reference], context: OperatorContext
) -> MergingOperator:
    """A pattern or sequence over its streams, for all partition instances at once.

    `read` are the references of the query's selection, by the name of the output column that answers each. Every match
    is a row of its own chunk, with the timestamp of the event (or of the end of the silence) that completed it.
    """
    chain = context.choices.applicable("input", ChainOperator.__name__, plan_chain(machine, context))
    if chain is not None:
        return ChainOperator(chain, read, context)
    made = _compiled(machine, read, context)
    compiled = context.choices.applicable("input", CompiledMachineOperator.__name__, made)
    return EventMachineOperator(machine, read, context) if compiled is None else compiled


def _compiled(
    machine: model.StateMachine, read: Mapping[str, Reference], context: OperatorContext
) -> CompiledMachineOperator | NotApplicable:
    try:
        return CompiledMachineOperator(machine, read, context)
    except NotCompilableError as error:
        return NotApplicable(str(error))
