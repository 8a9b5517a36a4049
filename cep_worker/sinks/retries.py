"""Retries of sinks, with one loop for all sinks."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from cep_common.errors import CepError
from cep_worker.sinks.threaded import WriteError

T = TypeVar("T")

WAITS_S = (0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0)
"""The delays between retries in seconds; the last one repeats."""


class RetryableError(CepError):
    """A failure that may pass: the same call can succeed later."""

    code = "sink-retry"


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """How long to wait between attempts, and how often to retry; `retries` is None for as long as the sink runs."""

    waits_s: tuple[float, ...] = WAITS_S
    retries: int | None = None

    def wait_s(self, tries: int) -> float:
        """Return the wait after `tries` failed retries."""
        return self.waits_s[min(tries, len(self.waits_s) - 1)]


def retry_policy(on_error: str, retry_count: int) -> RetryPolicy:
    """Return the policy of a sink's options: `on.error='WAIT'` retries for as long as the sink runs."""
    return RetryPolicy(WAITS_S, None if on_error == "WAIT" else retry_count)


def deliver_with_retries(
    attempt: Callable[[], T],
    policy: RetryPolicy,
    stopping: threading.Event,
    report: Callable[[str], None],
) -> T:
    """Call `attempt` until it succeeds and return its result.

    Args:
        attempt: raises RetryableError for a failure that may pass, any other error for one that will not.
        policy: the waits and the number of retries.
        stopping: ends the wait when the sink ends.
        report: is given the problem after each failed try, and an empty text after success.

    Raises:
        WriteError: the retries are used up, or the sink ended first.
    """
    tries = 0
    while True:
        try:
            result = attempt()
        except RetryableError as error:
            report(error.message)
            if policy.retries is not None and tries >= policy.retries:
                raise WriteError(f"dropped after {tries + 1} attempts: {error.message}") from error
            if stopping.wait(policy.wait_s(tries)):
                raise WriteError(f"the sink ended before delivery: {error.message}") from error
            tries += 1
        else:
            report("")
            return result
