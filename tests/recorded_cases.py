"""The conformance suite: what the recorded engine answered."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from siddhi.testing import Case, load_cases


@cache
def recorded_cases() -> tuple[Case, ...]:
    """All cases, read once in a process, which takes a second; nobody may change them."""
    return tuple(load_cases(Path(__file__).parent / "conformance" / "cases.jsonl.xz"))
