"""Processes of a simulated system: they take turns, die, and hang; what they wait for comes at virtual times."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

from fake_network import FakeContext, Network
from virtual_world import VirtualWorld


class WorldClock:
    """Virtual time as the system's clock; the time of day stands an hour ahead of the monotonic time, and may be wrong
    by `wrong_ms`."""

    def __init__(self, world: VirtualWorld) -> None:
        self._world = world
        self.wrong_ms = world.clock_error_ms()

    def now_ms(self) -> int:
        return self._world.now_ms + 3_600_000 + self.wrong_ms

    def monotonic_ms(self) -> int:
        return self._world.now_ms

    @property
    def deviation_ms(self) -> int:
        return 0


class Process:
    """Something that takes turns: when there is something to read, at times that it names, and at last every
    `tick_ms`. One that hangs takes none, but its sockets stay open."""

    def __init__(self, world: VirtualWorld, network: Network, name: str, tick_ms: int) -> None:
        self.world = world
        self.name = name
        self.number = next(network.peers)
        """Unlike that of any other process."""
        self.alive = True
        self.hung_until_ms = 0
        self.context: Any = FakeContext(network, self.wake)
        self._tick_ms = tick_ms
        self._due_ms: int | None = None
        world.later(world.chance.randrange(tick_ms), self._tick)

    def wake(self) -> None:
        """It will take a turn at once."""
        self.wake_at(self.world.now_ms)

    def wake_at(self, time_ms: int) -> None:
        """It will take a turn then, or before."""
        time_ms = max(time_ms, self.world.now_ms, self.hung_until_ms)
        if self.alive and (self._due_ms is None or time_ms < self._due_ms):
            self._due_ms = time_ms
            self.world.later(time_ms - self.world.now_ms, lambda: self._take_turn(time_ms))

    def hang(self, for_ms: int) -> None:
        """It stands still for so long."""
        self.hung_until_ms = self.world.now_ms + for_ms

    def kill(self) -> None:
        """It is gone without a word."""
        self.alive = False
        self.context.kill()

    def turn(self) -> None:
        """Does what there is to do."""

    def soon(self, after_ms: int, happen: Callable[[], None]) -> None:
        """`happen` is called if the process still lives then; one that hangs does it when it continues."""

        def attend() -> None:
            if not self.alive:
                return
            if self.world.now_ms < self.hung_until_ms:
                self.world.later(self.hung_until_ms - self.world.now_ms, attend)
                return
            happen()
            self.wake()

        self.world.later(after_ms, attend)

    def _tick(self) -> None:
        if self.alive:
            self.wake()
            self.world.later(self._tick_ms, self._tick)

    def _take_turn(self, time_ms: int) -> None:
        if not self.alive or self._due_ms != time_ms:
            return
        self._due_ms = None
        if self.world.now_ms < self.hung_until_ms:
            self.wake_at(self.hung_until_ms)
            return
        self.turn()


class LaterExecutor:
    """Does in the order of submission what a thread of a process would do, some time later."""

    def __init__(self, process: Process, longest_ms: int) -> None:
        self._process = process
        self._longest_ms = longest_ms
        self._free_ms = 0

    def submit(self, work: Callable[..., Any], *arguments: Any) -> Future[Any]:
        """The answer of `work` comes if the process lives so long."""
        future: Future[Any] = Future()
        world = self._process.world

        def carry_out() -> None:
            try:
                answer = work(*arguments)
            except Exception as error:  # noqa: BLE001 - the caller gets it
                future.set_exception(error)
            else:
                future.set_result(answer)

        self._free_ms = max(self._free_ms, world.now_ms) + world.chance.randrange(1, self._longest_ms)
        self._process.soon(self._free_ms - world.now_ms, carry_out)
        return future

    def shutdown(self, wait: bool) -> None:
        """Nothing is left to be done."""
