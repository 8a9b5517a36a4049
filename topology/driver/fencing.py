"""Whose orders a driver follows: those of the manager that leads, of none that led before, of one system. Pure."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(slots=True)
class OrderFence:
    """Rejects orders of managers that no longer lead.

    Managers lead under tokens, each higher than the last. `token` is the highest so far. `system` is the identity of
    the first managers' database, and managers of another database are `foreign`.
    """

    token: int = 0
    system: str = ""
    foreign: bool = False

    def follows(self, system: str) -> bool:
        """Return whether to follow the managers of that system, which have responded.

        For managers of another system, all topologies that run here would belong to missing plans.
        """
        self.foreign = bool(system and self.system and system != self.system)
        if not self.foreign:
            self.system = system or self.system
        return not self.foreign

    def admits(self, token: int) -> bool:
        """Return whether the order comes from the current leader, and refuse every lower token from now on."""
        if token < self.token:
            return False
        self.token = token
        return True
