"""Short-lived processes that run plans of users: limited in number, time, memory and output."""

from __future__ import annotations

import contextlib
import logging
import os
import signal
import subprocess
import sys
import tempfile
import threading

from cep_common.process.child_processes import kill, last_words
from cep_manager.config import TrialConfig
from cep_manager.errors import TrialFailedError, TrialsBusyError
from siddhi.trial.process import LOADING_S

logger = logging.getLogger(__name__)

MOST_ANSWER_BYTES = 8 * 2**20
KEPT_VARIABLES = ("PATH", "PYTHONPATH", "LANG", "LC_ALL", "NUMBA_CACHE_DIR")
"""The only environment variables of the manager that a process inherits; others may contain secrets."""


class BoundedProcesses:
    """Runs bounded processes. Any thread may call; each call waits for its process."""

    def __init__(self, config: TrialConfig) -> None:
        self._config = config
        self._free = threading.BoundedSemaphore(max(1, config.at_once))

    def answer(self, module: str, request: bytes, smaller: str, timeout_ms: int) -> bytes:
        """Run `module` as a process with `request` as its input, and return its output.

        It takes no longer than `timeout_ms`, after at most `LOADING_S` in which it loads the engine. `smaller` is
        advice on how to request less. Raises TrialsBusyError and TrialFailedError.
        """
        if self._config.at_once == 0:
            message = "trials of plans are switched off; see trial.at_once in the manager's configuration"
            raise TrialsBusyError(message, {"config": "trial.at_once"})
        if not self._free.acquire(blocking=False):
            message = f"{self._config.at_once} trials are running; try again in a few seconds"
            raise TrialsBusyError(message, {"config": "trial.at_once", "most": self._config.at_once})
        try:
            return self._run(module, request, smaller, timeout_ms)
        finally:
            self._free.release()

    def _run(self, module: str, request: bytes, smaller: str, timeout_ms: int) -> bytes:
        with tempfile.TemporaryDirectory(prefix="cep-trial-") as folder, tempfile.TemporaryFile(dir=folder) as errors:
            process = subprocess.Popen(  # noqa: S603 - callers name modules of ours
                [sys.executable, "-P", "-m", module],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                cwd=folder,
                env={name: os.environ[name] for name in KEPT_VARIABLES if name in os.environ} | {"HOME": folder},
                start_new_session=True,
            )
            too_late = threading.Event()

            def end() -> None:
                too_late.set()
                kill(process)

            # the process enforces its own limit; this is for one that hangs
            timer = threading.Timer(LOADING_S + timeout_ms / 1_000, end)
            timer.start()
            try:
                written = _exchange(process, request)
                if len(written) <= MOST_ANSWER_BYTES:
                    process.wait()
            finally:
                timer.cancel()
                kill(process)
                code = process.wait()
            if len(written) > MOST_ANSWER_BYTES:
                raise TrialFailedError(f"the answer has more than {MOST_ANSWER_BYTES} bytes; {smaller}")
            if code == 0:
                return written
            if too_late.is_set() or -code in (signal.SIGXCPU, signal.SIGALRM):
                raise TrialFailedError(
                    f"the trial was stopped after {timeout_ms} ms; {smaller}, or raise "
                    "trial.timeout_ms in the manager's configuration"
                )
            raise self._failure(code, last_words(errors.fileno()))

    def _failure(self, code: int, last_words: str) -> TrialFailedError:
        if "MemoryError" in last_words or -code in (signal.SIGKILL, signal.SIGSEGV, signal.SIGABRT):
            return TrialFailedError(
                f"the plan needed more than {self._config.memory_bytes} bytes of memory and was ended; see "
                "trial.memory_bytes in the manager's configuration"
            )
        logger.warning("trial process failed code=%d words=%r", code, last_words)
        return TrialFailedError("the trial ended without an answer; the manager's log says more")


def _exchange(process: subprocess.Popen[bytes], request: bytes) -> bytes:
    """Return the process's output, at most one byte more than is allowed."""
    if process.stdin is None or process.stdout is None:
        raise TypeError("the process has no pipes")
    with process.stdin, process.stdout:
        # a process that has died reports the reason in its error output
        with contextlib.suppress(BrokenPipeError):
            process.stdin.write(request)
            process.stdin.close()
        return process.stdout.read(MOST_ANSWER_BYTES + 1)
