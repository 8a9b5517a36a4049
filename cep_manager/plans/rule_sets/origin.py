"""The origin of a plan that a rule set deployed, as the plan store keeps it."""

from __future__ import annotations

import re

import msgspec

from cep_manager.errors import BadRequestError

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}", re.ASCII)


class RuleOrigin(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The rule set that a plan belongs to, its file there, and the revision of the checkout that changed it last.

    The plan store has it as JSON, which no origin of a watched folder is.
    """

    rule_set: str
    file: str
    revision: str = ""

    def text(self) -> str:
        """Return the origin as the plan store keeps it."""
        return msgspec.json.encode(self).decode()


def parse_rule_origin(text: str) -> RuleOrigin | None:
    """Return the origin that the plan store has kept; None for a plan that no rule set deployed."""
    if not text.startswith("{"):
        return None
    try:
        return msgspec.json.decode(text, type=RuleOrigin)
    except msgspec.DecodeError:
        return None


def require_rule_set_name(name: str) -> None:
    """Raise BadRequestError for what cannot be the name of a rule set."""
    if not _NAME.fullmatch(name):
        raise BadRequestError(
            f"a rule set cannot be named {name[:80]!r}: use up to 64 letters, digits, '.', '_' and '-', beginning with "
            "a letter or digit"
        )
