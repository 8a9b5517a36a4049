"""A sink whose writing may block: it has a thread of its own behind a bounded queue."""

from __future__ import annotations

import logging
import queue
import threading
from collections.abc import Callable
from typing import Any, Protocol

import pyarrow as pa

from cep_common.errors import CepError

logger = logging.getLogger(__name__)


class WriteError(CepError):
    """A write that failed for good: these events are dropped, and counted."""

    code = "sink-write"


class Writer(Protocol):
    """Delivers batches; lives on the sink's thread."""

    def write(self, batch: pa.RecordBatch, stopping: threading.Event) -> None:
        """`batch` is delivered. May take long, and tries again as it sees fit until `stopping` is set. Raises
        WriteError when these events cannot be delivered."""

    def close(self) -> None:
        """Nothing more will be written."""


class ThreadedSink:
    """Batches in a queue of at most `waiting_rows` rows (and one batch), written by a thread."""

    def __init__(self, name: str, writer: Writer, waiting_rows: int, room: Callable[[], None]) -> None:
        self._name = name
        self._writer = writer
        self._most_rows = waiting_rows
        self._room = room
        self._queue: queue.SimpleQueue[pa.RecordBatch | None] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._rows = 0
        self._stopping = threading.Event()
        self._error = ""
        self.dropped_events = 0
        self._thread = threading.Thread(target=self._run, name=f"sink {name}", daemon=True)
        self._thread.start()

    def has_room(self) -> bool:
        return self._rows < self._most_rows

    def offer(self, batch: pa.RecordBatch, body: Any) -> None:
        with self._lock:
            self._rows += batch.num_rows
        self._queue.put(batch)

    def tick(self, now_ms: int) -> None:
        """Nothing to do: the thread keeps its own time."""

    def drained(self) -> bool:
        return self._rows == 0

    def last_error(self) -> str:
        return self._error

    def close(self) -> None:
        self._stopping.set()
        self._queue.put(None)

    def _run(self) -> None:
        while (batch := self._queue.get()) is not None:
            self._write(batch)
            with self._lock:
                was_full = self._rows >= self._most_rows
                self._rows -= batch.num_rows
            if was_full and self._rows < self._most_rows:
                self._room()
            if self._stopping.is_set():
                break
        self._writer.close()

    def _write(self, batch: pa.RecordBatch) -> None:
        try:
            self._writer.write(batch, self._stopping)
        except WriteError as error:
            self._drop(batch, error.message)
        except Exception as error:  # noqa: BLE001 - the sink's own message loop: one bad batch does not end it
            self._drop(batch, f"{type(error).__name__}: {error}")
        else:
            self._error = ""

    def _drop(self, batch: pa.RecordBatch, reason: str) -> None:
        self.dropped_events += batch.num_rows
        self._error = f"{self._name}: {self.dropped_events} events dropped, the last because: {reason}"
        logger.error("sink dropped events: sink=%s events=%d reason=%s", self._name, batch.num_rows, reason)
