"""Texts from outside, as terminals may be given them."""

from __future__ import annotations

import re

_CONTROLS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff]")
"""Characters that terminals may obey, but for tabs and line ends; and those that cannot be sent to one."""


def printable(text: str) -> str:
    """Return the text; what would steer the terminal is shown instead."""
    return _CONTROLS.sub(lambda control: control[0].encode("unicode_escape").decode(), text)
