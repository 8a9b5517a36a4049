"""A request for how a plan would run, and the response. Knows nothing of the engine, so that the manager need not."""

from __future__ import annotations

import msgspec

from siddhi.explanation import PlanExplanation


class ExplainRequest(msgspec.Struct, frozen=True):
    """A request to explain a plan.

    `query_plan` is the plan as XML. `script_languages` are those in which plans may define functions; the process may
    run for `seconds` and use `memory_bytes`.
    """

    query_plan: str
    script_languages: tuple[str, ...] = ()
    seconds: int = 20
    memory_bytes: int = 2_147_483_648


class ExplainRefused(msgspec.Struct, frozen=True, tag="refused"):
    """The plan cannot be explained."""

    message: str


ExplainAnswer = PlanExplanation | ExplainRefused
