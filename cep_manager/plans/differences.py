"""The difference between the text of a deployed plan and another one under its name, with secrets covered. Pure.

Differences are written to logs and shown in alerts, also to users who may not see the secrets of plans.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Sequence
from itertools import takewhile

from cep_manager.errors import PlanExistsError
from query_plan.secrets import mask_plan
from siddhi.errors import SiddhiError
from siddhi.language.parser import parse
from siddhi.language.printer import print_app

REPLACE = "replace it, or choose another name"
MOST_LINES = 60
"""More lines of a difference are not shown: the texts have little in common then."""
LONGEST_LINE = 300
MOST_COMPARED = 1_000
"""The maximum number of lines of each text that are aligned, from the first different one: the time is quadratic."""
ONLY_SECRETS = "only secrets differ, which are not shown"
AND_MORE = "… and more"
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
    before, after = normal_form(deployed), normal_form(refused)
    if before == after:
        before, after = deployed, refused
    lines = _unified(mask_plan(before).splitlines(), mask_plan(after).splitlines())
    if not lines and before.splitlines() != after.splitlines():
        return (ONLY_SECRETS,)
    shown = tuple(f"{line[:LONGEST_LINE]} …" if len(line) > LONGEST_LINE else line for line in lines[:MOST_LINES])
    more = len(lines) - len(shown)
    if not more:
        return shown
    return (*shown, AND_MORE if lines[-1] == AND_MORE else f"… {more} more lines")


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


def _unified(deployed: Sequence[str], refused: Sequence[str]) -> list[str]:
    start = max(0, _common(deployed, refused) - 1)  # with the line before
    before, after = deployed[start:], refused[start:]
    end = max(0, _common(before[::-1], after[::-1]) - 1)
    before, after = before[: len(before) - end], after[: len(after) - end]
    longest = max(len(before), len(after))
    compared = before[:MOST_COMPARED], after[:MOST_COMPARED]
    lines = list(difflib.unified_diff(*compared, "deployed", "refused", lineterm="", n=1))
    parts = [place for place, line in enumerate(lines) if line.startswith("@@ ")]
    for place in parts:
        lines[place] = re.sub(r"(?<=[-+])\d+", lambda found: str(int(found[0]) + start), lines[place])
    if longest <= MOST_COMPARED:
        return lines
    # At the end of what was compared, a line may only seem to be missing from one of both.
    return [*(lines[: parts[-1]] if len(parts) > 1 else lines), AND_MORE]


def _common(one: Sequence[str], other: Sequence[str]) -> int:
    """Return how many lines both begin with."""
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(one, other, strict=False)))
