"""Compiles plans in processes with bounded time and memory, so that no text stops the manager.

There are separate queues for deployments and for read-only requests, so that these do not delay deployments.
"""

from __future__ import annotations

import contextlib
import logging
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator

import msgspec

from cep_common.process.child_processes import end, kill, start
from cep_manager.authoring.compile_messages import (
    READY,
    CompileAnswer,
    CompileRequest,
    CompileResult,
    Invalid,
    Previewed,
    Validated,
    read_frame,
    write_frame,
)
from cep_manager.authoring.model import Preview, Validation
from cep_manager.authoring.processes import KEPT_VARIABLES
from cep_manager.config import CompileConfig, KafkaConfig
from cep_manager.errors import PlanInvalidError, PlansBusyError, PlanTooCostlyError
from cep_manager.plans.compiled_plan import CompiledPlan
from cep_manager.topics.brokers import with_brokers
from query_plan.checks.reach import UNKNOWN, WorkerReach
from siddhi.scripts.language import ScriptPolicy

logger = logging.getLogger(__name__)

WALL_FACTOR, LEAST_WALL_S = 8, 20.0
"""Limits of wall-clock time: a process may wait for a core, so it gets this multiple of its CPU time, and at least this
many seconds."""
LOOKING_WAITS, LOOKING_WAIT_S = 4, 2.0
DEPLOYING_WAITS, DEPLOYING_WAIT_S = 16, 30.0
"""The maximum number of waiting requests in each queue, and the longest wait, since each occupies a thread."""
MOST_IDLE = 3
START_S = 30.0
BUSY = "the limit of plans compiled at the same time is reached; try again in a few seconds"
STARVED = "the machine is too busy to compile the plan: its process got too little CPU time; try again later"


class PlanCompilers:
    """The processes that compile plans. Any thread may call; each call waits for its process."""

    def __init__(self, config: CompileConfig, scripts: ScriptPolicy, kafka: KafkaConfig | None = None) -> None:
        """Prepare the compilers; processes start when they are first needed."""
        self._config = config
        self._scripts = scripts
        self._kafka = kafka or KafkaConfig()
        self._looking = _Line(config.at_once, LOOKING_WAITS, LOOKING_WAIT_S)
        self._deploying = _Line(1, DEPLOYING_WAITS, DEPLOYING_WAIT_S)

    def validate(self, text: str, reaches: WorkerReach = UNKNOWN) -> Validation:
        """Return everything that is wrong with `text`. Raises PlansBusyError, PlanTooCostlyError."""
        answer = self._answer(self._looking, "validated", text, reaches=reaches)
        assert isinstance(answer, Validated)  # noqa: S101 - for mypy: the process answers what is wanted
        return answer.found

    def preview(self, tenant: int, text: str) -> Preview:
        """Preview the deployment of `text`. Raises PlanInvalidError, PlansBusyError, PlanTooCostlyError."""
        answer = self._answer(self._looking, "previewed", text, tenant)
        assert isinstance(answer, Previewed)  # noqa: S101
        return answer.preview

    def check(self, text: str) -> None:
        """Raise PlanInvalidError when `text` is not SiddhiQL without errors, PlansBusyError, PlanTooCostlyError."""
        self._answer(self._looking, "checked", text)

    def compile(self, text: str, reaches: WorkerReach = UNKNOWN, *, looking: bool = False) -> CompiledPlan:
        """Return the plan in `text`, compiled; `looking` when it is not deployed and needs no brokers.

        Raises PlanInvalidError, PlansBusyError, PlanTooCostlyError.
        """
        answer = self._answer(self._looking if looking else self._deploying, "compiled", text, reaches=reaches)
        assert isinstance(answer, CompileResult)  # noqa: S101
        return answer.plan if looking else with_brokers(answer.plan, self._kafka)

    def warm_up(self) -> None:
        """Start a process for the first request."""
        _IDLE.warm_up()

    def await_ready(self) -> None:
        """Wait until that process is ready, for at most `START_S`."""
        process = _IDLE.take()
        process.await_ready()
        _IDLE.put_back(process)

    def _answer(
        self, line: _Line, wanted: str, text: str, tenant: int = 0, reaches: WorkerReach = UNKNOWN
    ) -> CompileAnswer:
        config, scripts = self._config, self._scripts
        languages = None if scripts.allowed is None else tuple(scripts.allowed)
        cpu_s = config.timeout_ms / 1_000
        request = CompileRequest(
            wanted, tenant, text, languages, scripts.setting, reaches, cpu_s, config.memory_bytes, config.most_words
        )
        message = msgspec.msgpack.encode(request)
        with line.turn() as process:
            written = process.ask(message, max(WALL_FACTOR * cpu_s, LEAST_WALL_S))
        if not written and process.starved:
            raise PlansBusyError(STARVED)
        if not written:
            raise PlanTooCostlyError(
                f"compiling the plan takes more than {config.timeout_ms} ms of CPU time or {config.memory_bytes} bytes "
                "of memory; split it into several plans, or raise compile.timeout_ms and compile.memory_bytes in the "
                "manager's configuration",
                {"config": ["compile.timeout_ms", "compile.memory_bytes"]},
            )
        answer: CompileAnswer = msgspec.msgpack.decode(written, type=CompileAnswer)
        if isinstance(answer, Invalid):
            raise PlanInvalidError(answer.problems)
        return answer


