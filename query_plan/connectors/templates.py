"""`{{attribute}}` in texts: the value of an event stands there."""

from __future__ import annotations

import re
from collections.abc import Collection

from siddhi.column_names import TIMESTAMP

TEMPLATE = re.compile(r"\{\{\s*([^{}\s]+)\s*\}\}")


def attributes_in(text: str) -> tuple[str, ...]:
    """Return the names in a text, in order."""
    return tuple(TEMPLATE.findall(text))


def unknown_in(text: str, attributes: Collection[str]) -> str:
    """Return what is wrong with the names in a text, or nothing: each must be an attribute or the event's time."""
    unknown = sorted(set(attributes_in(text)) - {TIMESTAMP, *attributes})
    return f"no such attribute: {', '.join(unknown)}" if unknown else ""


def sample(text: str) -> str:
    """Return the text as an event may make it."""
    return TEMPLATE.sub("x", text)
