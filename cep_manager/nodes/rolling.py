"""The restart of both nodes, one after the other. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from cep_common.nodes.files import MirrorReport


@dataclass
class RollingRestart:
    """The restart of both nodes, as the active one follows it from the time of day `since_ms` on."""

    since_ms: int

    def is_my_turn(self, report: MirrorReport | None) -> bool:
        """Return whether the passive node has been restarted and has every event again."""
        return report is not None and report.state == "protected" and report.since_ms > self.since_ms
