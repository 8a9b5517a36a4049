"""Map Siddhi's log priorities to levels of Python's logging."""

from __future__ import annotations

import logging

LOG_LEVELS: dict[str, int | None] = {
    "TRACE": logging.DEBUG,
    "DEBUG": logging.DEBUG,
    "INFO": logging.INFO,
    "WARN": logging.WARNING,
    "ERROR": logging.ERROR,
    "FATAL": logging.CRITICAL,
    "OFF": None,
}
"""The level of OFF, at which nothing is logged."""
