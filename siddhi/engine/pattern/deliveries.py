"""Which matches leave a state query together."""

from __future__ import annotations

from siddhi.analysis import model
from siddhi.engine.scope import source_key


def gathers_matches(machine: model.StateMachine) -> bool:
    """True when all matches that one event completes leave the query as one chunk.

    As in Siddhi they do when the stream of the last element feeds several elements; otherwise each leaves alone.
    """
    last = machine.steps[-1]
    while isinstance(last, model.EveryScope | model.BoundScope):
        last = last.steps[-1]
    ends = (last.left, last.right) if isinstance(last, model.LogicalPair) else (last,)
    fed = [source_key(element.input) for element in machine.slots]
    return all(fed.count(source_key(element.input)) > 1 for element in ends)
