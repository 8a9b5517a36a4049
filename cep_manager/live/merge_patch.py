"""What changed between two pictures, as a JSON merge patch (RFC 7396). Pure."""

from __future__ import annotations

from typing import Any

CLOCKS = frozenset({"since_ms", "interrupted_ms", "silent_ms", "up_ms", "now_ms", "loop_age_ms", "covered_ms"})
"""Durations that only say how late it is: when nothing else has changed there is nothing to tell."""


def merge_patch(before: Any, after: Any) -> Any:
    """Return what must be merged into `before` to give `after`; `{}` when both are the same tables.

    Lists are told as a whole. A member of a table that is null cannot be told from one that is gone: readers take what
    they miss for null.
    """
    if not (isinstance(before, dict) and isinstance(after, dict)):
        return after
    patch = {name: None for name in before if name not in after}
    for name, value in after.items():
        if name not in before:
            patch[name] = value
        elif before[name] != value:
            patch[name] = merge_patch(before[name], value)
    return patch


def tells_something(patch: Any) -> bool:
    """False when only time has gone by."""
    if not isinstance(patch, dict):
        return True
    return any(name not in CLOCKS and tells_something(value) for name, value in patch.items())
