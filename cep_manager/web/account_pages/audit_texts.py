"""What the audit page says of a call that was written down."""

from __future__ import annotations

THROUGH = {"accounts": "console", "console": "console", "api": "REST API", "storm": "Storm's API"}
"""The way in, by the first part of a call's name."""


def deed(call: str) -> str:
    """Return the call in words.

    `console.act_on_plan:rebalance` is "rebalance plan", `api.create_user` "create user".
    """
    name, _, action = call.partition(".")[2].partition(":")
    words = name.split("_")
    if not action:
        return " ".join(words)
    return f"{action} {words[-1]}" if len(words) > 1 else f"{action} {name}"


def through(call: str) -> str:
    """Return the way that the call came in."""
    blueprint = call.partition(".")[0]
    return THROUGH.get(blueprint, blueprint)


def outcome(status: int) -> str:
    """Return the outcome of a call in words, by its HTTP status."""
    if status < 400:
        return "done"
    return f"refused ({status})" if status < 500 else f"failed ({status})"
