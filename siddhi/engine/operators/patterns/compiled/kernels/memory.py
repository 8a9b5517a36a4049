"""The arrays of the compiled state machine, and their columns.

    lists[instance, element] ──▶ entries: partial, next ──▶ partials: time, expired, one value for each slot
                                                                              │ plain: a kept event
                                                                              │ counted: a chain
                                               kept events ◀── chunks ◀── chains

A partial match that waits at two elements is one row of `partials` in two lists, and copies of a partial match share
the chains of the original, as the objects of `siddhi.engine.operators.patterns.machine.elements` do. Entries have one
owner and are freed with it. All other objects are freed by `collect`, which finds unreachable ones when room runs
short.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from siddhi.engine.jit.arrays import AnyArray, Int8Array, Int64Array

NONE = -1
NEVER = 2**63 - 1
LONG_AGO = -(2**62)
UNSET_TIME = -1

# kinds of elements
PLAIN, COUNTED, LOGICAL, ABSENT, ABSENT_LOGICAL = range(5)

# columns of an element; elements are numbered by their places in the machine
(
    KIND,
    FOLLOWING,
    REARMS,
    SCOPE_HEAD,
    RESTARTS,
    EMITTER,
    DELIVERS,
    PARTNER,
    NEIGHBOURS,
    HOLDS_FORMER,
    STARTS,
    BEGIN_LATER,
    MINIMUM,
    MAXIMUM,
    SIDE_BY_SIDE,
    CONJUNCTION,
    WAITING,
    TIMED_PLACE,
    FIRST_LIMIT,
    END_LIMIT,
    FIRST_INSTRUCTION,
    END_INSTRUCTION,
    BEFORE_ABSENT,
    FEED,
    SURVIVES,
    SHOWN_TWICE,
) = range(26)
ELEMENT_WIDTH = 26

# settings
IS_SEQUENCE, HAS_TIMERS, GROWTH, REFERENCES, GATHERS = range(5)
SETTING_COUNT = 5

# columns of the list of an element of an instance; behind the elements of each instance is one row more, for itself
(
    PENDING_HEAD,
    PENDING_TAIL,
    PENDING_COUNT,
    FRESH_HEAD,
    FRESH_TAIL,
    FRESH_COUNT,
    ORDERED,
    NEWEST,
    UNTIL,
    INITIALISED,
    CHANGED,
    EMITTED,
    RESTART_DUE,
    ACTIVE,
    SINCE,
    PASSED_ON,
) = range(16)
LIST_WIDTH = 16
LATEST, WAITING_COUNT, OPEN = range(3)

# columns of entries, partials, chains, chunks and kept events
ENTRY_PARTIAL, ENTRY_NEXT = range(2)
TIME, EXPIRED, SLOTS = range(3)
FIRST_CHUNK, LAST_CHUNK, LENGTH = range(3)
CHUNK_NEXT, CHUNK_PREVIOUS, CHUNK_EVENTS = range(3)
CHUNK_SIZE = 14
ENTRY_WIDTH, CHAIN_WIDTH, CHUNK_WIDTH = 2, 3, CHUNK_EVENTS + CHUNK_SIZE
KEPT_TIME, KEPT_LATE, KEPT_NULLS, KEPT_COLUMNS = range(4)

# columns of alarms; those that are due now are ordered by the rank of their instance as well
DUE, RANK, ALARM_INSTANCE, ALARM_TIMED, ALARM_NUMBER = range(5)
ALARM_WIDTH = 5

# columns of matches; behind them one kept event for each reference
MATCH_ORDER, MATCH_CLOCK, MATCH_INSTANCE, MATCH_TIME, MATCH_CHUNK, MATCH_PARTIAL, MATCH_EVENTS = range(7)

# counters; the first five are how many of each are free
(
    FREE_ENTRIES,
    FREE_PARTIALS,
    FREE_CHAINS,
    FREE_CHUNKS,
    FREE_KEPT,
    MATCHES,
    ALARMS,
    DUE_ALARMS,
    ALARM_COUNT,
    LIVE,
    CURSOR,
    OPENED,
    DONE_ORDER,
    SHOWN_CLOCK,
    ROW_KEPT,
    WANTED,
    SEARCH,
    ROW_TAKEN,
    NOW,
) = range(19)
COUNTER_COUNT = 19

# the frame holds the counters, then the addresses of all arrays, then sizes
(
    LISTS_AT,
    ENTRIES_AT,
    PARTIALS_AT,
    CHAINS_AT,
    CHUNKS_AT,
    KEPT_AT,
    KEPT_FRACTIONS_AT,
    FREE_ENTRIES_AT,
    FREE_PARTIALS_AT,
    FREE_CHAINS_AT,
    FREE_CHUNKS_AT,
    FREE_KEPT_AT,
    ALARMS_AT,
    DUE_ALARMS_AT,
    MATCHES_AT,
    REGISTERS_AT,
    FRACTION_REGISTERS_AT,
    NULL_REGISTERS_AT,
) = MEMORY_AT = range(COUNTER_COUNT, COUNTER_COUNT + 18)
(
    SETTINGS_AT,
    ELEMENTS_AT,
    OFFERS_AT,
    HANDS_OUT_AT,
    LIMITS_AT,
    RESETTABLE_AT,
    TIMED_AT,
    INSTRUCTIONS_AT,
    CONSTANTS_AT,
    FRACTION_CONSTANTS_AT,
    REFERENCES_AT,
) = RULES_AT = range(MEMORY_AT.stop, MEMORY_AT.stop + 11)
(
    TIMES_AT,
    INSTANCES_AT,
    SKIPPED_AT,
    NULLS_AT,
    WHOLE_AT,
    FRACTIONS_AT,
    PASSING_AT,
    ORDER_AT,
    SOURCES_AT,
    ORDERS_AT,
    CLOCKS_AT,
    STEP_CLOCKS_AT,
    BOUNDS_AT,
    OPENED_AT,
    RANKS_AT,
) = ROWS_AT = range(RULES_AT.stop, RULES_AT.stop + 15)
(
    LIST_ROWS,
    ELEMENT_COUNT,
    PARTIAL_WIDTH,
    KEPT_WIDTH,
    FRACTION_COUNT,
    WHOLE_COUNT,
    MATCH_WIDTH,
    MATCH_ROOM,
    ALARM_ROOM,
    DUE_ROOM,
    REFERENCE_COUNT,
    TIMED_COUNT,
    RESETTABLE_COUNT,
    PASSING_WIDTH,
    ROW_COUNT,
    STEP_COUNT,
    OPENED_COUNT,
    RANK_COUNT,
    PARTIAL_ROOM,
) = range(ROWS_AT.stop, ROWS_AT.stop + 19)
FRAME_SIZE = ROWS_AT.stop + 19

# what the loop says when it stops
FINISHED, SHORT_OF_ROOM, ASKS_FOR_RANKS = range(3)

# ways to pick an event of a slot
LAST_EVENT, FROM_FIRST, FROM_LAST = range(3)

# columns of an instruction, whose result is the register of its own number, and the operations
OPERATION, A, B, C, D, E = range(6)
INSTRUCTION_WIDTH = 6
(
    EVENT_WHOLE,
    EVENT_FRACTION,
    SLOT_WHOLE,
    SLOT_FRACTION,
    SLOT_TIME,
    SLOT_EMPTY,
    CONSTANT_WHOLE,
    CONSTANT_FRACTION,
    COMPARE_WHOLE,
    COMPARE_FRACTION,
    AND,
    OR,
    NOT,
    IS_NULL,
    TO_FRACTION,
    TO_SINGLE,
    TO_WHOLE,
    TO_INT,
    ARITHMETIC_WHOLE,
    ARITHMETIC_INT,
    ARITHMETIC_FRACTION,
    ARITHMETIC_SINGLE,
    MATCH_WHOLE,
    MATCH_FRACTION,
    REQUIRE,
) = range(25)
EQUAL, NOT_EQUAL, LESS, LESS_EQUAL, GREATER, GREATER_EQUAL = range(6)
PLUS, MINUS, TIMES, DIVIDE, REMAINDER = range(5)


class Memory(NamedTuple):
    """The state between batches, room for results, scratch registers, and the frame, which begins with the counters."""

    lists: Int64Array
    entries: Int64Array
    partials: Int64Array
    chains: Int64Array
    chunks: npt.NDArray[np.int32]
    kept: Int64Array
    kept_fractions: AnyArray
    free_entries: Int64Array
    free_partials: Int64Array
    free_chains: Int64Array
    free_chunks: Int64Array
    free_kept: Int64Array
    alarms: Int64Array
    due_alarms: Int64Array
    matches: Int64Array
    registers: Int64Array
    fraction_registers: AnyArray
    null_registers: Int8Array
    counters: Int64Array


class Rules(NamedTuple):
    """The definition of the machine.

    `offers` (sources, elements): the elements that a source feeds, last first, then `NONE`; `hands_out` per source;
    `limits`: (place, within); `resettable` and `timed`: places in order; `references`: place, way to pick, offset.
    """

    settings: Int64Array
    elements: Int64Array
    offers: Int64Array
    hands_out: Int64Array
    limits: Int64Array
    resettable: Int64Array
    timed: Int64Array
    instructions: Int64Array
    constants: Int64Array
    fraction_constants: AnyArray
    references: Int64Array


class Rows(NamedTuple):
    """The rows of a step, those of several sources end to end.

    `times`, `instances`, `skipped` (neither current nor expired), `nulls`, `whole` and `fractions` by row; `passing` by
    element and row. `order`, `sources`, `orders` and `clocks` are in the common order. `step_clocks`, `bounds` (floor,
    final order, final clock) and `opened` (instances, orders, clocks) tell of the step; `ranks` of the instances, empty
    until asked for.
    """

    times: Int64Array
    instances: Int64Array
    skipped: Int8Array
    nulls: Int64Array
    whole: Int64Array
    fractions: AnyArray
    passing: Int8Array
    order: Int64Array
    sources: Int64Array
    orders: Int64Array
    clocks: Int64Array
    step_clocks: Int64Array
    bounds: Int64Array
    opened: Int64Array
    ranks: Int64Array
