"""Build the head of a state query: the fastest operator that supports its pattern or sequence."""

from __future__ import annotations

from collections.abc import Mapping

from siddhi.analysis import model
from siddhi.engine.operators.base.choices import NotApplicable
from siddhi.engine.operators.base.operator import MergingOperator, OperatorContext
from siddhi.engine.operators.patterns.base.references import Reference
from siddhi.engine.operators.patterns.chain.operator import ChainOperator
from siddhi.engine.operators.patterns.chain.plan import plan_chain
from siddhi.engine.operators.patterns.compiled.expressions import NotCompilableError
from siddhi.engine.operators.patterns.compiled.operator import CompiledMachineOperator
from siddhi.engine.operators.patterns.machine.event_machine import EventMachineOperator


def build_state_machine(
    machine: model.StateMachine, read: Mapping[str, Reference], context: OperatorContext
) -> MergingOperator:
    """Return a pattern or sequence over its streams, for all partition instances at once.

    `read` are the references of the query's selection, by the name of their output column. Every match is a row in its
    own chunk, with the timestamp of the event (or of the end of the absence) that completed it.
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
