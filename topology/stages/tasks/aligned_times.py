"""Alignment of distant times to whole seconds, so that many idle tasks of a process share wakeups."""

from __future__ import annotations

ALIGN_MS = 1_000
FAR_MS = 10 * ALIGN_MS
"""Times that are nearer than this are not aligned."""


def aligned(due_ms: int, now_ms: int) -> int:
    """Return `due_ms`, or the whole second before it if it is far from `now_ms`. Pure; times are monotonic."""
    return due_ms - due_ms % ALIGN_MS if due_ms - now_ms >= FAR_MS else due_ms
