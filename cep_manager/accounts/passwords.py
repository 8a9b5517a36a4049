"""Passwords and their hashes (argon2id)."""

from __future__ import annotations

import contextlib
import secrets
import threading
from base64 import b64encode
from collections.abc import Iterator

from argon2 import PasswordHasher
from argon2.exceptions import InvalidHashError, VerificationError
from argon2.low_level import ARGON2_VERSION
from argon2.profiles import RFC_9106_LOW_MEMORY

from cep_manager.accounts.errors import TooManyAttemptsError

ALPHABET = "abcdefghijkmnpqrstuvwxyzABCDEFGHJKLMNPQRSTUVWXYZ23456789"
"""The characters of generated passwords, without similar-looking ones."""

RANDOM_PARTS, PART_LENGTH = 4, 5


KNOWN_WAIT, OTHERS_WAIT = 12, 4
"""Maximum number of logins waiting for a hash: from addresses with a successful login before, and from others, which
thus delay a login by at most a second."""
AGAIN_AFTER_MS = 1_000


class Passwords:
    """Makes and checks password hashes; any thread may call.

    Only one hash is computed at a time: each takes 64 MiB and a core, and a flood of logins must not starve the
    manager.
    """

    def __init__(self, hasher: PasswordHasher | None = None) -> None:
        self._hasher = hasher or PasswordHasher.from_parameters(RFC_9106_LOW_MEMORY)
        self._one_at_a_time = threading.Lock()
        self._counting = threading.Lock()
        self._queued = 0
        self._placeholder = _placeholder(self._hasher)

    def hash(self, password: str) -> str:
        """Return the hash of a password. Raises TooManyAttemptsError when too many callers wait."""
        with self._turn(KNOWN_WAIT):
            return self._hasher.hash(password)

    def is_right(self, password: str, kept: str | None, *, known: bool = True) -> bool:
        """Return whether `kept` is the hash of the password.

        For None (an unknown user) it returns False after the same time. Raises TooManyAttemptsError
        when too many wait; a `known` user may wait longer than others.
        """
        with self._turn(KNOWN_WAIT if known else OTHERS_WAIT):
            try:
                return self._hasher.verify(kept or self._placeholder, password) and kept is not None
            except (VerificationError, InvalidHashError):
                return False

    @contextlib.contextmanager
    def _turn(self, most_waiting: int) -> Iterator[None]:
        with self._counting:
            if self._queued > most_waiting:
                raise TooManyAttemptsError(AGAIN_AFTER_MS)
            self._queued += 1
        try:
            with self._one_at_a_time:
                yield
        finally:
            with self._counting:
                self._queued -= 1


def _placeholder(hasher: PasswordHasher) -> str:
    """Return a hash that matches no password and takes as long to check as any other."""
    salt, digest = (
        b64encode(secrets.token_bytes(length)).decode().rstrip("=") for length in (hasher.salt_len, hasher.hash_len)
    )
    costs = f"m={hasher.memory_cost},t={hasher.time_cost},p={hasher.parallelism}"
    return f"$argon2id$v={ARGON2_VERSION}${costs}${salt}${digest}"


def random_password() -> str:
    """Return a random password that is easy to type and has more than 115 random bits."""
    parts = ("".join(secrets.choice(ALPHABET) for _ in range(PART_LENGTH)) for _ in range(RANDOM_PARTS))
    return "-".join(parts)
