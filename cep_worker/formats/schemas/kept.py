"""A cache of schemas from a registry, bounded by number and size."""

from __future__ import annotations

import threading
from collections import OrderedDict
from typing import Generic, TypeVar

T = TypeVar("T")


class KeptBySize(Generic[T]):
    """An LRU cache of values by number, bounded by their count and their total size.

    Any thread may call it.
    """

    def __init__(self, most: int, most_bytes: int) -> None:
        self._most = most
        self._most_bytes = most_bytes
        self._lock = threading.Lock()
        self._values: OrderedDict[int, tuple[T, int]] = OrderedDict()
        self._bytes = 0

    def __len__(self) -> int:
        return len(self._values)

    def get(self, number: int) -> T | None:
        """Return the value, if it is kept."""
        with self._lock:
            found = self._values.get(number)
            if found is None:
                return None
            self._values.move_to_end(number)
            return found[0]

    def put(self, number: int, value: T, size: int) -> None:
        """Keep a value of `size` bytes; the newest value stays regardless of its size."""
        with self._lock:
            self._bytes += size - self._values.pop(number, (value, 0))[1]
            self._values[number] = value, size
            while len(self._values) > 1 and (len(self._values) > self._most or self._bytes > self._most_bytes):
                self._bytes -= self._values.popitem(last=False)[1][1]
