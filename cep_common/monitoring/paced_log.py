"""Rate-limited log lines for retry loops: a problem is logged when it begins, then once a minute, and when it is over.

Links, clients of managers, sinks and stores, which retry for as long as necessary, use this instead of logging each
attempt.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field

EVERY_S = 60.0
"""Seconds between two lines about a problem that lasts."""
AGAIN_S = 5.0
"""Seconds after its last line for which a problem that was over and occurs again is not logged."""
MOST_TEXTS = 3
"""The maximum number of different lines about one subject in `EVERY_S`: reasons may alternate."""
MOST_SUBJECTS = 1_000
"""The number of subjects above which those without a line for `EVERY_S` are removed."""


@dataclass(slots=True)
class _Subject:
    """The lines about a subject.

    It has the texts with the time of their last line, and how many lines were suppressed since. `lasts` is False once
    the problem is over.
    """

    logged: dict[str, float] = field(default_factory=dict)
    left_out: int = 0
    lasts: bool = True


class PacedLog:
    """Write to `logger`. Thread-safe."""

    def __init__(self, logger: logging.Logger, clock: Callable[[], float] = time.monotonic) -> None:
        """Create a log that limits how often a message repeats.

        Args:
            logger: Where messages are written.
            clock: Returns a monotonic time in seconds.
        """
        self._logger = logger
        self._clock = clock
        self._subjects: dict[str, _Subject] = {}
        self._lock = threading.Lock()

    def problem(
        self, subject: str, message: str, *args: object, level: int = logging.WARNING, exc_info: bool = False
    ) -> None:
        """Log `message % args` unless it was logged recently; `subject` names what has the problem."""
        text = message % args if args else message
        now = self._clock()
        with self._lock:
            self._forget(now)
            known = self._subjects.setdefault(subject, _Subject())
            if not self._due(known, text, now):
                known.left_out += 1
                return
            left_out, known.left_out, known.lasts = known.left_out, 0, True
            known.logged[text] = now
        suffix = f" (and {left_out} more times since the last line about it)" if left_out else ""
        self._logger.log(level, "%s%s", text, suffix, stacklevel=2, exc_info=exc_info)

    def exception(self, message: str, *args: object) -> None:
        """Log the exception that is being handled, as `problem` does; its text is the subject."""
        self.problem(message % args if args else message, message, *args, level=logging.ERROR, exc_info=True)

    def over(self, subject: str, message: str, *args: object) -> None:
        """Log that the problem of `subject` is over, if there was one."""
        with self._lock:
            known = self._subjects.get(subject)
            if known is None or not known.lasts:
                return
            known.lasts = False
        self._logger.info(message, *args, stacklevel=2)

    def _due(self, known: _Subject, text: str, now: float) -> bool:
        known.logged = {one: at for one, at in known.logged.items() if now - at < EVERY_S}
        if not known.lasts:
            return now - max(known.logged.values(), default=now - AGAIN_S) >= AGAIN_S
        return text not in known.logged and len(known.logged) < MOST_TEXTS

    def _forget(self, now: float) -> None:
        if len(self._subjects) >= MOST_SUBJECTS:
            self._subjects = {
                name: one
                for name, one in self._subjects.items()
                if now - max(one.logged.values(), default=now) < EVERY_S
            }
