"""Several states of one pattern as one, in which partial matches, and what they hold of events, are numbered on, and
the other way round."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence

import numpy as np

from siddhi.engine.columnar.state_tree import Codes, State
from siddhi.engine.jit.arrays import AnyArray, Int64Array
from siddhi.engine.operators.patterns.chain import memory
from siddhi.engine.operators.patterns.machine.snapshot import NO_CHAIN


def joined_chains(states: Sequence[State], ids: Sequence[Int64Array], elements: int) -> State:
    """One state of a chain of `elements` for all `states`; ids as for operators."""
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
    """The parts of `state`, of a chain of `elements`, for so many instances; in each it is instance 0."""
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


def end_to_end(parts: Sequence[State]) -> State:
    """The arrays `parts`, or the codes, or the lists, as one."""
    if isinstance(parts[0], list):
        return [item for part in parts for item in part]
    if isinstance(parts[0], Codes):
        return Codes(np.concatenate([part.array for part in parts]))
    return np.concatenate(parts)


def _kept(parts: Sequence[State]) -> State:
    """Columns of values, with masks that are None where no value is null."""
    values = end_to_end([values for values, _ in parts])
    if all(valid is None for _, valid in parts):
        return [values, None]
    masks: list[AnyArray] = [np.ones(_size(own), dtype=np.bool_) if valid is None else valid for own, valid in parts]
    return [values, np.concatenate(masks)]


def _size(values: State) -> int:
    return len(values.array if isinstance(values, Codes) else values)


def joined_machines(states: Sequence[State], ids: Sequence[Int64Array], slot_of_place: Mapping[int, int]) -> State:
    """One state of machines (`snapshot_machines`) for all `states`; ids as for operators."""
    instances: list[State] = []
    chains: list[list[int]] = []
    partials: list[State] = []
    events = [0] * len(slot_of_place)
    for state, numbers in zip(states, ids, strict=True):
        first_chain, first_partial = len(chains), len(partials)
        slots = _slots_of_chains(state, slot_of_place)
        chains += [[event + events[slots[number]] for event in chain] for number, chain in enumerate(state["chains"])]
        partials += [
            [timestamp, expired, [chain if chain == NO_CHAIN else chain + first_chain for chain in of_places]]
            for timestamp, expired, of_places in state["partials"]
        ]
        for key, elements, latest in state["instances"]:
            moved = [_numbered_on(element, first_partial) for element in elements]
            instances.append([int(numbers[key]), moved, latest])
        events = [count + len(table["timestamps"]) for count, table in zip(events, state["events"], strict=True)]
    tables = [
        {
            "timestamps": np.concatenate([table["timestamps"] for table in of_slot]),
            "late": np.concatenate([table["late"] for table in of_slot]),
            "columns": [end_to_end(parts) for parts in zip(*(table["columns"] for table in of_slot), strict=True)],
        }
        for of_slot in zip(*(state["events"] for state in states), strict=True)
    ]
    return {"instances": instances, "events": tables, "chains": chains, "partials": partials}


def _slots_of_chains(state: State, slot_of_place: Mapping[int, int]) -> dict[int, int]:
    """In which slot the events of each chain stand."""
    return {
        chain: slot_of_place[place]
        for _, _, of_places in state["partials"]
        for place, chain in enumerate(of_places)
        if chain != NO_CHAIN
    }


def _numbered_on(element: State, first: int) -> State:
    waiting = {name: [number + first for number in element[name]] for name in ("pending", "fresh")}
    return {**element, **waiting}
