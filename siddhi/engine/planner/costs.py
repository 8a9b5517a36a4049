"""What operators cost, by the name of their class: nanoseconds an event, microseconds a batch.

Written by `python -m benchmarks.operator_costs`.
"""

from __future__ import annotations

COSTS: dict[str, tuple[float, float]] = {
    "AllByEvents": (94.0, 124.0),
    "BatchWindow": (5348.0, 229.0),
    "ChainOperator": (143.0, 21.0),
    "CronWindow": (7994.0, 62.0),
    "CuttingWindow": (80.0, 66.0),
    "CuttingWindow per key": (2356.0, 110.0),
    "DelayWindow": (13987.0, 86.0),
    "EventMachineOperator": (23153.0, 115.0),
    "ExpressionBatchWindow": (27835.0, 88.0),
    "ExpressionWindow": (50652.0, 248.0),
    "ExpressionWindow per key": (137322.0, 520.0),
    "Filter": (16.0, 47.0),
    "FirstByEvents": (796.0, 81.0),
    "FrequentWindow": (6863.0, 128.0),
    "JoinOperator": (718.0, 96.0),
    "JoinOperator per key": (40682.0, 175.0),
    "KeyedSlidingSelection": (114.0, 50.0),
    "LastByEvents": (124.0, 157.0),
    "LastByEvents per key": (7912.0, 204.0),
    "LengthWindow": (78.0, 122.0),
    "LengthWindow per key": (2351.0, 316.0),
    "LossyFrequentWindow": (3783.0, 68.0),
    "PolarToCartesian": (75.0, 100.0),
    "Selector": (120.0, 126.0),
    "SessionWindow": (33477.0, 164.0),
    "SessionWindow per key": (40704.0, 411.0),
    "SlidingSelection": (42.0, 37.0),
    "Snapshot per key": (24418.0, 316.0),
    "SortWindow": (10036.0, 124.0),
    "SortWindow per key": (19023.0, 300.0),
    "StreamingTimeBatchWindow": (102.0, 276.0),
    "TimedCuttingWindow per key": (2859.0, 152.0),
    "TimedTumblingSelection": (108.0, 56.0),
    "TumblingSelection": (98.0, 49.0),
    "UncutLengthBatchWindow": (83.0, 216.0),
    "UniqueEverWindow": (3678.0, 246.0),
    "UniqueLengthWindow": (4041.0, 176.0),
}
