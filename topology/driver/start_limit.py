"""The start time-outs of stage hosts and of the tasks of a topology. Pure."""

from __future__ import annotations

MOST_DOUBLINGS = 3


def start_limit_ms(timeout_ms: int, late: int) -> int:
    """Return the time limit of a start after `late` starts in a row that took too long.

    The limit doubles each time, up to eight times `timeout_ms`. On a machine so busy that a start takes longer than
    the time-out, a fixed limit would end every start just before it succeeds.
    """
    return timeout_ms << min(late, MOST_DOUBLINGS)
