"""Templates: texts in which `{{attribute}}` is replaced by a value of the event."""

from __future__ import annotations

import re
from collections.abc import Collection

from siddhi.column_names import TIMESTAMP

TEMPLATE = re.compile(r"\{\{\s*([^{}\s]+)\s*\}\}")


def attributes_in(text: str) -> tuple[str, ...]:
    """Return the attribute names in a template, in order."""
    return tuple(TEMPLATE.findall(text))


def unknown_in(text: str, attributes: Collection[str]) -> str:
    """Return a message with the names in a template that are not attributes or the event's time; empty without any."""
    unknown = sorted(set(attributes_in(text)) - {TIMESTAMP, *attributes})
    return f"no such attribute: {', '.join(unknown)}" if unknown else ""


def sample(text: str) -> str:
    """Return a sample result of the template."""
    return TEMPLATE.sub("x", text)
