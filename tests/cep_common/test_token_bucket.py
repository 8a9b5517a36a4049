"""A bucket of tokens: bursts, steady refill, debts."""

from __future__ import annotations

from cep_common.token_bucket import KeyedTokenBuckets, TokenBucket


def test_what_is_earned_grows_with_time_and_never_beyond_the_capacity() -> None:
    bucket = TokenBucket.per_second(10, 0)
    granted = [bucket.take_up_to(tokens, now_ms) for tokens, now_ms in ((100, 0), (1, 99), (5, 300), (100, 60_000))]
    assert granted == [10, 0, 3, 10]


def test_no_token_is_lost_to_rounding() -> None:
    bucket = TokenBucket.per_second(7, 0)
    assert bucket.take_up_to(7, 0) == 7
    assert sum(bucket.try_take(1, now_ms) for now_ms in range(1, 10_001)) == 70


def test_a_debt_delays_and_its_end_is_known_to_the_millisecond() -> None:
    bucket = TokenBucket.per_second(3, 0)
    bucket.take(5)
    assert (bucket.in_credit(), bucket.left(), bucket.debt_ms(), bucket.wait_ms()) == (False, -2, 667, 1_000)
    bucket.refill(666)
    assert not bucket.in_credit()
    bucket.refill(667)
    assert bucket.in_credit()
    assert not bucket.try_take(1, 999)
    assert bucket.try_take(1, 1_000)


def test_a_token_that_is_given_back_is_there_at_once_and_no_bucket_overflows() -> None:
    bucket = TokenBucket(2, 1, 60_000, 0)
    assert bucket.try_take(2, 0)
    bucket.give_back()
    assert bucket.try_take(1, 0)
    bucket.give_back(5)
    assert bucket.left() == 2


def test_a_changed_rate_keeps_what_is_left_but_for_what_it_cannot_hold() -> None:
    bucket = TokenBucket.per_second(10, 0)
    bucket.change_rate(4, 0)
    bucket.refill(0)
    assert bucket.left() == 4
    bucket.change_rate(100, 0)
    assert bucket.left() == 4


def test_a_clock_that_goes_back_earns_nothing() -> None:
    bucket = TokenBucket.per_second(1, 1_000)
    assert bucket.try_take(1, 1_000)
    assert not bucket.try_take(1, 0)


def test_of_many_keys_the_one_unused_for_longest_is_forgotten() -> None:
    buckets = KeyedTokenBuckets(1, 1, 1_000, 2)
    assert [buckets.try_take(key, 0) for key in ("a", "b", "a", "c")] == [True, True, False, True]
    assert len(buckets) == 2
    assert buckets.try_take("a", 0)
