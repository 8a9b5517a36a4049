"""Find and mask the secrets in the text of a plan.

Values are secret by the names of their options, unless they are references (`${secret:NAME}`, see
`cep_common.configuration.secrets`): passwords, tokens, headers, and the parts of a URL other than scheme, host and
port.
"""

from __future__ import annotations

import re
from functools import lru_cache
from html import escape

from cep_common.configuration.redaction import COVER, redact, shown_url
from cep_common.configuration.secrets import is_whole_reference

_OPTION = re.compile(
    r"""(?P<name>[\w.]{1,100})(?P<equals>\s{0,50}=\s{0,50})(?P<quote>\"\"\"|"|')(?P<value>.*?)(?P=quote)""", re.DOTALL
)
_SECRET = re.compile(
    r"password|passwd|passphrase|secret|credential|api\.?key|access\.?key|private\.?key|token", re.IGNORECASE
)
_NONE = frozenset({"password.file", "token.url", "ref"})
_HEADER = re.compile(r"(?P<name>[\w!#$%&*+.^`|~-]+)(?P<colon>\s*:\s*)(?P<value>[^'\"\r\n]*)")
_PLAIN_HEADERS = frozenset({"content-type", "accept", "user-agent", "content-language"})
_WEB_URLS = frozenset({"publisher.url", "token.url"})
_SETTINGS = "optional.configuration"
SHORTEST = 4
"""Shorter secrets are only masked in their own option, since the same letters may occur elsewhere."""


@lru_cache(maxsize=128)
def mask_plan(text: str) -> str:
    """Return the plan `text`, even if it cannot be parsed, with its secrets masked."""
    return _OPTION.sub(_covered, text)


@lru_cache(maxsize=128)
def mask_in(other: str, text: str) -> str:
    """Return `other`, which was derived from the plan `text` (its query plan, an explanation), with secrets masked."""
    covered = mask_plan(other)
    for secret in secrets_of(text):
        for written in {secret, escape(secret, quote=False), escape(secret)}:
            covered = covered.replace(written, COVER)
    return covered


def secrets_of(text: str) -> tuple[str, ...]:
    """Return the values of secrets in the plan `text`, the longest first."""
    found = {
        value
        for option in _OPTION.finditer(text)
        for value in _secrets_in(option)
        if not is_whole_reference(value) and len(value) >= SHORTEST
    }
    return tuple(sorted(found, key=lambda secret: (-len(secret), secret)))


def _covered(found: re.Match[str]) -> str:
    name, value, quote = found["name"], found["value"], found["quote"]
    if _is_secret(name):
        shown = value if not value or is_whole_reference(value) else COVER
    elif name.casefold() == _SETTINGS:
        shown = ",".join(_masked_setting(one) for one in value.split(","))
    elif name.casefold() == "headers":
        shown = _HEADER.sub(_masked_header, value)
    elif name.casefold() in _WEB_URLS and "://" in value and "{{" not in value:
        shown = shown_url(value)
    else:
        shown = redact(value) if "://" in value or "=" in value else value
    return f"{name}{found['equals']}{quote}{shown}{quote}"


def _masked_header(found: re.Match[str]) -> str:
    plain = found["name"].casefold() in _PLAIN_HEADERS or is_whole_reference(found["value"].strip())
    return found[0] if plain or not found["value"].strip() else f"{found['name']}{found['colon']}{COVER}"


def _masked_setting(text: str) -> str:
    """Mask one `name:value` of a Kafka client; text without a colon may be the end of a password with a comma."""
    name, colon, value = text.partition(":")
    plain = bool(colon) and not _is_secret_setting(name)
    if plain or not text.strip() or is_whole_reference(value.strip()):
        return text
    return f"{name}:{COVER}" if colon else COVER


def _is_secret_setting(name: str) -> bool:
    return _SECRET.search(name) is not None or any(part in name.casefold() for part in ("jaas", ".pem"))


def _secrets_in(option: re.Match[str]) -> tuple[str, ...]:
    """Return the secret values in an option, including references and short ones."""
    if option["name"].casefold() == _SETTINGS:
        pairs = (one.partition(":") for one in option["value"].split(","))
        return tuple(value.strip() if colon else name.strip() for name, colon, value in pairs
                     if not colon or _is_secret_setting(name))  # fmt: skip
    return (option["value"],) if _is_secret(option["name"]) else ()


def _is_secret(name: str) -> bool:
    return name.casefold() not in _NONE and _SECRET.search(name) is not None
