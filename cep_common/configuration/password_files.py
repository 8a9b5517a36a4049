"""Passwords in files, so that plans and configurations need not contain them."""

from __future__ import annotations

from pathlib import Path


class PasswordFileError(ValueError):
    """The file is missing, or contains no password."""


def read_password(path: str) -> str:
    """Return the first line of the file at `path`. Raise PasswordFileError when it cannot be read."""
    try:
        return Path(path).read_text(encoding="utf-8").splitlines()[0]
    except (OSError, IndexError, ValueError) as error:  # ValueError: not UTF-8, or NUL in `path`
        raise PasswordFileError(f"{path} cannot be read") from error
