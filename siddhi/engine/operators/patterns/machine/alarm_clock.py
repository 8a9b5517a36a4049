"""Find the machines with due alarms without checking all of them."""

from __future__ import annotations

from heapq import heapify, heappop, heappush


class AlarmClock:
    """Stores the time of the first alarm of each machine by key; a new time replaces the former one."""

    def __init__(self) -> None:
        self._due: dict[int, int] = {}
        self._queue: list[tuple[int, int]] = []

    def note(self, key: int, due: int | None) -> None:
        """Record that the first alarm of the machine `key` is due at `due`, or that there is none."""
        if due == self._due.get(key):
            return
        if due is None:
            del self._due[key]
            return
        self._due[key] = due
        if len(self._queue) > 2 * len(self._due) + 64:  # most entries are outdated
            self._queue = [(time, noted) for noted, time in self._due.items()]
            heapify(self._queue)
        else:
            heappush(self._queue, (due, key))

    def next_due(self) -> int | None:
        """Return the time of the earliest alarm."""
        while self._queue:
            due, key = self._queue[0]
            if self._due.get(key) == due:
                return due
            heappop(self._queue)
        return None

    def until(self, time: int) -> list[int]:
        """Return the machines whose first alarm is due by `time`."""
        found: dict[int, int] = {}
        while (due := self.next_due()) is not None and due <= time:
            found[self._queue[0][1]] = due
            heappop(self._queue)
        for key, due in found.items():
            heappush(self._queue, (due, key))
        return list(found)
