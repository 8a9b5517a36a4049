"""Trials of plans, each in a separate process."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from cep_common.clock import Clock
from cep_manager.authoring.compiler import plan_problems
from cep_manager.authoring.model import PlanTrial
from cep_manager.authoring.processes import BoundedProcesses
from cep_manager.config import TrialConfig
from cep_manager.errors import BadRequestError, PlanInvalidError
from siddhi.analysis.analyser import analyse
from siddhi.analysis.catalogue import builtin_registry
from siddhi.errors import SiddhiError
from siddhi.language.parser import parse
from siddhi.scripts.language import ScriptPolicy
from siddhi.trial.messages import MOST_EVENTS, TrialAnswer, TrialRefused, TrialRequest, TrialResult

LONGEST_WAIT_MS = 366 * 86_400_000


class Trials:
    """Runs trials. Any thread may call; each call waits for its process."""

    def __init__(
        self,
        config: TrialConfig,
        scripts: ScriptPolicy,
        clock: Clock,
        processes: BoundedProcesses | None = None,
        check: Callable[[str], None] | None = None,
    ) -> None:
        """Prepare trials.

        `processes` may be shared with others that run plans (None: not shared). `check` raises PlanInvalidError for a
        text that cannot be run; without it the text is checked here.
        """
        self._config = config
        self._scripts = scripts
        self._clock = clock
        self._processes = processes or BoundedProcesses(config)
        self._check = check or self._look_through

    def run(self, trial: PlanTrial) -> TrialResult:
        """Run the trial and return its result.

        Raises BadRequestError, PlanInvalidError, TrialsBusyError, TrialFailedError.
        """
        request = msgspec.json.encode(self._request(trial))
        written = self._processes.answer("siddhi.trial", request, "send fewer events", self._config.timeout_ms)
        answer: TrialAnswer = msgspec.json.decode(written, type=TrialAnswer)
        if isinstance(answer, TrialRefused):
            raise BadRequestError(answer.message)
        return answer

    def _request(self, trial: PlanTrial) -> TrialRequest:
        if len(trial.events) > MOST_EVENTS:
            raise BadRequestError(f"a trial takes at most {MOST_EVENTS} events, not {len(trial.events)}")
        if not 0 <= trial.wait_ms <= LONGEST_WAIT_MS:
            raise BadRequestError(f"wait_ms must be 0 to {LONGEST_WAIT_MS} (a year), not {trial.wait_ms}")
        self._check(trial.text)
        registry = builtin_registry(self._scripts)
        return TrialRequest(
            text=trial.text,
            events=trial.events,
            start_ms=self._clock.now_ms() if trial.start_ms is None else trial.start_ms,
            wait_ms=trial.wait_ms,
            script_languages=tuple(one for one in registry.script_languages() if self._scripts.allows(one)),
            most_rows=self._config.most_rows,
            seconds=-(-self._config.timeout_ms // 1_000),
            memory_bytes=self._config.memory_bytes,
        )

    def _look_through(self, text: str) -> None:
        try:
            analyse(parse(text), builtin_registry(self._scripts))
        except SiddhiError as error:
            raise PlanInvalidError(plan_problems(error.problems, text)) from error
