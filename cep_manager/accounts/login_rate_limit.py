"""Limits login attempts per address, per name from one address, and per name from all addresses.

Pure: time is an argument.

Each limit has a bucket of attempts that refills steadily. An attempt takes one from every bucket before the password is
checked, so parallel attempts gain nothing; a correct password returns it. Guessing from elsewhere cannot lock a name:
its bucket for all addresses is large and does not apply to addresses from which the name has logged in before.
"""

from __future__ import annotations

from collections import OrderedDict

import msgspec

from cep_common.token_bucket import KeyedTokenBuckets

MOST_BUCKETS = 10_000
"""The number of names, and of addresses, with buckets; the least recently used one is forgotten first."""


class LoginAllowance(msgspec.Struct, frozen=True):
    """The number of consecutive attempts, with one more every `refill_ms`."""

    attempts: int
    refill_ms: int

    def buckets(self) -> KeyedTokenBuckets:
        """Return full buckets with this allowance."""
        return KeyedTokenBuckets(self.attempts, 1, self.refill_ms, MOST_BUCKETS)


OF_PAIR = LoginAllowance(10, 60_000)
OF_NAME = LoginAllowance(100, 6_000)
OF_ADDRESS = LoginAllowance(20, 15_000)


class LoginRateLimit:
    """The buckets of login attempts. Not thread-safe."""

    def __init__(
        self,
        of_name: LoginAllowance = OF_NAME,
        of_address: LoginAllowance = OF_ADDRESS,
        of_pair: LoginAllowance = OF_PAIR,
    ) -> None:
        self._names = of_name.buckets()
        self._addresses = of_address.buckets()
        self._pairs = of_pair.buckets()
        self._known: OrderedDict[str, None] = OrderedDict()

    def attempt(self, name: str, address: str, now_ms: int) -> int:
        """Count an attempt and return 0 if it is allowed now, else the time to wait in milliseconds."""
        buckets = self._buckets(name, address)
        wait_ms = max(bucket.at(key, now_ms).wait_ms() for bucket, key in buckets)
        if wait_ms == 0:
            for bucket, key in buckets:
                bucket.take(key, now_ms)
        return wait_ms

    def succeeded(self, name: str, address: str) -> None:
        """Return the last attempt to the buckets because its password was correct."""
        self.undo(name, address)
        self._known[_pair(name, address)] = None
        self._known.move_to_end(_pair(name, address))
        if len(self._known) > MOST_BUCKETS:
            self._known.popitem(last=False)

    def undo(self, name: str, address: str) -> None:
        """Return the last attempt to the buckets because its password was never checked."""
        for bucket, key in self._buckets(name, address):
            bucket.give_back(key)

    def is_known(self, name: str, address: str) -> bool:
        """Return whether a user has logged in with this name from that address."""
        return _pair(name, address) in self._known

    def _buckets(self, name: str, address: str) -> list[tuple[KeyedTokenBuckets, str]]:
        own = [(self._pairs, _pair(name, address)), (self._addresses, address)]
        return own if self.is_known(name, address) else [*own, (self._names, name)]


def _pair(name: str, address: str) -> str:
    return f"{name}\0{address}"
