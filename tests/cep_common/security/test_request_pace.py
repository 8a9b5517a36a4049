"""The pace of requests: a second's worth at once, then as many as the rate allows, each client by itself."""

from __future__ import annotations

from cep_common.security import pace
from cep_common.security.pace import RequestPace


def test_a_client_may_make_a_seconds_requests_at_once_and_then_waits_for_each() -> None:
    bucket = RequestPace(10)
    assert [bucket.admit("a", 0) for _ in range(11)] == [True] * 10 + [False]
    assert not bucket.admit("a", 99)
    assert bucket.admit("a", 100)
    assert not bucket.admit("a", 100)


def test_what_is_refused_is_not_counted_and_silence_does_not_add_up() -> None:
    bucket = RequestPace(2)
    assert [bucket.admit("a", 0) for _ in range(100)].count(True) == 2
    assert [bucket.admit("a", 1_000_000) for _ in range(100)].count(True) == 2


def test_clients_do_not_wait_for_each_other() -> None:
    bucket = RequestPace(1)
    assert bucket.admit("a", 0)
    assert bucket.admit("b", 0)
    assert not bucket.admit("a", 0)


def test_of_many_clients_only_the_latest_are_remembered() -> None:
    bucket = RequestPace(1)
    for number in range(pace.MOST_CLIENTS + 50):
        bucket.admit(str(number), 0)
    assert len(bucket) == pace.MOST_CLIENTS


def test_without_a_rate_nothing_is_limited_nor_remembered() -> None:
    bucket = RequestPace(0)
    assert all(bucket.admit("a", 0) for _ in range(1_000))
    assert len(bucket) == 0
