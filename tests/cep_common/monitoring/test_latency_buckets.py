"""Lengths of time are counted in buckets from which percentiles can be told to within 5 %."""

import math
import random
from collections import Counter

import pytest

from cep_common.monitoring.latency import BUCKETS, bucket, percentile_ms, upper_bound_ms


def test_a_length_of_time_lies_within_the_bounds_of_its_bucket() -> None:
    for length_ns in (1, 64_000, 64_001, 1_000_000, 17_000_000, 3_000_000_000, 10**12):
        index = bucket(length_ns)
        assert length_ns / 1e6 <= upper_bound_ms(index) * (1 + 1e-9)
        if index:
            assert length_ns / 1e6 > upper_bound_ms(index - 1) * (1 - 1e-9)


def test_buckets_are_bounded() -> None:
    assert bucket(10**18) == BUCKETS - 1
    assert upper_bound_ms(BUCKETS - 1) == math.inf
    assert upper_bound_ms(BUCKETS - 2) == pytest.approx(246_000, rel=0.001)


@pytest.mark.parametrize("share", [0.5, 0.95, 0.99, 0.999])
def test_a_percentile_is_told_to_within_five_percent(share: float) -> None:
    random.seed(1)
    lengths_ms = sorted(random.lognormvariate(2.0, 1.0) for _ in range(20_000))
    counts = Counter(bucket(int(length_ms * 1e6)) for length_ms in lengths_ms)
    told = percentile_ms(counts, share)
    assert told == pytest.approx(lengths_ms[int(share * len(lengths_ms)) - 1], rel=0.05)


def test_nothing_counted_has_no_percentile() -> None:
    assert percentile_ms({}, 0.99) is None
