"""The costs of operators, by the name of their class: nanoseconds per event, microseconds per batch.

Written by `python -m benchmarks.operator_costs`.
"""

from __future__ import annotations

COSTS: dict[str, tuple[float, float]] = {
    "ChainOperator": (139.0, 19.0),
    "CompiledExpressionWindow": (685.0, 667.0),
    "CompiledMachineOperator": (393.0, 133.0),
    "CuttingWindow": (125.0, 85.0),
    "CuttingWindow per key": (2356.0, 110.0),
    "EventMachineOperator, event by event": (23153.0, 115.0),
    "ExpressionBatchWindow": (27835.0, 88.0),
    "ExpressionWindow": (50652.0, 248.0),
    "ExpressionWindow per key": (58427.0, 444.0),
    "Filter": (33.0, 68.0),
    "JoinOperator": (472.0, 151.0),
    "JoinOperator per key": (40682.0, 175.0),
    "KeyedSlidingSelection": (110.0, 54.0),
    "KeyedWindow": (339.0, 126.0),
    "LengthWindow": (82.0, 199.0),
    "LengthWindow per key": (2351.0, 316.0),
    "PolarToCartesian": (75.0, 100.0),
    "Selector": (120.0, 126.0),
    "SlidingSelection": (60.0, 48.0),
    "StreamingTimeBatchWindow": (102.0, 276.0),
    "TimedCuttingWindow per key": (2859.0, 152.0),
    "TimedTumblingSelection": (108.0, 56.0),
    "TumblingSelection": (98.0, 49.0),
    "UncutLengthBatchWindow": (83.0, 216.0),
}
