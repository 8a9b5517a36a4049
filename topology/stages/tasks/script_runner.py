"""Run the scripts of a plan in a separate process, isolated from the plan.

    batch of calls ──▶ process ──▶ answers
          │               ✗ ended by a call: that call fails, the process starts again, the rest continues
          │               ✗ ended by something else: the call is retried once, then it fails, too
          └── after `MOST_STOPPED` such calls of a batch its remaining ones fail without being made

A task without scripts has no process. The process starts when the first function is defined, so that events do not wait
for it, ends after `idle_ms` without calls, and is restarted by the next call.
"""

from __future__ import annotations

import importlib
import logging
import os
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

from siddhi.scripts.language import ScriptCalls, ScriptFailure, ScriptLanguage
from siddhi.scripts.messages import LARGEST_REQUEST, CallRequest, FunctionSource, ScriptStart, to_wire, write
from topology.errors import TopologyError
from topology.stages.settings import ScriptProcessSettings
from topology.stages.tasks.script_process import ProcessEndedError, ScriptProcess

logger = logging.getLogger(__name__)

MOST_CALLS, MOST_REQUEST_BYTES = 4_096, 8 * 2**20
"""The maximum calls and bytes of one message, unless a single call has more."""
LEAST_CPU_MS = 50
"""The reduced time limit after many calls of one batch were stopped."""
MOST_STOPPED = 16
"""The maximum number of stopped calls in a batch. Each costs its time limit and the start of a process while other
events and plans wait, so this keeps the delay at seconds instead of minutes."""
MOST_REPEATED = 16
"""The maximum number of retried calls of a batch, so that repeated ends of processes cannot block a plan forever."""
MOST_ANSWER_BYTES = 256 * 2**20
"""The maximum size of all results of one batch, to limit memory."""
MOST_STARTS = 3
"""The number of failed starts of a process after which the plan's task ends. It is restarted without losing events."""
_SCALARS = frozenset({bool, float, type(None)})
_INT64 = 2**63


def _nothing() -> None:
    """Do nothing: the default of what is done while scripts run."""


class _Batch:
    """The calls of a batch, and the answers so far."""

    def __init__(self, calls: Sequence[Sequence[object]]) -> None:
        self.calls = calls
        self.answers: list[object] = []
        self.size = 0
        """Bytes of the answers."""
        self.stopped: dict[int, str] = {}
        """The calls that ended the process, by index, and the reasons."""
        self.repeated: set[int] = set()
        """Calls that are retried because an external event ended the process."""
        self.slept = False
        """Whether the process had just ended while idle."""

    @property
    def done(self) -> int:
        return len(self.answers)

    @property
    def left(self) -> int:
        return len(self.calls) - len(self.answers)

    def fail(self, reason: str, count: int = 1) -> None:
        """Let the next `count` calls fail."""
        self.answers += [ScriptFailure(reason)] * count

    def request(self, function: int, cpu_ms: int) -> tuple[CallRequest, bytes] | ScriptFailure:
        """Return the next calls as a message, or why the next one cannot be sent.

        It ends where a call follows that is known to fail.
        """
        first = self.done
        end = min([first + MOST_CALLS, len(self.calls), *(place for place in self.stopped if place > first)])
        reason = ""
        while end > first:
            try:
                request = CallRequest(function, cpu_ms, [_written(given) for given in self.calls[first:end]])
                message = write(request)
            except (ValueError, TypeError) as error:
                reason = f"its arguments cannot be passed to a script: {error}"
            else:
                if len(message) <= (MOST_REQUEST_BYTES if end > first + 1 else LARGEST_REQUEST):
                    return request, message
                reason = f"its arguments have more than {LARGEST_REQUEST} bytes"
            end = first + (end - first) // 2
        return ScriptFailure(reason)


