"""A process's view of its node's role, and the end of the process when the node is no longer active."""

from __future__ import annotations

import logging
import os
import threading
import time
from collections.abc import Callable
from pathlib import Path

from cep_common.nodes.files import ROLE_FILE, FileView, NodeRole

logger = logging.getLogger(__name__)

LOOK_S = 0.02
FENCED = 75
"""Exit code of a process whose node is no longer active (EX_TEMPFAIL): the supervisor starts it again as passive."""


def monotonic_ms() -> int:
    """Return the host's monotonic time."""
    return time.monotonic_ns() // 1_000_000


class RoleWatch:
    """Reads `role.json` in a thread of its own. `role` and `holds` may be used by any thread."""

    def __init__(self, folder: str, ended: Callable[[int], None] = os._exit) -> None:
        """Watch the role in `folder`; `ended` is called with `FENCED` when the adopted role is lost."""
        self._view = FileView(Path(folder) / ROLE_FILE, NodeRole)
        self._ended = ended
        self._token = 0
        self._stopping = threading.Event()
        self._read = threading.Lock()
        self.role: NodeRole | None = None
        self._thread = threading.Thread(target=self._run, name="node-role", daemon=True)

    def await_active(self, stopping: threading.Event, passing: Callable[[], None] = lambda: None) -> bool:
        """Wait until the node is active, or `stopping` is set. Call `passing` repeatedly while waiting.

        From then on the process ends as soon as the node is not active under the same token.

        Returns:
            Whether the node is active.
        """
        while not stopping.wait(LOOK_S):
            role = self._look()
            if role is not None and role.is_active(monotonic_ms()):
                self._token = role.token
                self._thread.start()
                return True
            passing()
        return False

    @property
    def token(self) -> int:
        """Return the token under which the process is active, or 0."""
        return self._token

    def holds(self) -> bool:
        """Return whether the node is active under the token that the process has adopted."""
        role = self.role
        return role is not None and role.token == self._token and role.is_active(monotonic_ms())

    def close(self) -> None:
        """Stop watching, because the process ends in order."""
        self._stopping.set()

    def _look(self) -> NodeRole | None:
        self.role = self._view.read()
        return self.role

    def _run(self) -> None:
        while not self._stopping.wait(LOOK_S):
            self._look()
            if not self.holds():
                logger.error(
                    "the node is no longer active, this process ends: token=%d role=%s", self._token, self.role
                )
                logging.shutdown()
                self._ended(FENCED)
                return
