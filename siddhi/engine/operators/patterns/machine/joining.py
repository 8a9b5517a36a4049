"""Join the states of several machines, renumbering partial matches and their events."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from siddhi.engine.columnar.state_tree import State, end_to_end
from siddhi.engine.jit.arrays import Int64Array
from siddhi.engine.operators.patterns.machine.snapshot import NO_CHAIN


def joined_machines(states: Sequence[State], ids: Sequence[Int64Array], slot_of_place: Mapping[int, int]) -> State:
    """Return one state of machines (`snapshot_machines`) for all `states`; ids as for operators."""
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
    """Return the slot of the events of each chain."""
    return {
        chain: slot_of_place[place]
        for _, _, of_places in state["partials"]
        for place, chain in enumerate(of_places)
        if chain != NO_CHAIN
    }


def _numbered_on(element: State, first: int) -> State:
    waiting = {name: [number + first for number in element[name]] for name in ("pending", "fresh")}
    return {**element, **waiting}
