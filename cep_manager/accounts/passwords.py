"""Passwords and their hashes (argon2id)."""

from __future__ import annotations

import secrets
import threading
from base64 import b64encode

from argon2 import PasswordHasher
from argon2.exceptions import InvalidHashError, VerificationError
from argon2.low_level import ARGON2_VERSION
from argon2.profiles import RFC_9106_LOW_MEMORY

ALPHABET = "abcdefghijkmnpqrstuvwxyzABCDEFGHJKLMNPQRSTUVWXYZ23456789"
"""Without characters that look like others."""

RANDOM_PARTS, PART_LENGTH = 4, 5


class Passwords:
    """Makes and checks hashes; any thread may call. One is computed at a time: each takes 64 MiB and a core, and
    whoever sends many passwords at once must not take them from those who run the system."""

    def __init__(self, hasher: PasswordHasher | None = None) -> None:
        self._hasher = hasher or PasswordHasher.from_parameters(RFC_9106_LOW_MEMORY)
        self._one_at_a_time = threading.Lock()
        self._nobodys = _nobodys(self._hasher)

    def hash(self, password: str) -> str:
        """What is kept of a password."""
        with self._one_at_a_time:
            return self._hasher.hash(password)

    def is_right(self, password: str, kept: str | None) -> bool:
        """True when `kept` is the hash of the password. For None, the hash of somebody who does not exist, it is False
        after just as long."""
        with self._one_at_a_time:
            try:
                return self._hasher.verify(kept or self._nobodys, password) and kept is not None
            except (VerificationError, InvalidHashError):
                return False


def _nobodys(hasher: PasswordHasher) -> str:
    """A hash of no password, which takes as long to check as any other, and no time to make."""
    salt, digest = (
        b64encode(secrets.token_bytes(length)).decode().rstrip("=") for length in (hasher.salt_len, hasher.hash_len)
    )
    costs = f"m={hasher.memory_cost},t={hasher.time_cost},p={hasher.parallelism}"
    return f"$argon2id$v={ARGON2_VERSION}${costs}${salt}${digest}"


def random_password() -> str:
    """One that nobody guesses and that can be typed: more than 115 random bits."""
    parts = ("".join(secrets.choice(ALPHABET) for _ in range(PART_LENGTH)) for _ in range(RANDOM_PARTS))
    return "-".join(parts)
