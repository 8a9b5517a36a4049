"""Run one trial: read the request from standard input, write the answer to standard output.

The exit code is 0 whenever there is an answer.
"""

from __future__ import annotations

from collections.abc import Callable

from siddhi.trial.messages import TrialAnswer, TrialRequest
from siddhi.trial.process import answer


def _load() -> Callable[[TrialRequest], TrialAnswer]:
    from siddhi.trial.run import run_trial  # noqa: PLC0415 - the engine is loaded under the limits

    return run_trial


if __name__ == "__main__":
    answer(TrialRequest, _load)
