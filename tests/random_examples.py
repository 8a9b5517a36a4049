"""How many examples the tests draw that search for long: a share in every run, all with `make properties`."""

from __future__ import annotations

import os

SHARE = float(os.environ.get("CEP_EXAMPLES", "0.3"))
"""The part of a test's full number of examples that a run draws.

Properties of hypothesis draw others in each run (but the same with CI=true), tests with seeds take the first ones.
"""

FULL_LENGTH = SHARE >= 1
"""Whether tests that go through a list of cases take all of them, rather than a share."""

LEAST = 8
"""A run draws at least this many, or the full number if that is smaller."""


def examples(full: int) -> int:
    """Return how many examples to draw in a test that draws `full` at full length."""
    return max(min(full, LEAST), round(full * SHARE))
