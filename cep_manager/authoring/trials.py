"""Trials of plans, each in a short-lived process with bounded time, memory and output; so many at once and no more."""

from __future__ import annotations

import contextlib
import logging
import os
import signal
import subprocess
import sys
import tempfile
import threading
from typing import IO

import msgspec

from cep_common.clock import Clock
from cep_manager.authoring.model import Trial
from cep_manager.compiler import plan_problems
from cep_manager.config import TrialConfig
from cep_manager.errors import BadRequestError, PlanInvalidError, TrialFailedError, TrialsBusyError
from siddhi.analysis.analyser import analyse
from siddhi.analysis.catalogue import builtin_registry
from siddhi.errors import SiddhiError
from siddhi.language.parser import parse
from siddhi.scripts.language import ScriptPolicy
from siddhi.trial.messages import MOST_EVENTS, TrialAnswer, TrialRefused, TrialRequest, TrialResult

logger = logging.getLogger(__name__)

MOST_ANSWER_BYTES = 8 * 2**20
LAST_WORDS_BYTES = 2_000
LONGEST_WAIT_MS = 366 * 86_400_000
_KEPT_VARIABLES = ("PATH", "PYTHONPATH", "LANG", "LC_ALL", "NUMBA_CACHE_DIR")
"""All that a trial sees of the manager's environment, which may hold secrets."""


class Trials:
    """Runs trials. Any thread may call; each call waits for its process."""

    def __init__(self, config: TrialConfig, scripts: ScriptPolicy, clock: Clock) -> None:
        self._config = config
        self._scripts = scripts
        self._clock = clock
        self._free = threading.BoundedSemaphore(max(1, config.at_once))

    def run(self, trial: Trial) -> TrialResult:
        """What the plan gave. Raises BadRequestError, PlanInvalidError, TrialsBusyError, TrialFailedError."""
        request = self._request(trial)
        if self._config.at_once == 0:
            message = "plans are not tried out here; see trial.at_once in the manager's configuration"
            raise TrialsBusyError(message, {"config": "trial.at_once"})
        if not self._free.acquire(blocking=False):
            message = f"{self._config.at_once} plans are being tried out; try again in some seconds"
            raise TrialsBusyError(message, {"config": "trial.at_once", "most": self._config.at_once})
        try:
            answer = self._answer(request)
        finally:
            self._free.release()
        if isinstance(answer, TrialRefused):
            raise BadRequestError(answer.message)
        return answer

    def _request(self, trial: Trial) -> TrialRequest:
        if len(trial.events) > MOST_EVENTS:
            raise BadRequestError(f"a trial takes at most {MOST_EVENTS} events, not {len(trial.events)}")
        if not 0 <= trial.wait_ms <= LONGEST_WAIT_MS:
            raise BadRequestError(f"wait_ms must be 0 to {LONGEST_WAIT_MS} (a year), not {trial.wait_ms}")
        registry = builtin_registry(self._scripts)
        try:
            analyse(parse(trial.text), registry)
        except SiddhiError as error:
            raise PlanInvalidError(plan_problems(error.problems, trial.text)) from error
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

    def _answer(self, request: TrialRequest) -> TrialAnswer:
        with tempfile.TemporaryDirectory(prefix="cep-trial-") as folder, tempfile.TemporaryFile(dir=folder) as errors:
            process = subprocess.Popen(
                [sys.executable, "-P", "-m", "siddhi.trial"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                cwd=folder,
                env={name: os.environ[name] for name in _KEPT_VARIABLES if name in os.environ} | {"HOME": folder},
                start_new_session=True,
            )
            too_late = threading.Event()

            def end() -> None:
                too_late.set()
                _kill(process)

            timer = threading.Timer(self._config.timeout_ms / 1_000, end)
            timer.start()
            try:
                written = _exchange(process, msgspec.json.encode(request))
                if len(written) <= MOST_ANSWER_BYTES:
                    process.wait()
            finally:
                timer.cancel()
                _kill(process)
                code = process.wait()
            if len(written) > MOST_ANSWER_BYTES:
                raise TrialFailedError(f"the answer has more than {MOST_ANSWER_BYTES} bytes; send fewer events")
            if code == 0:
                return msgspec.json.decode(written, type=TrialAnswer)  # type: ignore[no-any-return]
            raise self._failure(code, too_late.is_set(), _last_words(errors))

    def _failure(self, code: int, too_late: bool, last_words: str) -> TrialFailedError:
        if too_late or -code in (signal.SIGXCPU, signal.SIGALRM):
            return TrialFailedError(
                f"the plan was not done after {self._config.timeout_ms} ms and was ended; send fewer events, or raise "
                "trial.timeout_ms in the manager's configuration"
            )
        if "MemoryError" in last_words or -code in (signal.SIGKILL, signal.SIGSEGV, signal.SIGABRT):
            return TrialFailedError(
                f"the plan needed more than {self._config.memory_bytes} bytes of memory and was ended; see "
                "trial.memory_bytes in the manager's configuration"
            )
        logger.warning("trial failed code=%d words=%r", code, last_words)
        return TrialFailedError("the trial ended without an answer; the manager's log says more")


def _exchange(process: subprocess.Popen[bytes], request: bytes) -> bytes:
    """What the process writes, a byte more than is allowed at most."""
    if process.stdin is None or process.stdout is None:
        raise TypeError("the process has no pipes")
    with process.stdin, process.stdout:
        # A process that has died already says why in its last words.
        with contextlib.suppress(BrokenPipeError):
            process.stdin.write(request)
            process.stdin.close()
        return process.stdout.read(MOST_ANSWER_BYTES + 1)


def _kill(process: subprocess.Popen[bytes]) -> None:
    """The process and all that it has started are gone."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)


def _last_words(errors: IO[bytes]) -> str:
    size = errors.seek(0, os.SEEK_END)
    errors.seek(max(0, size - LAST_WORDS_BYTES))
    return errors.read().decode("utf-8", "replace")
