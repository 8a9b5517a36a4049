"""Compact an app's string pool: remove strings that no operator uses, which changes all codes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Protocol

import numpy as np

from siddhi.engine.columnar.state_size import StateSize
from siddhi.engine.columnar.state_tree import CodeChange
from siddhi.engine.columnar.strings import NULL_CODE, StringPool
from siddhi.engine.jit.arrays import BoolArray, Int64Array
from siddhi.engine.jit.kernels import grown
from siddhi.engine.tuning import MIN_NEW_STRING_BYTES, MIN_NEW_STRINGS, STATE_BYTES_PER_NEW_STRING


class HoldsCodes(Protocol):
    """An object with string codes in its state, such as an operator."""

    def live_codes(self) -> Iterator[Int64Array]:
        """Return all codes in use, with or without repetitions."""

    def recode(self, change: CodeChange) -> None:
        """Replace every code in the state by the result of `change`."""

    def state_size(self) -> StateSize:
        """Return the size of the state."""


class StringCompaction:
    """A policy that bounds the string pool.

    It may grow to twice the strings in use, plus `MIN_NEW_STRINGS`, plus one for each `STATE_BYTES_PER_NEW_STRING` of
    state. The same applies to bytes: twice those in use, plus `MIN_NEW_STRING_BYTES`, plus the bytes of the state.

    Between two compactions at least as many new strings, or bytes, arrive as were in use after the first, so the cost
    of an event does not grow with the running time of the app.
    """

    def __init__(
        self,
        pool: StringPool,
        holders: Sequence[HoldsCodes],
        shared: Callable[[], Sequence[HoldsCodes]] = lambda: (),
    ) -> None:
        """Create the policy; `shared` are further objects with codes, whose number may change."""
        self._pool = pool
        self._always = holders
        self._shared = shared
        self._due_at = MIN_NEW_STRINGS
        self._due_at_bytes = MIN_NEW_STRING_BYTES
        self._looked_at = 0

    def run_if_due(self) -> None:
        """Compact the pool if it has grown enough. Call it only between two steps."""
        strings = len(self._pool)
        if strings == self._looked_at:  # the common case
            return
        self._looked_at = strings
        if strings >= self._due_at or self._pool.text_bytes >= self._due_at_bytes:
            self.run(goes_on=True)

    def run(self, *, goes_on: bool = False) -> None:
        """Remove the strings that are not in use from the pool.

        With `goes_on` new strings are expected at the same rate: the pool keeps room for them until the next
        compaction.
        """
        live: BoolArray = np.zeros(len(self._pool) + 1, dtype=np.bool_)
        holders = [*self._always, *self._shared()]
        for holder in holders:
            for codes in holder.live_codes():
                live = grown(live, len(self._pool) + 1)  # columns that have not been read get their codes now
                live[np.maximum(codes, NULL_CODE)] = True
        in_use = np.flatnonzero(live[: len(self._pool)])
        state_bytes = sum(holder.state_size().bytes for holder in holders)
        to_come = max(len(in_use), MIN_NEW_STRINGS, state_bytes // STATE_BYTES_PER_NEW_STRING)
        new_codes = self._pool.compact(in_use, to_come if goes_on else 0)
        for holder in holders:
            holder.recode(lambda codes: new_codes[np.maximum(codes, NULL_CODE)])
        used_bytes = self._pool.text_bytes
        self._due_at = len(in_use) + to_come
        self._due_at_bytes = used_bytes + max(used_bytes, MIN_NEW_STRING_BYTES, state_bytes)
