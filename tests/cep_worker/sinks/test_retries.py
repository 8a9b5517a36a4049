"""The retry loop that all sinks share: how often it tries, how long it waits, and what ends it."""

from __future__ import annotations

import threading
from collections.abc import Callable

import pytest

from cep_worker.sinks.retries import RetryableError, RetryPolicy, deliver_with_retries, retry_policy
from cep_worker.sinks.threaded import WriteError

AT_ONCE = RetryPolicy((0.0,))


def failing(times: int) -> Callable[[], int]:
    """Return a call that fails so often before it returns the number of its calls."""
    calls = 0

    def attempt() -> int:
        nonlocal calls
        calls += 1
        if calls <= times:
            raise RetryableError(f"busy {calls}")
        return calls

    return attempt


def test_it_tries_until_the_call_succeeds_and_reports_each_problem_and_the_end() -> None:
    reported: list[str] = []
    assert deliver_with_retries(failing(2), AT_ONCE, threading.Event(), reported.append) == 3
    assert reported == ["busy 1", "busy 2", ""]


def test_it_gives_up_after_the_retries_of_its_policy() -> None:
    with pytest.raises(WriteError, match="dropped after 3 attempts: busy 3"):
        deliver_with_retries(failing(9), RetryPolicy((0.0,), 2), threading.Event(), lambda _: None)


def test_a_sink_that_ends_stops_waiting() -> None:
    stopping = threading.Event()
    stopping.set()
    with pytest.raises(WriteError, match="the sink ended before delivery: busy 1"):
        deliver_with_retries(failing(9), RetryPolicy((60.0,)), stopping, lambda _: None)


def test_an_error_that_will_not_pass_is_not_retried() -> None:
    def attempt() -> None:
        raise WriteError("refused")

    with pytest.raises(WriteError, match="refused"):
        deliver_with_retries(attempt, AT_ONCE, threading.Event(), lambda _: pytest.fail("no report"))


def test_waits_grow_and_the_last_repeats() -> None:
    policy = RetryPolicy((1.0, 2.0))
    assert [policy.wait_s(tries) for tries in range(4)] == [1.0, 2.0, 2.0, 2.0]
    assert retry_policy("WAIT", 3).retries is None
    assert retry_policy("LOG", 3).retries == 3
