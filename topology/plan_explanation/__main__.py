"""One explanation: the request on standard input, the answer on standard output; exit code 0 if there is one."""

from __future__ import annotations

from collections.abc import Callable

from siddhi.trial.process import answer
from topology.plan_explanation.messages import ExplainAnswer, ExplainRequest


def _load() -> Callable[[ExplainRequest], ExplainAnswer]:
    from topology.plan_explanation.run import run_explanation  # noqa: PLC0415 - the engine is loaded under the limits

    return run_explanation


if __name__ == "__main__":
    answer(ExplainRequest, _load)
