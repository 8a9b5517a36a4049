"""The `unique:` windows that go by events or by the app's clock.

    ever(k)                  in    a1    b1    a2         b2
                             out   +a1   +b1   -a1 +a2    -b1 +b2
    length(k, 1)             out   +a1   -a1 +b1   -b1 +a2   -a2 +b2

    lengthBatch(k, 2)        in    a1    a2    b1         a3    c1
                             out   ·     ·     +a2 +b1    ·     -a2 -b1 reset +a3 +c1
    firstLengthBatch(k, 2)   out   ·     ·     +a1 +b1    ·     -a1 -b1 reset +a3 +c1

An event that is replaced by one of its key expires before that one comes. Events of a batch are in the order in which
their keys came, with the clock at that time as their timestamp.
"""

from __future__ import annotations

from collections.abc import Callable

from siddhi.engine.columnar.batch import EventBatch
from siddhi.engine.operators.base.operator import Step
from siddhi.engine.operators.filters import with_value
from siddhi.engine.operators.windows.base.window import WINDOWS, WindowContext
from siddhi.engine.operators.windows.keyed.forms import whole
from siddhi.engine.operators.windows.keyed.layout import (
    EVER_KIND,
    FIRST_KIND,
    UNIQUE_LENGTH_BATCH_KIND,
    UNIQUE_LENGTH_KIND,
    UNIQUE_TIME_BATCH_KIND,
    UNIQUE_TIME_KIND,
    UNIQUE_TIME_LENGTH_BATCH_KIND,
)
from siddhi.engine.operators.windows.keyed.owners import Owners
from siddhi.engine.operators.windows.keyed.window import KeyedWindow, Plan


def _owners(context: WindowContext, parts: int | None = 1) -> Owners:
    return Owners(context.arguments()[:parts], context.operator.pool)


def _with_key(context: WindowContext) -> Callable[[EventBatch, Step], EventBatch]:
    """Return the events that have a key; record the others as failed."""
    key = context.arguments()[0]

    def accepted(batch: EventBatch, step: Step) -> EventBatch:
        return with_value(batch, key, step, "the key")

    return accepted


@WINDOWS.register("ever", "unique")
def ever(context: WindowContext) -> KeyedWindow:
    """Return a window of the last event of every key."""
    return KeyedWindow(context, Plan(EVER_KIND, owners=_owners(context, None)))


@WINDOWS.register("first", "unique")
def first(context: WindowContext) -> KeyedWindow:
    """Return a window of the first event of every key; later ones are dropped, and nothing expires."""
    return KeyedWindow(context, Plan(FIRST_KIND, owners=_owners(context, None)))


@WINDOWS.register("length", "unique")
def length(context: WindowContext) -> KeyedWindow:
    """Return a window of the last n events with distinct keys; a new key expires the oldest event of a full window."""
    count = whole(context.constants()[1])
    plan = Plan(UNIQUE_LENGTH_KIND, length=count, owners=_owners(context), accepted=_with_key(context))
    return KeyedWindow(context, plan)


@WINDOWS.register("time", "unique")
def time(context: WindowContext) -> KeyedWindow:
    """Return a window of the last event of every key, until its timestamp is T behind the clock."""
    span = whole(context.constants()[1])
    plan = Plan(UNIQUE_TIME_KIND, span=span, owners=_owners(context), accepted=_with_key(context))
    return KeyedWindow(context, plan)


@WINDOWS.register("lengthBatch", "unique")
def length_batch(context: WindowContext) -> KeyedWindow:
    """Return a window whose batch is full with its n-th key, never with none."""
    count = whole(context.constants()[1])
    return KeyedWindow(context, Plan(UNIQUE_LENGTH_BATCH_KIND, length=count, owners=_owners(context)))


@WINDOWS.register("firstLengthBatch", "unique")
def first_length_batch(context: WindowContext) -> KeyedWindow:
    """Return a window as `lengthBatch`, but with the first event of each key."""
    count = whole(context.constants()[1])
    accepted = _with_key(context)
    plan = Plan(UNIQUE_LENGTH_BATCH_KIND, length=count, forgets=True, owners=_owners(context), accepted=accepted)
    return KeyedWindow(context, plan)


@WINDOWS.register("timeBatch", "unique")
def time_batch(context: WindowContext) -> KeyedWindow:
    """Return a window of batches of T by the app's clock, counted from the first event or from a given start."""
    return KeyedWindow(context, _timed(context, context.constants()[1:]))


@WINDOWS.register("firstTimeBatch", "unique")
def first_time_batch(context: WindowContext) -> KeyedWindow:
    """Return a window as `timeBatch`, but with the first event of each key."""
    return KeyedWindow(context, _timed(context, context.constants()[1:], forgets=True, accepted=_with_key(context)))


@WINDOWS.register("timeLengthBatch", "unique")
def time_length_batch(context: WindowContext) -> KeyedWindow:
    """Return a window whose batch ends with its time or with its n-th key.

    After the n-th key, events are dropped until the time of the batch is over.

    timeLengthBatch(k, 10, 2)   clock   0    4         6    10   12   13                        20
                                in      a1   b1        a2        c1   a3
                                out          +a1 +b1   ·    ·    ·    -a1 -b1 reset +c1 +a3     ·
    """
    *times, count = context.constants()[1:]
    plan = _timed(context, times, kind=UNIQUE_TIME_LENGTH_BATCH_KIND, length=whole(count))
    return KeyedWindow(context, plan)


def _timed(
    context: WindowContext,
    times: list[object],
    *,
    kind: int = UNIQUE_TIME_BATCH_KIND,
    length: int = 0,
    forgets: bool = False,
    accepted: Callable[[EventBatch, Step], EventBatch] | None = None,
) -> Plan:
    """Return the plan of a window whose `times` are its span and, if given, its start."""
    span, *start = map(whole, times)
    return Plan(
        kind, span=max(span, 1), length=length, origin=start[0] if start else None, forgets=forgets,
        owners=_owners(context), accepted=accepted,
    )  # fmt: skip
