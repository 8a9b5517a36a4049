"""The restart of both nodes, one after the other. Pure."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from cep_common.nodes.files import MirrorReport

WAITS_TO_RESTART = "restarts when the other node is back"
"""The status of the active node while it waits for its turn."""

ROLLING_MS = 600_000
"""If the other node takes longer than this to return, the active node does not restart, as the order is outdated."""


@dataclass
class RollingRestart:
    """The restart of both nodes, as the active one follows it.

    It began at the time of day `since_ms`, when this node was active under `token`; `managers` are the processes that
    there were then. It is over at the monotonic time `until_ms`.
    """

    token: int
    since_ms: int
    managers: frozenset[str]
    until_ms: int

    def refusal(self, token: int, now_ms: int) -> str:
        """Return why this node, active under `token`, will not restart at `now_ms`; empty: it may, when it is time."""
        if token != self.token:
            return "it did not stay the active node throughout"
        if now_ms >= self.until_ms:
            return f"the other node did not come back within {ROLLING_MS // 60_000} minutes"
        return ""

    def is_my_turn(self, report: MirrorReport | None, managers: Collection[str]) -> bool:
        """Return whether the passive node has every event again, and its new manager is among `managers`."""
        back = not self.managers.issuperset(managers)
        return back and report is not None and report.state == "protected" and report.since_ms > self.since_ms
