"""A queue of commands from other threads to the control loop, answered through futures."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeoutError
from contextlib import contextmanager

import msgspec

from cep_manager.control.instructions import Instruction
from cep_manager.errors import ManagerUnavailableError

COMMAND_TIMEOUT_S = 10.0

Work = Callable[[int], Iterable[Instruction]]
"""Takes the monotonic time, and returns further actions."""


class Command(msgspec.Struct, frozen=True):
    """A command for the loop's thread, with a future on which the caller waits."""

    run: Work
    done: Future[None]


class _Later(threading.local):
    """The actions of the current thread for the end of its block; None outside a block."""

    work: list[Work] | None = None


class CommandQueue:
    """`take` is for the loop's thread, everything else for any."""

    def __init__(self, wake: Callable[[], None]) -> None:
        """`wake` is called when there is something to take."""
        self._wake = wake
        self._commands: queue.SimpleQueue[Command] = queue.SimpleQueue()
        self._closed = False
        self._later = _Later()

    def do(self, run: Work) -> None:
        """Run the command in the loop's thread and wait for it.

        Within `together` it only joins that block's work. Raises ManagerUnavailableError, or what `run` raised.
        """
        if self._later.work is not None:
            self._later.work.append(run)
        else:
            self._await(self.post(run))

    @contextmanager
    def together(self) -> Iterator[None]:
        """Collect this thread's actions until the end of the block, and then execute them.

        Drop it when an error ends the block. Raises as `do`.
        """
        work = self._later.work = []
        try:
            yield
        finally:
            self._later.work = None
        for done in [self.post(run) for run in work]:
            self._await(done)

    def _await(self, done: Future[None]) -> None:
        try:
            done.result(timeout=COMMAND_TIMEOUT_S)
        except FutureTimeoutError as error:
            raise ManagerUnavailableError(f"the control loop did not answer in {COMMAND_TIMEOUT_S:.0f} s") from error

    def post(self, run: Work) -> Future[None]:
        """Queue the command for the loop's thread and return a future of its completion."""
        command = Command(run, Future())
        self._commands.put(command)
        if self._closed:
            self._fail()
        else:
            self._wake()
        return command.done

    def take(self) -> Iterator[Command]:
        """Yield the queued commands."""
        while True:
            try:
                yield self._commands.get_nowait()
            except queue.Empty:
                return

    def close(self) -> None:
        """Fail all queued commands, and every later one at once."""
        self._closed = True
        self._fail()

    def _fail(self) -> None:
        for command in self.take():
            command.done.set_exception(ManagerUnavailableError("the manager is stopping"))
