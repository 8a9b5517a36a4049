"""How long the code of a plan may work on one row: regular expressions, scripts and whatever else goes row by row.

An engine cannot stop a call that does not end, and knows no clock. A process that runs engines sets a `CallLimit` that
can (`set_call_limit`); without one, calls may take as long as they like.
"""

from __future__ import annotations

from typing import Self


class TookTooLongError(BaseException):
    """A call was stopped. No `Exception`, so that a script cannot catch it."""


class CallLimit:
    """Limits nothing. Enter it around calls, and say where each begins and ends."""

    def __enter__(self) -> Self:
        """Return the limit."""
        return self

    def __exit__(self, *_: object) -> None:
        """Do nothing; the limit ends with the call."""

    def begin(self) -> None:
        """Start the time of a call: until `end`, TookTooLongError may be raised at any place."""

    def end(self) -> None:
        """Stop the time of the call."""


class _Current:
    limit = CallLimit()


def set_call_limit(limit: CallLimit) -> None:
    """Let `limit` hold for all engines of this process."""
    _Current.limit = limit


def call_limit() -> CallLimit:
    """Return the limit that holds in this process."""
    return _Current.limit
