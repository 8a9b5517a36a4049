"""The layout of the arrays of keyed windows, and the kinds of windows.

    instance 0 ── open rows      3 ⇄ 7 ⇄ 8          lists link the rows, which are in slots
             └── last batch      1 ⇄ 2
             └── key "a"         slot 7
    instance 1 …
    timers      one binary heap for all: (due, number, who)

An owner is a partition instance or, in windows by key, a key of one. Without a partition there is one instance.
"""

from __future__ import annotations

NEXT, BACK, LEFT, RIGHT, OWNER, INSTANCE, SEQUENCE, STAMP, FREED = range(9)
"""The lines of rows, int64 (9, capacity), by slot: the neighbours in a list, the children in a heap, the owner and
instance, the arrival number and the timestamp. The last line is a stack of slots that a step returned."""
ROW_LINES = 9
SLOT_LINES = (NEXT, BACK, LEFT, RIGHT)
"""The lines that refer to other slots, -1 for none."""

HEAD, TAIL, LAST_HEAD, LAST_TAIL, TOP, PLACE = range(6)
COUNT, LAST_COUNT, TIMER, START, END, ALIVE, BOUNDARY, NEWEST, NUMBER, HASH, FLAG, TOTAL, VALID, INSTANCE_OF = range(
    6, 20
)
"""The columns of owners, int64 (count, 20): slots first (both ends of the open rows and of the last batch, the top of a
heap, a position in a list), then numbers; `TIMER` is when the owner's timer is due, `VALID` the number of that timer,
`INSTANCE_OF` a key's instance. Windows define the meaning of the others."""
SLOT_COLUMNS = 6
WIDTH = 20

DUE, TURN, WHO, SET_ORDER, SET_CLOCK = range(5)
"""The lines of the heap of timers: the due time, the number, the owner, and the order and clock of the cause in the
current step."""
TIMER_LINES = 5

(TIMERS, TURNS, STEP_TURN, ARRIVALS, WRITTEN, FREED_COUNT, ORDER_NOW, CLOCK_NOW, CHUNK_NOW, INSTANCE_NOW, RANK_NOW,
 TIED, LEAVING, LEAVING_TAIL, BEGUN, ROW_ORDER, ROW_CLOCK, ROW_INSTANCE, IN_RUNS) = range(19)  # fmt: skip
"""The state of a loop, one int64 each: the number of waiting timers and of timers ever set; the same before this step;
the number of rows ever; rows written and slots returned; order, clock, chunk, instance and rank of the current output;
whether timers of one time emitted rows; rows that leave after their chunk; whether rows of the chunk were emitted;
order, clock and instance of the last row; whether chunks have rows of several instances."""
RUN_LINES = 19

KIND, SPAN, LENGTH, ORIGIN, ALIGNED, EXPIRES, LATENCY, SUPPORT, WIDE, FORGETS, TELLS = range(11)
"""The parameters of a window: its kind, time and length; the origin of batches and whether they are aligned; whether
the contents of a batch window are emitted once more; values of a single kind of window; and whether rows that arrive
and leave silently are reported."""
PARAMETERS = 11

SHOWN, HIDDEN = 4, 5
"""Additional kinds of rows, reported only to a join: the window shows this row from now on, or no longer, without
emitting it."""

(LENGTH_KIND, TIME_KIND, EXTERNAL_TIME_KIND, TIME_LENGTH_KIND, DELAY_KIND, SORT_KIND, SESSION_KIND, CRON_KIND,
 LENGTH_BATCH_KIND, LENGTH_STREAM_KIND, TIME_BATCH_KIND, TIME_STREAM_KIND, BATCH_KIND, EVER_KIND, FIRST_KIND,
 UNIQUE_LENGTH_KIND, UNIQUE_TIME_KIND, UNIQUE_LENGTH_BATCH_KIND, UNIQUE_TIME_BATCH_KIND, UNIQUE_TIME_LENGTH_BATCH_KIND,
 FREQUENT_KIND, LOSSY_KIND, EXTERNAL_BATCH_KIND, UNIQUE_EXTERNAL_BATCH_KIND, EXPRESSION_KIND,
 EXPRESSION_BATCH_KIND) = range(26)  # fmt: skip

RANK, WHOSE = 6, 7
"""Two more lines of an emission (`siddhi.engine.operators.windows.base.emission`): the position of a row among those of
one timer, and its instance."""
EMISSION_LINES = 8
