"""Topics of logs in memory: what several runs write to them stays, and strangers write, too."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence

from topology.sync_log.settings import SyncLogSettings
from topology.sync_log.task_logs import LogTopics


class MemoryTopics:
    """The topics by name; `delay` is how many calls of `written` and `came` see nothing of a new record."""

    def __init__(self, delay: int = 0) -> None:
        self.records: dict[str, list[bytes | None]] = {}
        self.delay = delay
        self.before_each: Callable[[list[bytes | None]], None] = lambda _: None
        """Called before a record is added: somebody else may add one."""

    def topics(self) -> LogTopics:
        return LogTopics(self._written, self._read)

    def _written(self, name: str, settings: SyncLogSettings, wake: Callable[[], None]) -> WrittenInMemory:
        return WrittenInMemory(self, self.records.setdefault(name, []))

    def _read(self, name: str, settings: SyncLogSettings, wake: Callable[[], None]) -> ReadInMemory:
        return ReadInMemory(self, self.records.setdefault(name, []))


class WrittenInMemory:
    def __init__(self, owner: MemoryTopics, records: list[bytes | None]) -> None:
        self._owner, self._records = owner, records
        self._done: deque[tuple[int, int]] = deque()
        self._late = 0

    def append(self, ticket: int, records: Sequence[bytes]) -> None:
        first = -1
        for record in records:
            self._owner.before_each(self._records)
            first = len(self._records) if first < 0 else first
            self._records.append(record)
        self._done.append((ticket, first))
        self._late = self._owner.delay

    def written(self) -> Iterator[tuple[int, int]]:
        if self._late:
            self._late -= 1
            return
        while self._done:
            yield self._done.popleft()

    def forget(self, before: int) -> None:
        self._records[:before] = [None] * before

    def problem(self) -> str:
        return ""

    def close(self) -> None:
        """Nothing is open."""


class ReadInMemory:
    def __init__(self, owner: MemoryTopics, records: list[bytes | None]) -> None:
        self._owner, self._records = owner, records
        self._next = -1
        self._late = 0

    def start(self, offset: int) -> None:
        assert self._next < 0, "called once"
        self._next, self._late = offset, self._owner.delay

    def came(self) -> Iterator[tuple[int, bytes]]:
        if self._late:
            self._late -= 1
            return
        while self._next < len(self._records):
            record = self._records[self._next]
            assert record is not None, "it was deleted before it was read"
            self._next += 1
            yield self._next - 1, record
        self._late = self._owner.delay

    def problem(self) -> str:
        return ""

    def close(self) -> None:
        """Nothing is open."""
