"""Token buckets for rate limits. Pure: time is an argument.

Budgets are integers, so that no token is lost to rounding: with `tokens` every `period_ms`, a token costs `period_ms`
units and each millisecond adds `tokens` units.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import Self


class TokenBucket:
    """A bucket that starts full, holds at most `capacity` tokens and gets `tokens` every `period_ms`."""

    __slots__ = ("_at_ms", "_full", "_left", "_period_ms", "_tokens")

    def __init__(self, capacity: int, tokens: int, period_ms: int, now_ms: int) -> None:
        """Create a full bucket.

        Args:
            capacity: The most tokens that it holds.
            tokens: How many tokens are added in each period.
            period_ms: The period in ms.
            now_ms: The present time in ms.
        """
        self._tokens = tokens
        self._period_ms = period_ms
        self._full = self._left = capacity * period_ms
        self._at_ms = now_ms

    @classmethod
    def per_second(cls, tokens: int, now_ms: int) -> Self:
        """Return a bucket for `tokens` a second with the capacity of one second."""
        return cls(tokens, tokens, 1_000, now_ms)

    def change_rate(self, tokens: int, now_ms: int) -> None:
        """Set rate and capacity to `tokens` a period from `now_ms` on; remaining tokens stay."""
        self.refill(now_ms)
        self._tokens, self._full = tokens, tokens * self._period_ms

    def refill(self, now_ms: int) -> None:
        """Add the tokens of the time that has passed; none when the clock went back."""
        self._left = min(self._full, self._left + max(0, now_ms - self._at_ms) * self._tokens)
        self._at_ms = now_ms

    def left(self) -> int:
        """Return how many whole tokens were left at the last refill; negative after an overdraft."""
        return self._left // self._period_ms

    def in_credit(self) -> bool:
        """Return whether the balance at the last refill was positive, possibly by less than a token."""
        return self._left > 0

    def take(self, tokens: int = 1) -> None:
        """Take tokens, even more than are left: the debt delays later ones."""
        self._left -= tokens * self._period_ms

    def try_take(self, tokens: int, now_ms: int) -> bool:
        """Take this many tokens if they are left, and return whether they were."""
        self.refill(now_ms)
        if self.left() < tokens:
            return False
        self.take(tokens)
        return True

    def take_up_to(self, tokens: int, now_ms: int) -> int:
        """Take up to this many tokens, and return how many."""
        self.refill(now_ms)
        granted = max(0, min(tokens, self.left()))
        self.take(granted)
        return granted

    def give_back(self, tokens: int = 1) -> None:
        """Put back tokens that were not used."""
        self._left = min(self._full, self._left + tokens * self._period_ms)

    def wait_ms(self, tokens: int = 1) -> int:
        """Return the time from the last refill until this many tokens are left."""
        return self._earned_in(tokens * self._period_ms - self._left)

    def debt_ms(self) -> int:
        """Return the time from the last refill until the bucket is in credit."""
        return self._earned_in(1 - self._left)

    def _earned_in(self, units: int) -> int:
        return max(0, -(-units // self._tokens))


class KeyedTokenBuckets:
    """A bucket for each key, such as an address; beyond `most_keys` the least recently used one is forgotten."""

    def __init__(self, capacity: int, tokens: int, period_ms: int, most_keys: int) -> None:
        """Create buckets that are made as keys appear.

        Args:
            capacity: The most tokens that each holds.
            tokens: How many tokens each gets in a period.
            period_ms: The period in ms.
            most_keys: How many keys are remembered.
        """
        self._shape = (capacity, tokens, period_ms)
        self._most_keys = most_keys
        self._buckets: OrderedDict[str, TokenBucket] = OrderedDict()

    def __len__(self) -> int:
        """Return how many keys have a bucket."""
        return len(self._buckets)

    def at(self, key: str, now_ms: int) -> TokenBucket:
        """Return the refilled bucket of the key; keys that took no token are not stored."""
        bucket = self._buckets.get(key)
        if bucket is None:
            return TokenBucket(*self._shape, now_ms)
        bucket.refill(now_ms)
        return bucket

    def take(self, key: str, now_ms: int) -> None:
        """Take a token of the key, even if none is left."""
        bucket = self._buckets[key] = self.at(key, now_ms)
        bucket.take()
        self._buckets.move_to_end(key)
        if len(self._buckets) > self._most_keys:
            self._buckets.popitem(last=False)

    def try_take(self, key: str, now_ms: int) -> bool:
        """Take a token of the key if there is one, and return whether there was."""
        if self.at(key, now_ms).left() < 1:
            return False
        self.take(key, now_ms)
        return True

    def give_back(self, key: str) -> None:
        """Put back a token of the key that was not used."""
        if key in self._buckets:
            self._buckets[key].give_back()
