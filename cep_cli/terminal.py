"""Text that is safe to print on terminals."""

from __future__ import annotations

import re

_CONTROLS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff]")
"""Control characters except tabs and line ends, and characters that cannot be encoded."""


def printable(text: str) -> str:
    """Return the text with control characters escaped."""
    return _CONTROLS.sub(lambda control: control[0].encode("unicode_escape").decode(), text)
