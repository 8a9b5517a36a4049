"""Limit how long the code of a plan may work on one row: regular expressions, scripts and other code called row by row.

An engine cannot stop a call that does not end, and reads no clock. A process that runs engines sets a `CallLimit` that
can (`set_call_limit`); without one, calls may take any time.
"""

from __future__ import annotations

from typing import Self


class TookTooLongError(BaseException):
    """A call was stopped. This is not an `Exception`, so that a script cannot catch it."""


class CallLimit:
    """The default: no limit. Enter it around calls, and mark the begin and end of each."""

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
    """Use `limit` for all engines of this process."""
    _Current.limit = limit


def call_limit() -> CallLimit:
    """Return the limit of this process."""
    return _Current.limit
