"""A line of the log as a decision asks for it."""

from __future__ import annotations

import logging
from typing import Literal

import msgspec

_LEVELS = {"info": logging.INFO, "warning": logging.WARNING, "error": logging.ERROR}


class LogLine(msgspec.Struct, frozen=True):
    """Write one line to the log."""

    level: Literal["info", "warning", "error"]
    text: str

    def write(self, logger: logging.Logger) -> None:
        """Write the line to the log."""
        logger.log(_LEVELS[self.level], "%s", self.text, stacklevel=2)
