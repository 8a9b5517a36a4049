"""The difference between the text of a deployed plan and another one under its name. Pure."""

from __future__ import annotations

import difflib

from cep_manager.errors import PlanExistsError
from siddhi.errors import SiddhiError
from siddhi.language.parser import parse
from siddhi.language.printer import print_app

REPLACE = "replace it, or choose another name"
MOST_LINES = 60
"""More lines of a difference are not shown: the texts have little in common then."""
LONGEST_LINE = 300
LARGEST_PARSED = 65_536
"""Longer texts are compared as they are written, comments and layout included."""


def normal_form(text: str) -> str:
    """Return the plan in `text` as it is written in one way only: without comments, layout and case of keywords.

    A text that cannot be parsed, or is very long, is returned as it is.
    """
    if len(text) > LARGEST_PARSED:
        return text
    try:
        return print_app(parse(text))
    except SiddhiError:
        return text


def difference(deployed: str, refused: str) -> tuple[str, ...]:
    """Return the lines by which two plans differ, in the form of `diff -u`.

    Comments and layout count only where there is no other difference.

    Args:
        deployed: The text of the deployed plan, whose lines begin with `-`.
        refused: The other text, whose lines begin with `+`.
    """
    lines = _unified(normal_form(deployed), normal_form(refused)) or _unified(deployed, refused)
    shown = tuple(f"{line[:LONGEST_LINE]} …" if len(line) > LONGEST_LINE else line for line in lines[:MOST_LINES])
    more = len(lines) - len(shown)
    return (*shown, f"… {more} more lines") if more else shown


def other_text(plan: str, deployed: str, refused: str, how: str = "", remedy: str = REPLACE) -> PlanExistsError:
    """Return the error for a text that is not the one with which the plan of its name is deployed.

    Args:
        plan: The plan's name.
        deployed: The text of the deployed plan.
        refused: The other text.
        how: How the plan was deployed, for instance " by hand".
        remedy: What to do.
    """
    message = f"a plan named {plan} is deployed{how} with another text; {remedy}"
    return PlanExistsError(message, {"difference": list(difference(deployed, refused))})


def _unified(deployed: str, refused: str) -> list[str]:
    lines = difflib.unified_diff(deployed.splitlines(), refused.splitlines(), "deployed", "refused", lineterm="", n=1)
    return list(lines)
