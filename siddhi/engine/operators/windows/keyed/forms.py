"""The windows implemented as keyed windows.

    delay(10)         clock   0    4    10   14
                      in      a    b
                      out               +a   +b
    sort(2, v)        in      5    3    4         1
                      out     +5   +3   +4 -5     +1 -4
    timeLength(10,2)  clock   0    4    5         14    15
                      in      a    b    c
                      out     +a   +b   -a +c     -b    -c
    cron('*/10 …')    clock   1    4    10          12   20                30   33   40
                      in      a    b                c                           d
                      out             +a +b              -a -b +c          ·         -c +d
    session(10)       clock   0    4               14              30
                      in      a    b                               c
                      out     +a   +b              -a -b (as one)  +c

`batch`: with the first batch of a chunk the events of the chunk before expire, then its own events pass. A reset
precedes every batch but the very first, with the values of the first event of the batch before. Where expired events
are not used a partition's window drops every chunk, so that no reset ends it, as in Siddhi.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np

from siddhi.analysis import model
from siddhi.cron import CronSchedule, parse_cron
from siddhi.engine.jit.arrays import Int64Array
from siddhi.engine.operators.expressions.evaluation import ExpressionNode
from siddhi.engine.operators.expressions.leaves import scalar_or_none
from siddhi.engine.operators.functions.conversion import java_text
from siddhi.engine.operators.windows.base.window import WINDOWS, WindowContext
from siddhi.engine.operators.windows.keyed.layout import (
    BATCH_KIND,
    CRON_KIND,
    DELAY_KIND,
    FREQUENT_KIND,
    LOSSY_KIND,
    SESSION_KIND,
    SORT_KIND,
    TIME_LENGTH_KIND,
)
from siddhi.engine.operators.windows.keyed.owners import Owners, Text
from siddhi.engine.operators.windows.keyed.sorting import SortLines
from siddhi.engine.operators.windows.keyed.window import KeyedWindow, Plan
from siddhi.language.ast import AttributeType

_WIDEST = 2**31 - 1
"""The maximum size of a bucket, even if no error at all is allowed."""


def whole(constant: object) -> int:
    """Return a constant of any numeric type as an integer."""
    return int(str(constant))


@WINDOWS.register("delay")
def delay(context: WindowContext) -> KeyedWindow:
    """Return every event, T later, with the clock then as its timestamp. Nothing ever expires."""
    (span,) = context.constants()
    return KeyedWindow(context, Plan(DELAY_KIND, span=whole(span)))


@WINDOWS.register("timeLength")
def time_length(context: WindowContext) -> KeyedWindow:
    """Return a window of the last n events, none older than T.

    With a length of 0 it holds nothing and expires nothing. The oldest event leaves a full window, and every event
    leaves at its own time.
    """
    span, length = context.constants()
    return KeyedWindow(context, Plan(TIME_LENGTH_KIND, span=whole(span), length=whole(length)))


@WINDOWS.register("batch")
def batch(context: WindowContext) -> KeyedWindow:
    """Return a window in which each chunk of events is a batch; `batch(n)` cuts a chunk into batches of n."""
    (length,) = map(whole, context.constants()) if context.call.arguments else (0,)
    forgets = context.operator.partitioned and not context.expired
    return KeyedWindow(context, Plan(BATCH_KIND, length=length, forgets=forgets))


@WINDOWS.register("cron")
def cron(context: WindowContext) -> KeyedWindow:
    """Return a window of the events between two times of a Quartz cron expression.

    They pass at the second time and expire at the end of the next period that has events. There is no reset between
    two periods: the expired events are always emitted.
    """
    (text,) = context.constants()
    return KeyedWindow(context, Plan(CRON_KIND, ticks=_ticks(parse_cron(str(text)))))


def _ticks(times: CronSchedule) -> Callable[[Int64Array], Int64Array]:
    """Return the next time after each of some clocks, which rise."""
    known: list[tuple[int, int]] = []  # a clock and the time after it, as the last step found them

    def after(clock: int) -> int | None:
        if known and known[0][0] <= clock < known[0][1]:
            return known[0][1]
        due = times.next_after(clock)
        known[:] = [] if due is None else [(clock, due)]
        return due

    def ticks(clocks: Int64Array) -> Int64Array:
        found: list[int] = []
        place = 0
        while place < len(clocks):
            due = after(int(clocks[place]))
            if due is None:
                break
            found.append(due)
            place = int(np.searchsorted(clocks, due, side="left"))
        return np.array(found, dtype=np.int64)

    return ticks


@WINDOWS.register("sort")
def sort(context: WindowContext) -> KeyedWindow:
    """Return a window of the n first events in the order of attributes.

    The sort is stable, nulls last; the new event may be the one that leaves.
    """
    length, *rest = context.arguments()
    keys: list[tuple[ExpressionNode, bool]] = []
    for node in rest:
        order = scalar_or_none(node)
        if order is None:
            keys.append((node, False))
        else:
            keys[-1] = (keys[-1][0], str(order).lower() == "desc")
    lines = SortLines(keys, context.operator.pool)
    size = whole(scalar_or_none(length))
    plan = Plan(SORT_KIND, length=size, lines=lines.of, sort_lines=len(keys), restored=lines.restored)
    return KeyedWindow(context, plan)


@WINDOWS.register("session")
def session(context: WindowContext) -> KeyedWindow:
    """Return a window of sessions: events of a key with less than a gap of silence between them.

    They pass at once, and leave together when the session is over, with their own timestamps. With an allowed latency
    a session that is over accepts late events for that time before it leaves.

    Events later than the session's end but earlier than its timer pass without joining any session, as in Siddhi. A
    late event joins the session that begins no more than a gap later, and ends none earlier; two sessions that come
    as near as two gaps are merged. Rows that leave when an event comes follow the chunk of the event.
    """
    gap, *rest = context.arguments()
    key = [node for node in rest if node.type is AttributeType.STRING]
    latency = [whole(scalar_or_none(node)) for node in rest if node.type is not AttributeType.STRING]

    def text(values: Sequence[tuple[object, ...]]) -> list[str]:
        return [str(value[0]) if value else "" for value in values]

    owners = Owners(key, context.operator.pool, text)
    late = latency[0] if latency else 0
    plan = Plan(SESSION_KIND, span=whole(scalar_or_none(gap)), latency=late, owners=owners)
    return KeyedWindow(context, plan)


def _texts_of(nodes: Sequence[ExpressionNode]) -> Text:
    """Return keys that are the texts of their attributes."""

    def text(values: Sequence[tuple[object, ...]]) -> list[str]:
        return [
            ":-:".join("null" if (found := java_text(item, node.type)) is None else found
                       for item, node in zip(value, nodes, strict=True)) if value else ""
            for value in values
        ]  # fmt: skip

    return text


def _counted(context: WindowContext) -> tuple[list[object], Owners]:
    """Return the numbers among the arguments, and the keys.

    Without attributes the keys are those that the query selects unchanged, as in Siddhi: all events have the same key
    when it selects none.
    """
    nodes = context.arguments()
    numbers = [scalar_or_none(node) for node in nodes if scalar_or_none(node) is not None]
    keys = [node for node in nodes if scalar_or_none(node) is None] or [
        context.compiler.compile(model.AttributeValue(0, name, type_))
        for name, type_ in context.call.output.attributes
        if name in context.selected
    ]
    return numbers, Owners(keys, context.operator.pool, _texts_of(keys))


@WINDOWS.register("frequent")
def frequent(context: WindowContext) -> KeyedWindow:
    """Return the newest event of each of the n most frequent keys, by Misra and Gries."""
    numbers, owners = _counted(context)
    return KeyedWindow(context, Plan(FREQUENT_KIND, length=whole(numbers[0]), owners=owners, sort_lines=3))


@WINDOWS.register("lossyFrequent")
def lossy_frequent(context: WindowContext) -> KeyedWindow:
    """Return a window of lossy counting, in buckets of 1 / error events.

    Events pass when their key has at least (support - error) of all events.
    """
    numbers, owners = _counted(context)
    support, error = (float(str(number)) for number in numbers)
    width = min(math.ceil(1 / error), _WIDEST) if abs(error) > 1 / _WIDEST else _WIDEST
    return KeyedWindow(context, Plan(LOSSY_KIND, length=width, share=support - error, owners=owners, sort_lines=3))
