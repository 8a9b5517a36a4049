"""Whose orders a driver follows: those of the manager that leads, and of none that led before. Pure."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(slots=True)
class OrderFence:
    """Managers lead under tokens, each one above the last. `token` is the highest that was seen."""

    token: int = 0

    def admits(self, token: int) -> bool:
        """False for what comes from a manager that led before; else nothing of a lower token is admitted any more."""
        if token < self.token:
            return False
        self.token = token
        return True
