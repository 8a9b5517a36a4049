"""One preview: the request on standard input, the answer on standard output; exit code 0 if there is one."""

from __future__ import annotations

from collections.abc import Callable

from siddhi.trial.process import answer
from topology.edit_preview.messages import EditAnswer, EditRequest


def _load() -> Callable[[EditRequest], EditAnswer]:
    from topology.edit_preview.run import run_preview  # noqa: PLC0415 - the engine is loaded under the limits

    return run_preview


if __name__ == "__main__":
    answer(EditRequest, _load)
