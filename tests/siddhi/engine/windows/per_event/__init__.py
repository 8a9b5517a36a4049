"""Windows that process one event after the other, one for each instance: the reference for windows with n keys."""

from __future__ import annotations

from per_event.batch import BatchWindow
from per_event.cron import CronWindow
from per_event.delay import DelayWindow
from per_event.frequent import FrequentWindow, LossyFrequentWindow
from per_event.session import SessionWindow
from per_event.sort import SortWindow
from per_event.time_length import TimeLengthWindow
from per_event.unique_batches import (
    UniqueFirstLengthBatchWindow,
    UniqueFirstTimeBatchWindow,
    UniqueLengthBatchWindow,
    UniqueTimeBatchWindow,
    UniqueTimeLengthBatchWindow,
)
from per_event.unique_sliding import UniqueEverWindow, UniqueFirstWindow, UniqueLengthWindow, UniqueTimeWindow
from siddhi.engine.operators.windows.base.cutting import CuttingWindow, TimedCuttingWindow
from siddhi.engine.operators.windows.base.window import WindowContext, WindowFactory, WindowOperator
from siddhi.engine.operators.windows.by_expression.per_event import ExpressionBatchWindow, ExpressionWindow
from siddhi.engine.operators.windows.external_time import ExternalTimeWindow
from siddhi.engine.operators.windows.external_time_batch import ExternalTimeCutter
from siddhi.engine.operators.windows.length import LengthWindow
from siddhi.engine.operators.windows.length_batch import LengthCutter, UncutLengthBatchWindow, length_and_streaming
from siddhi.engine.operators.windows.time import TimeWindow
from siddhi.engine.operators.windows.time_batch import StreamingTimeBatchWindow, TimeCutter


def _length_batch(context: WindowContext) -> WindowOperator:
    length, streaming = length_and_streaming(context.constants())
    if streaming or length <= 0:
        return UncutLengthBatchWindow(context, length)
    return CuttingWindow(context, LengthCutter(length, expired=context.expired))


def _time_batch(context: WindowContext) -> WindowOperator:
    cutter = TimeCutter(context.constants(), expired=context.expired)
    return (StreamingTimeBatchWindow if cutter.streaming else TimedCuttingWindow)(context, cutter)


def _external_time_batch(context: WindowContext) -> WindowOperator:
    return CuttingWindow(context, ExternalTimeCutter(context))


ONE_BY_ONE: dict[tuple[str, str], WindowFactory] = {
    ("", "length"): LengthWindow,
    ("", "lengthBatch"): _length_batch,
    ("", "time"): TimeWindow,
    ("", "timeBatch"): _time_batch,
    ("", "externalTime"): ExternalTimeWindow,
    ("", "externalTimeBatch"): _external_time_batch,
    ("", "timeLength"): TimeLengthWindow,
    ("", "delay"): DelayWindow,
    ("", "cron"): CronWindow,
    ("", "sort"): SortWindow,
    ("", "session"): SessionWindow,
    ("", "batch"): BatchWindow,
    ("", "frequent"): FrequentWindow,
    ("", "lossyFrequent"): LossyFrequentWindow,
    ("", "expression"): ExpressionWindow,
    ("", "expressionBatch"): ExpressionBatchWindow,
    ("unique", "ever"): UniqueEverWindow,
    ("unique", "first"): UniqueFirstWindow,
    ("unique", "length"): UniqueLengthWindow,
    ("unique", "time"): UniqueTimeWindow,
    ("unique", "lengthBatch"): UniqueLengthBatchWindow,
    ("unique", "firstLengthBatch"): UniqueFirstLengthBatchWindow,
    ("unique", "timeBatch"): UniqueTimeBatchWindow,
    ("unique", "firstTimeBatch"): UniqueFirstTimeBatchWindow,
    ("unique", "timeLengthBatch"): UniqueTimeLengthBatchWindow,
}
