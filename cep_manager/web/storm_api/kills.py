"""Topologies that are killed after a delay, so that events in flight are processed."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable

from cep_common.errors import CepError
from cep_manager.errors import UnknownPlanError

logger = logging.getLogger(__name__)


class Kills:
    """Keeps the time until each kill, by topology id.

    Any thread may call; a manager that ends does not remember what to kill: those plans stay deactivated.
    """

    def __init__(self, kill: Callable[[str], object]) -> None:
        """Prepare delayed kills.

        `kill` ends the topology of an id; it raises UnknownPlanError when there is none any longer.
        """
        self._kill = kill
        self._lock = threading.Lock()
        self._timers: dict[str, threading.Timer] = {}

    def pending(self) -> frozenset[str]:
        """Return the topologies that are to be killed."""
        with self._lock:
            return frozenset(self._timers)

    def after(self, identifier: str, wait_s: int) -> None:
        """Kill the topology in `wait_s` seconds, in place of an earlier order."""
        timer = threading.Timer(wait_s, self._due, (identifier,))
        timer.daemon = True
        with self._lock:
            former = self._timers.pop(identifier, None)
            self._timers[identifier] = timer
        if former is not None:
            former.cancel()
        timer.start()

    def now(self, identifier: str) -> None:
        """Kill the topology. Raises what `kill` raises."""
        self._forget(identifier)
        self._kill(identifier)

    def _forget(self, identifier: str) -> None:
        with self._lock:
            timer = self._timers.pop(identifier, None)
        if timer is not None:
            timer.cancel()

    def _due(self, identifier: str) -> None:
        try:
            self._kill(identifier)
        except UnknownPlanError:
            logger.info("topology was gone before it was to be killed topology=%s", identifier)
        except CepError as error:
            # No client waits for a response any more; the plan stays deactivated and can be killed again.
            logger.error("topology not killed topology=%s reason=%r", identifier, error.message)  # noqa: TRY400
        finally:
            self._forget(identifier)