class PlanScripts:
    """The functions of a plan in one task, and the process that runs them. The task's loop calls it."""

    def __init__(self, settings: ScriptProcessSettings, meanwhile: Callable[[], None] = _nothing) -> None:
        """Run functions within `settings`.

        The calls of a batch may take minutes together, during which `meanwhile` is called repeatedly. A forked copy of
        this process does not call it.
        """
        self._settings = settings
        self._meanwhile = meanwhile
        self._functions: dict[FunctionSource, int] = {}
        self._process: ScriptProcess | None = None
        self._owner = os.getpid()
        self._stopped: dict[str, tuple[int, str]] = {}

    def function(self, language: ScriptLanguage, body: str, name: str) -> ScriptCalls:
        """Return the function whose body is `body`; see ScriptRunner.

        Raises:
            TopologyError: The language cannot be run in a process of its own.
        """
        source = _source(language, body)
        if source not in self._functions:
            self._functions[source] = len(self._functions)
            self.close()  # the running process only has the earlier functions
        return partial(self._call, self._functions[source], name)

    @property
    def process_id(self) -> int | None:
        """The id of the process; None while there is none."""
        return self._process.id if self._process is not None else None

    def start(self) -> None:
        """Start the process if there are functions, and do not wait for it."""
        if self._functions and self._process is None:
            try:
                self._process = self._started()
            except (OSError, ProcessEndedError) as error:  # the first call retries and reports the error
                logger.warning("a process for scripts cannot be started yet: reason=%s", error)

    def tend(self) -> None:
        """Release a process that has ended."""
        if self._process is not None and self._process.ended:
            self.close()

    def stopped(self) -> Iterator[tuple[str, int, str]]:
        """Yield the functions that were stopped since the last call, with the count and the last reason."""
        found, self._stopped = self._stopped, {}
        yield from ((name, count, reason) for name, (count, reason) in found.items())

    def close(self) -> None:
        """End the process. The next call starts another one."""
        process, self._process = self._process, None
        if process is None:
            return
        if self._owner == os.getpid():
            process.kill()
        else:  # this is a forked copy of the task's process, which still uses the script process
            process.abandon()

    def _call(self, function: int, name: str, calls: Sequence[Sequence[object]]) -> Sequence[object]:
        batch = _Batch(calls)
        while batch.left:
            if batch.done in batch.stopped:
                batch.fail(batch.stopped[batch.done])
            elif len(batch.stopped) >= MOST_STOPPED:
                batch.fail(f"it was not called: {MOST_STOPPED} calls of the same batch were stopped", batch.left)
            elif batch.size > MOST_ANSWER_BYTES:
                batch.fail(f"the results of one batch may have {MOST_ANSWER_BYTES} bytes together", batch.left)
            else:
                self._work_on(batch, function, name)
        return batch.answers

    def _work_on(self, batch: _Batch, function: int, name: str) -> None:
        """Make the next calls of the batch. When one ends the process, the others keep their answers."""
        cpu_ms = max(min(LEAST_CPU_MS, self._settings.cpu_ms), self._settings.cpu_ms >> len(batch.stopped))
        written = batch.request(function, cpu_ms)
        if isinstance(written, ScriptFailure):
            batch.fail(written.reason)
            return
        request, message = written
        process = self._ready()
        first = batch.done
        try:
            process.request(request, message)
            while batch.done < first + len(request.calls) and batch.size <= MOST_ANSWER_BYTES:
                found = process.answers(request, first + len(request.calls) - batch.done)
                batch.size += found.size
                batch.answers += found.answers
                self._meanwhile()
        except ProcessEndedError as ended:
            self._process = None
            self._after_end(batch, first, ended, name)
            return
        except BaseException:
            self.close()  # its next answers would be those to this request
            raise
        if batch.done < first + len(request.calls):
            self.close()  # it has more answers to this request

    def _after_end(self, batch: _Batch, first: int, ended: ProcessEndedError, name: str) -> None:
        """Determine the call that caused the end of the process, if any."""
        if ended.idle and not batch.slept:
            batch.slept = True
            return
        place = first + ended.place
        if not batch.done <= place < len(batch.calls):
            place = batch.done
        if not ended.by_call and place not in batch.repeated and len(batch.repeated) < MOST_REPEATED:
            batch.repeated.add(place)
            logger.warning("a process for scripts ended, its calls are made again: function=%s reason=%s", name, ended)
            return
        batch.stopped[place] = str(ended)
        count, _ = self._stopped.get(name, (0, ""))
        self._stopped[name] = count + 1, str(ended)

    def _ready(self) -> ScriptProcess:
        """Return a process that can make calls.

        Raises:
            TopologyError: None can be started.
        """
        if self._owner != os.getpid():
            self.close()
            self._owner, self._meanwhile = os.getpid(), _nothing
        reason = ""
        for _ in range(MOST_STARTS):
            try:
                process = self._process = self._process or self._started()
                process.await_ready()
            except (OSError, ProcessEndedError) as error:
                self._process, reason = None, str(error)
            else:
                return process
        raise TopologyError("script-process", f"no process for the plan's scripts can be started: {reason}")

    def _started(self) -> ScriptProcess:
        settings = self._settings
        start = ScriptStart(tuple(self._functions), settings.memory_bytes, settings.idle_ms)
        return ScriptProcess(start, self._meanwhile)


def _source(language: ScriptLanguage, body: str) -> FunctionSource:
    module, name = language.compile.__module__, language.compile.__qualname__
    if getattr(importlib.import_module(module), name, None) is not language.compile:
        raise TopologyError(
            "not-supported",
            f"functions in '{language.name}' cannot run in a process of their own: the extension must give "
            f"ScriptLanguage a function of a module, which {module}.{name} is not",
        )
    return FunctionSource(module, name, body)


def _written(given: Sequence[Any]) -> Sequence[object]:
    """Return the arguments of a call in a form that msgpack can write."""
    for one in given:
        kind = type(one)
        if not (kind in _SCALARS or (kind is str and one.isascii()) or (kind is int and -_INT64 <= one < _INT64)):
            return [to_wire(each) for each in given]
    return given
