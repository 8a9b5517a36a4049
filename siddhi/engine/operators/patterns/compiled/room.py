"""Allocate room in the arrays of the compiled state machine."""

from __future__ import annotations

import numpy as np

from siddhi.engine.jit.arrays import AnyArray, Int64Array
from siddhi.engine.jit.bits import address_of
from siddhi.engine.jit.kernels import grown
from siddhi.engine.operators.patterns.compiled.kernels import memory as at
from siddhi.engine.operators.patterns.compiled.kernels.collect import collect
from siddhi.engine.tuning import MACHINE_ALWAYS_GROWS_ROOM, MACHINE_MIN_ROOM

_POOLS = (
    (at.FREE_ENTRIES, "free_entries", ("entries",)),
    (at.FREE_PARTIALS, "free_partials", ("partials",)),
    (at.FREE_CHAINS, "free_chains", ("chains",)),
    (at.FREE_CHUNKS, "free_chunks", ("chunks",)),
    (at.FREE_KEPT, "free_kept", ("kept", "kept_fractions")),
)
"""For each kind of object its counter, the array of free ones, and the arrays that contain it."""


def first_memory(rules: at.Rules, feeds: int, columns: tuple[int, int], registers: int) -> at.Memory:
    """Return the memory of a machine without instances.

    Args:
        rules: the machine.
        feeds: how many sources it has.
        columns: how many whole numbers and fractions are kept of an event.
        registers: how many values the longest condition needs.
    """
    elements, whole, fractions = len(rules.elements), *columns
    kept = np.zeros((2 * feeds, at.KEPT_COLUMNS + whole), dtype=np.int64)
    kept[:, at.KEPT_TIME] = at.UNSET_TIME
    kept[:, at.KEPT_NULLS] = -1
    none: Int64Array = np.zeros(0, dtype=np.int64)
    return at.Memory(
        lists=np.zeros((elements + 1, at.LIST_WIDTH), dtype=np.int64),
        entries=np.zeros((0, 2), dtype=np.int64),
        partials=np.zeros((0, at.SLOTS + elements), dtype=np.int64),
        chains=np.zeros((0, 3), dtype=np.int64),
        chunks=np.zeros((0, at.CHUNK_EVENTS + at.CHUNK_SIZE), dtype=np.int32),
        kept=kept,
        kept_fractions=np.zeros((2 * feeds, fractions), dtype=np.float64),
        free_entries=none,
        free_partials=none,
        free_chains=none,
        free_chunks=none,
        free_kept=none,
        alarms=np.zeros((0, at.ALARM_WIDTH), dtype=np.int64),
        due_alarms=np.zeros((0, at.ALARM_WIDTH), dtype=np.int64),
        matches=np.zeros((0, at.MATCH_EVENTS + len(rules.references)), dtype=np.int64),
        counters=np.zeros(at.FRAME_SIZE, dtype=np.int64),
        registers=np.zeros(max(registers, 1), dtype=np.int64),
        fraction_registers=np.zeros(max(registers, 1), dtype=np.float64),
        null_registers=np.zeros(max(registers, 1), dtype=np.int8),
    )


def framed(memory: at.Memory, rules: at.Rules) -> Int64Array:
    """Return the frame with the addresses of all arrays of `memory` and `rules`, which the caller keeps alive."""
    frame = memory.counters
    arrays: list[AnyArray] = [*memory[:-1], *rules]
    for place, array in zip((*at.MEMORY_AT, *at.RULES_AT), arrays, strict=True):
        frame[place] = address_of(array)
    frame[at.LIST_ROWS] = len(memory.lists)
    frame[at.ELEMENT_COUNT] = len(rules.elements)
    frame[at.PARTIAL_WIDTH] = memory.partials.shape[1]
    frame[at.KEPT_WIDTH] = memory.kept.shape[1]
    frame[at.WHOLE_COUNT] = memory.kept.shape[1] - at.KEPT_COLUMNS
    frame[at.FRACTION_COUNT] = memory.kept_fractions.shape[1]
    frame[at.MATCH_ROOM], frame[at.MATCH_WIDTH] = memory.matches.shape
    frame[at.ALARM_ROOM] = len(memory.alarms)
    frame[at.DUE_ROOM] = len(memory.due_alarms)
    frame[at.REFERENCE_COUNT] = len(rules.references)
    frame[at.TIMED_COUNT] = len(rules.timed)
    frame[at.RESETTABLE_COUNT] = len(rules.resettable)
    return frame


def more_instances(memory: at.Memory, rules: at.Rules, count: int) -> at.Memory:
    """Return the memory with room for `count` instances."""
    stride = len(rules.elements) + 1
    if count * stride <= len(memory.lists):
        return memory
    lists = np.zeros((max(count * stride, 2 * len(memory.lists)), at.LIST_WIDTH), dtype=np.int64)
    lists[: len(memory.lists)] = memory.lists
    return memory._replace(lists=lists)


def free_unreached(memory: at.Memory, rules: at.Rules) -> None:
    """Free everything that no list reaches."""
    marks = [np.zeros(len(things), dtype=np.int8) for things in (memory.partials, memory.chains, memory.chunks)]
    kept_marks = np.zeros(len(memory.kept), dtype=np.int8)
    kept_marks[: 2 * rules.offers.shape[0]] = 1  # the absent and the missing event of each source
    collect(framed(memory, rules), *marks, kept_marks)


def make_room(memory: at.Memory, rules: at.Rules, wanted: int = 0) -> at.Memory:
    """Return the memory with room for the objects that the loop lacked, or for `wanted` objects of each kind.

    Unreachable objects are freed; if little is free after that, the room is doubled, so that the cost of an event does
    not depend on the number of objects.
    """
    wanted = max(int(memory.counters[at.WANTED]), wanted, MACHINE_MIN_ROOM)
    free_unreached(memory, rules)
    changed: dict[str, AnyArray] = {}
    for counter, free_name, names in _POOLS:
        free: Int64Array = getattr(memory, free_name)
        count, size = int(memory.counters[counter]), len(getattr(memory, names[0]))
        if count >= max(wanted, (size + len(memory.lists)) // 2) and size >= MACHINE_ALWAYS_GROWS_ROOM:
            continue
        for name in names:
            changed[name] = grown(getattr(memory, name), size + max(wanted, len(memory.lists) // 2))
        larger = len(changed[names[0]])
        more = np.zeros(larger, dtype=np.int64)
        more[: larger - size] = np.arange(larger - 1, size - 1, -1)
        more[larger - size : larger - size + count] = free[:count]
        changed[free_name] = more
        memory.counters[counter] = count + larger - size
    due = int(memory.counters[at.DUE_ALARMS])  # due alarms may have to be returned to the others
    changed["alarms"] = grown(memory.alarms, int(memory.counters[at.ALARMS]) + due + wanted)
    changed["due_alarms"] = grown(memory.due_alarms, due + len(changed["alarms"]))
    changed["matches"] = grown(memory.matches, int(memory.counters[at.MATCHES]) + wanted)
    return memory._replace(**changed)
