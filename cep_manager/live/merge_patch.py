"""What changed between two pictures, as a JSON merge patch (RFC 7396). Pure."""

from __future__ import annotations

from typing import Any

CLOCKS = frozenset({"since_ms", "interrupted_ms", "silent_ms", "up_ms", "now_ms", "loop_age_ms", "covered_ms"})
"""Durations that only say how late it is: when nothing else has changed there is nothing to tell."""


def merge_patch(before: Any, after: Any) -> Any:
    """Return the merge patch from `before` to `after`; `{}` when both are equal.

    Lists are replaced as a whole. A null member is like a missing one: readers take missing members for
    null.
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
    """Return whether the patch contains more than the passing of time."""
    if not isinstance(patch, dict):
        return True
    return any(name not in CLOCKS and tells_something(value) for name, value in patch.items())
