"""Whose orders a driver follows: those of the manager that leads, of none that led before, of one system. Pure."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(slots=True)
class OrderFence:
    """Managers lead under tokens, each one above the last. `token` is the highest that was seen. `system` is the
    identity of the first managers' database that was heard, and managers of another one are `foreign`."""

    token: int = 0
    system: str = ""
    foreign: bool = False

    def follows(self, system: str) -> bool:
        """Return whether the managers of that system, who have answered, are followed: to those of another one all
        topologies that run here would be of plans that are gone."""
        self.foreign = bool(system and self.system and system != self.system)
        if not self.foreign:
            self.system = system or self.system
        return not self.foreign

    def admits(self, token: int) -> bool:
        """False for what comes from a manager that led before; else nothing of a lower token is admitted any more."""
        if token < self.token:
            return False
        self.token = token
        return True
