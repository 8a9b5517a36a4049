"""Explains how the engine runs the queries of a plan, in a process that has the engine loaded."""

from __future__ import annotations

import threading
from collections import OrderedDict

import msgspec

from cep_manager.authoring.processes import BoundedProcesses
from cep_manager.config import TrialConfig
from cep_manager.errors import TrialFailedError
from siddhi.analysis.catalogue import builtin_registry
from siddhi.explanation import PlanExplanation
from siddhi.scripts.language import ScriptPolicy
from topology.plan_explanation.messages import ExplainAnswer, ExplainRefused, ExplainRequest

LEAST_MS = 60_000
"""No events run, so nearly all of the time is spent loading the engine, which takes long on a busy host."""


MOST_KEPT, MOST_KEPT_BYTES = 64, 256 * 1024
"""Maximum number of answers that are kept, and the size of the largest of them."""


class Explanations:
    """Explains plans, each in a separate process. Any thread may call; each call waits for its process.

    The last answers are kept: a query plan is always explained alike, and a look at one should not start a process
    each time.
    """

    def __init__(self, config: TrialConfig, scripts: ScriptPolicy, processes: BoundedProcesses) -> None:
        self._config = config
        self._scripts = scripts
        self._processes = processes
        self._lock = threading.Lock()
        self._kept: OrderedDict[bytes, PlanExplanation] = OrderedDict()
        """Answers by their requests, the one that was asked for last at the end."""

    def explain(self, query_plan: str) -> PlanExplanation:
        """Explain how the queries of this query plan (XML) run. Raises TrialsBusyError, TrialFailedError."""
        timeout_ms = max(self._config.timeout_ms, LEAST_MS)
        languages = builtin_registry(self._scripts).script_languages()
        request = ExplainRequest(
            query_plan,
            tuple(one for one in languages if self._scripts.allows(one)),
            seconds=-(-timeout_ms // 1_000),
            memory_bytes=self._config.memory_bytes,
        )
        question = msgspec.json.encode(request)
        known = self._known(question)
        if known is not None:
            return known
        written = self._processes.answer(
            "topology.plan_explanation", question, "split the plan into several", timeout_ms
        )
        answer: ExplainAnswer = msgspec.json.decode(written, type=ExplainAnswer)
        if isinstance(answer, ExplainRefused):
            raise TrialFailedError(f"cannot determine how the plan runs: {answer.message}")
        if len(question) + len(written) <= MOST_KEPT_BYTES:
            self._keep(question, answer)
        return answer

    def _known(self, question: bytes) -> PlanExplanation | None:
        with self._lock:
            if question in self._kept:
                self._kept.move_to_end(question)
            return self._kept.get(question)

    def _keep(self, question: bytes, answer: PlanExplanation) -> None:
        with self._lock:
            self._kept[question] = answer
            if len(self._kept) > MOST_KEPT:
                self._kept.popitem(last=False)
