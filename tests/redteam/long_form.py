"""Attacks have a short form, which the suite runs, and a long one: `make redteam`, which sets CEP_REDTEAM=1."""

from __future__ import annotations

import os
from typing import TypeVar

LONG = os.environ.get("CEP_REDTEAM") == "1"

T = TypeVar("T")


def of_length(short: T, long: T) -> T:
    """Return `long` in the long form of the suite, else `short`."""
    return long if LONG else short
