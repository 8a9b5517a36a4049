"""The distribution of numbers: the columns of histograms and timers. Pure."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

SHARES = {"p50": 0.5, "p75": 0.75, "p95": 0.95, "p98": 0.98, "p99": 0.99, "p999": 0.999}


def spread(counts: Mapping[float, int]) -> dict[str, float]:
    """Least, most, mean, standard deviation and percentiles of numbers that came so often; there is at least one."""
    numbers = sorted(number for number, often in counts.items() if often > 0)
    total = sum(counts[number] for number in numbers)
    mean = sum(number * counts[number] for number in numbers) / total
    variance = sum(counts[number] * (number - mean) ** 2 for number in numbers) / (total - 1) if total > 1 else 0.0
    return {
        "max": numbers[-1],
        "mean": mean,
        "min": numbers[0],
        "stddev": math.sqrt(variance),
        **{name: _percentile(numbers, counts, share * total) for name, share in SHARES.items()},
    }


def _percentile(numbers: Sequence[float], counts: Mapping[float, int], rank: float) -> float:
    for number in numbers:
        rank -= counts[number]
        if rank <= 1e-9:  # shares are not exact in binary
            return number
    return numbers[-1]
