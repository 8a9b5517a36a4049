"""Redaction of secrets in log records, before these are stored, and in settings. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any
from urllib.parse import urlsplit

COVER = "•••"
"""Placeholder for a secret."""

# Every pattern begins with fixed text and has bounded parts, so that hostile texts take no longer than others.
_SECRET_NAMES = r"(?:password|passwd|passphrase|secret|credential|api[._-]?key|access[._-]?key|private[._-]?key|token)"  # noqa: S105 - names, not secrets
_NAMED = re.compile(
    rf"(?P<name>{_SECRET_NAMES}[\w.-]{{0,40}}(?:=|\s=\s|\"\s?:\s?|'\s?:\s?))"
    r"(?:\"(?P<quoted>[^\"]*)\"|'(?P<single>[^']*)'|(?P<bare>[^\s\"',;&)}\]]+))",
    re.IGNORECASE,
)
# A password may contain a slash or an @ itself: everything up to the last @ before a quote is covered (without a quote,
# before a slash). A number and a slash are a port and a path, and [ begins an IPv6 address.
_IN_URL = re.compile(r"(?P<before>://(?!\[)[^\s/:@]{0,100}:)(?!\d{1,5}/)(?:[^\s\"']{1,200}|[^\s/]{1,200})(?=@)")
_SHOWN = re.compile(r"(?P<before>\b(?:bearer|basic)\s+)[A-Za-z0-9._~+/=-]{8,}", re.IGNORECASE)
_OUR_TOKEN = re.compile(r"\bcep_[A-Za-z0-9_-]{40,}")
_SECRET_KEY = re.compile(rf"{_SECRET_NAMES}(?!s$|s_|_ms$|s\.|_files\.)", re.IGNORECASE)


_values: tuple[str, ...] = ()
"""Secrets that this process has resolved, longest first. Replaced as a whole, so any thread may read it."""
MOST_VALUES = 1_000
SHORTEST_VALUE = 4
"""The minimum length of a secret that is redacted: shorter ones would match parts of ordinary words."""


def cover_values(secrets: Iterable[str]) -> None:
    """Redact these values from now on, under any name."""
    global _values  # noqa: PLW0603 - one for the process, as its log is
    found = {*_values, *(secret for secret in secrets if len(secret) >= SHORTEST_VALUE)}
    if len(found) <= MOST_VALUES:
        _values = tuple(sorted(found, key=lambda secret: (-len(secret), secret)))


def redact(text: str) -> str:
    """Return `text` with secrets covered.

    Secrets are values of keys such as password, secret or token, passwords in URLs, tokens, and the secrets of plans
    that this process has resolved.
    """
    for value in _values:
        text = text.replace(value, COVER)
    text = _IN_URL.sub(rf"\g<before>{COVER}", text)
    text = _SHOWN.sub(rf"\g<before>{COVER}", text)
    text = _OUR_TOKEN.sub(COVER, text)
    return _NAMED.sub(_covered, text)


def shown_url(url: str) -> str:
    """Return a URL as errors show it: scheme, host and port. User, path and query may be secrets."""
    try:
        parts = urlsplit(url.strip())
        host, port = parts.hostname or "", parts.port
    except ValueError:
        return COVER
    where = f"{parts.scheme}://{f'[{host}]' if ':' in host else host}{f':{port}' if port else ''}"
    return f"{where}/{COVER}" if parts.path.strip("/") or parts.query else where


def _covered(found: re.Match[str]) -> str:
    """Cover a match, except for a plain number such as the one under which a manager leads (`token=3`)."""
    value = found["quoted"] or found["single"] or found["bare"] or ""
    return found[0] if value == "" or (value.isdigit() and len(value) < 8) else f"{found['name']}{COVER}"


def redact_setting(key: str, value: Any) -> Any:
    """Return the setting's value as it may be shown.

    A value is covered if its key is that of a secret; entries of mappings are checked one by one. Passwords in URLs are
    covered, too.
    """
    if isinstance(value, Mapping):
        return {name: redact_setting(f"{key}.{name}", inner) for name, inner in value.items()}
    if isinstance(value, list | tuple):
        return [redact_setting(key, inner) for inner in value]
    if not isinstance(value, str) or value == "":
        return value
    return COVER if _SECRET_KEY.search(key) else redact(value)
