"""The lifecycle of a worker."""

from __future__ import annotations

from cep_common.web.health import stalled


class Lifecycle:
    """The state of a worker that probes need. The data and control threads write it, any thread reads it."""

    def __init__(self) -> None:
        self.ends = False
        """The worker is to end; one that has handed its plans' events to another node accepts some until it leaves."""
        self.leaving = False
        self.registered = False
        self.tick_ms = 0
        """When the data thread ticked last, monotonic; 0 before the first tick."""

    def not_live(self, now_ms: int) -> str:
        """Return why the worker should be restarted, or an empty text."""
        if self.leaving or not self.tick_ms:
            return ""
        return stalled("the data thread", now_ms - self.tick_ms)

    def not_ready(self) -> str:
        """Return why the worker cannot serve plans now, or an empty text."""
        if self.leaving:
            return "the worker is shutting down"
        return "" if self.registered else "no manager accepts the worker's heartbeats"
