"""A lag that grows for minutes is told, a burst that is worked off is not."""

from __future__ import annotations

import pytest

from cep_common.protocol.worker_reports import ConnectorReport, PartitionReport
from cep_manager.history.topic_lags import GROWS_MS, SAMPLE_MS, GrowingLag, TopicLags

PLAN = (-1234, "P")


def source(*lags: int) -> ConnectorReport:
    read = tuple(PartitionReport("t", number, 10, 10, 10 + lag) for number, lag in enumerate(lags))
    return ConnectorReport("source", "kafka", PLAN[0], PLAN[1], "S", "", 0, 0, 0, partitions=read)


def told(lags: list[int]) -> TopicLags:
    found = TopicLags()
    for number, lag in enumerate(lags):
        for quick in range(3):  # workers report more often than lags are noted
            found.heard("w1", [source(lag // 2, lag - lag // 2)], number * SAMPLE_MS + quick)
    return found


@pytest.mark.parametrize(
    ("lags", "grows"),
    [
        ([n * 100 for n in range(11)], True),
        ([0, 5, 0, 3, 0, 9, 12, 15, 14, 20, 22], True),
        ([n * 100 for n in range(10)], False),
        ([500] * 11, False),
        ([0, 7, 1, 9, 0, 4, 8, 2, 0, 9, 3], False),
        ([0, 0, 0, 0, 0, 9_000, 8_000, 7_000, 6_000, 5_000, 4_000], False),
        ([1_000 - n * 100 for n in range(11)], False),
        ([0] * 5 + [1] * 6, False),
    ],
)
def test_only_a_lag_that_keeps_growing_does(lags: list[int], grows: bool) -> None:
    wanted = {PLAN: (GrowingLag("t", lags[-1], lags[0], (len(lags) - 1) * SAMPLE_MS - GROWS_MS),)} if grows else {}
    assert told(lags).growing() == wanted


def test_the_lags_of_all_workers_count_and_those_of_silent_ones_end() -> None:
    found = TopicLags()
    for number in range(11):
        found.heard("w1", [source(number)], number * SAMPLE_MS)
        found.heard("w2", [source(number * 10)], number * SAMPLE_MS + 1)
    (growing,) = found.growing()[PLAN]
    assert growing.messages == 10 + 90  # w2 tells of the last sample after it
    found.heard("w3", [], 20 * SAMPLE_MS)
    assert found.growing() == {}
