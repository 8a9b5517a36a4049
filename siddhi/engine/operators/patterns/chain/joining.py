"""Join the states of several chains, renumbering partial matches, and split them again."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import numpy as np

from siddhi.engine.columnar.state_tree import Codes, State, end_to_end
from siddhi.engine.jit.arrays import AnyArray, Int64Array
from siddhi.engine.operators.patterns.chain import memory


def joined_chains(states: Sequence[State], ids: Sequence[Int64Array], elements: int) -> State:
    """Return one state of a chain of `elements` for all `states`; ids as for operators."""
    size = 1 + max(int(numbers.max(initial=-1)) for numbers in ids)
    updated = np.full((size, elements), memory.NONE, dtype=np.int64)
    instances = np.full((size, memory.INSTANCE_WIDTH), memory.NONE, dtype=np.int64)
    partials = []
    for state, numbers in zip(states, ids, strict=True):
        own = state["partials"].copy()
        own[:, memory.INSTANCE] = numbers[own[:, memory.INSTANCE]]
        partials.append(own)
        known = len(state["updated"]) // elements
        there = np.flatnonzero(numbers[:known] >= 0)
        updated[numbers[there]] = state["updated"][: known * elements].reshape(-1, elements)[there]
        instances[numbers[there]] = state["instances"][there]
    return {
        "partials": np.concatenate(partials),
        "registers": [end_to_end(parts) for parts in zip(*(state["registers"] for state in states), strict=True)],
        "fractions": np.concatenate([state["fractions"] for state in states]),
        "updated": updated.reshape(-1),
        "instances": instances,
        "kept": [_kept(parts) for parts in zip(*(state["kept"] for state in states), strict=True)],
    }


def parted_chain(state: State, instances: int, elements: int) -> list[State]:
    """Return `state`, of a chain of `elements`, split by instance; in each part the instance has number 0."""
    bounds = np.searchsorted(state["partials"][:, memory.INSTANCE], np.arange(instances + 1)).tolist()
    partials = state["partials"].copy()
    partials[:, memory.INSTANCE] = 0
    return [
        {
            "partials": partials[start:stop],
            "registers": [_cut(part, start, stop) for part in state["registers"]],
            "fractions": state["fractions"][start:stop],
            "updated": state["updated"][elements * place : elements * (place + 1)],
            "instances": state["instances"][place : place + 1],
            "kept": [
                [_cut(values, start, stop), None if valid is None else valid[start:stop]]
                for values, valid in state["kept"]
            ],
        }
        for place, (start, stop) in enumerate(itertools.pairwise(bounds))
    ]


def _cut(values: State, start: int, stop: int) -> State:
    return Codes(values.array[start:stop]) if isinstance(values, Codes) else values[start:stop]


def _kept(parts: Sequence[State]) -> State:
    """Return columns of values, with masks that are None where no value is null."""
    values = end_to_end([values for values, _ in parts])
    if all(valid is None for _, valid in parts):
        return [values, None]
    masks: list[AnyArray] = [np.ones(_size(own), dtype=np.bool_) if valid is None else valid for own, valid in parts]
    return [values, np.concatenate(masks)]


def _size(values: State) -> int:
    return len(values.array if isinstance(values, Codes) else values)