class _Line:
    """A limited number of processes, and a bounded queue of requests that wait for one."""

    def __init__(self, at_once: int, waits: int, wait_s: float) -> None:
        self._free = threading.BoundedSemaphore(at_once)
        self._let_in = threading.BoundedSemaphore(at_once + waits)
        self._wait_s = wait_s

    @contextlib.contextmanager
    def turn(self) -> Iterator[_Process]:
        """Lend a process for one request. Raises PlansBusyError when none becomes free in time."""
        if not self._let_in.acquire(blocking=False):
            raise PlansBusyError(BUSY)
        try:
            if not self._free.acquire(timeout=self._wait_s):
                raise PlansBusyError(BUSY)
            try:
                process = _IDLE.take()
                try:
                    yield process
                finally:
                    _IDLE.put_back(process)
            finally:
                self._free.release()
        finally:
            self._let_in.release()


class _Idle:
    """A pool of idle processes.

    They have no configuration, so all managers of a process share them. They end with the process, which closes their
    input.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._processes: list[_Process] = []

    def take(self) -> _Process:
        """Return a process, a new one if none is idle."""
        with self._lock:
            while self._processes:
                process = self._processes.pop()
                if process.alive():
                    return process
                process.end()
        return _Process()

    def put_back(self, process: _Process) -> None:
        """Return the process to the pool, unless it has ended or the pool is full."""
        with self._lock:
            if process.alive() and len(self._processes) < MOST_IDLE:
                self._processes.append(process)
                return
        process.end()

    def warm_up(self) -> None:
        """Start a process in advance."""
        with self._lock:
            if not self._processes:
                self._processes.append(_Process())


class _Process:
    """A process that compiles plans. Only one thread at a time may send requests to it."""

    def __init__(self) -> None:
        self._process = start(
            [sys.executable, "-P", "-m", "cep_manager.authoring.compile_process"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env={name: os.environ[name] for name in KEPT_VARIABLES if name in os.environ},
        )
        self._ready = self._given_up = False
        self.starved = False
        """Whether it was killed because it got too little CPU time; a process that exceeds its CPU time ends on its
        own."""

    def alive(self) -> bool:
        return self._process.poll() is None

    def ask(self, message: bytes, seconds: float) -> bytes:
        """Return the process's answer; empty when it ended, or was ended after `seconds`."""
        assert self._process.stdin is not None  # noqa: S101 - for mypy: they are pipes
        assert self._process.stdout is not None  # noqa: S101
        self.await_ready()
        timer = threading.Timer(seconds, self._give_up)
        timer.start()
        try:
            write_frame(self._process.stdin, message)
            written = read_frame(self._process.stdout)
        except (BrokenPipeError, ValueError):  # it has ended, or its pipes were closed
            written = b""
        finally:
            timer.cancel()
        if not written:
            self.end()
            code = self._process.returncode
            self.starved = self._given_up and code == -signal.SIGKILL
            logger.warning("a plan was not compiled: the process ended: code=%s bytes=%d", code, len(message))
        return written

    def await_ready(self) -> None:
        """Wait until it has loaded what it needs; end it when that takes too long."""
        if self._ready or self._process.stdout is None:
            return
        timer = threading.Timer(START_S, self._give_up)
        timer.start()
        try:
            self._ready = read_frame(self._process.stdout) == READY
        finally:
            timer.cancel()

    def _give_up(self) -> None:
        self._given_up = True
        kill(self._process)

    def end(self) -> None:
        end(self._process)


_IDLE = _Idle()
