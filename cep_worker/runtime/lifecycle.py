"""The lifecycle of a worker."""

from __future__ import annotations

from cep_common.web.health import stalled


class Lifecycle:
    """The state of a worker for health probes. The data and control threads write it, any thread may read it."""

    def __init__(self) -> None:
        self.ends = False
        """Whether the worker is to end. One that mirrors to another node accepts events until it ends."""
        self.leaving = False
        self.registered = False
        self.tick_ms = 0
        """Monotonic time of the data thread's last tick; 0 before the first one."""

    def not_live(self, now_ms: int) -> str:
        """Return why the worker should be restarted; empty if it is live."""
        if self.leaving or not self.tick_ms:
            return ""
        return stalled("the data thread", now_ms - self.tick_ms)

    def not_ready(self) -> str:
        """Return why the worker cannot serve plans now; empty if it can."""
        if self.leaving:
            return "the worker is shutting down"
        return "" if self.registered else "no manager accepts the worker's heartbeats"
