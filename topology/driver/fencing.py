"""Fencing: a driver follows orders of the current leader of one system only. Pure."""

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
        """Return whether to follow managers of that system.

        For managers of another system, all topologies that run here would belong to missing plans.
        """
        self.foreign = bool(system and self.system and system != self.system)
        if not self.foreign:
            self.system = system or self.system
        return not self.foreign

    def admits(self, token: int) -> bool:
        """Return whether the order is from the current leader. Lower tokens are refused from now on."""
        if token < self.token:
            return False
        self.token = token
        return True
