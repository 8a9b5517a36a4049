"""Siddhi and our engine behind one face: start an app, send events, tell how long they took."""

from __future__ import annotations

import gc
import json
import subprocess
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import pyarrow as pa

from benchmarks.peers.events import events, table_rows
from benchmarks.peers.kinds import QueryKind
from siddhi.analysis.analyser import analyse
from siddhi.engine.app_runtime import AppRuntime
from siddhi.language.parser import parse
from tools.differential.siddhi_jars import compile_driver, fetch_jars

_JAVA = Path(__file__).parent / "java"
_BLOCK = 50_000
_LONGEST_S = 120.0
"""Some apps never come back from a step in Siddhi."""
Parts = tuple[tuple[str, pa.RecordBatch], ...]
"""What is sent at once, by stream."""


@dataclass(frozen=True, slots=True)
class EngineTiming:
    """`events` were sent, and took so long by the clock chosen; `outputs` events came out."""

    events: int
    seconds: float
    outputs: int


class PeerEngine(Protocol):
    """One engine that runs one kind."""

    def send(self, count: int, batch: int) -> EngineTiming:
        """Send `count` events in batches."""

    def measure(self, seconds: float, batch: int) -> EngineTiming:
        """Send events in batches for so long."""


class EngineRefusedError(Exception):
    """An engine does not run the app of a kind."""


class Siddhi:
    """The released Siddhi in a JVM of its own, so that no kind profits or suffers from what another one compiled."""

    def __init__(self, kind: QueryKind, events_file: Path, log: Path, *, by_cpu: bool) -> None:
        jars = fetch_jars()
        classes = compile_driver(_JAVA, jars)
        path = ":".join(map(str, (classes, *sorted(jars.glob("*.jar")))))
        with log.open("ab") as errors:
            self._process = subprocess.Popen(  # noqa: S603 - our own command
                ["java", "-Xmx2g", "-cp", path, "PeerDriver", str(events_file)],  # noqa: S607 - the one on the path
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
                encoding="utf-8",
            )
        try:
            start = {"app": kind.app, "two": kind.two, "rows": kind.rows, "cpu": by_cpu}
            self.start_ms = int(self._ask(start)["startMs"])
            """Event time of the first event."""
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """End the process."""
        self._process.kill()
        self._process.communicate()

    def send(self, count: int, batch: int) -> EngineTiming:
        return _timing(self._ask({"events": count, "chunk": batch}))

    def measure(self, seconds: float, batch: int) -> EngineTiming:
        return _timing(self._ask({"seconds": seconds, "chunk": batch}))

    def _ask(self, command: dict[str, Any]) -> dict[str, Any]:
        assert self._process.stdin is not None  # noqa: S101 - for mypy
        assert self._process.stdout is not None  # noqa: S101 - for mypy
        timer = threading.Timer(_LONGEST_S, self._process.kill)
        timer.start()
        try:
            self._process.stdin.write(json.dumps(command) + "\n")
            self._process.stdin.flush()
            line = self._process.stdout.readline()
        finally:
            timer.cancel()
        answer: dict[str, Any] = (
            json.loads(line) if line else {"error": f"its process ended, or hung for {_LONGEST_S} s"}
        )
        if "error" in answer:
            raise EngineRefusedError(answer["error"])
        return answer


def _timing(answer: dict[str, Any]) -> EngineTiming:
    return EngineTiming(int(answer["events"]), answer["ns"] / 1e9, int(answer["outputs"]))


class Ours:
    """Our engine in this process; results are handed to the callback as Arrow batches."""

    def __init__(self, kind: QueryKind, start_ms: int, *, by_cpu: bool) -> None:
        self.runtime = AppRuntime(analyse(parse(kind.app)))
        self._kind = kind
        self._now = time.thread_time if by_cpu else time.perf_counter
        self._start_ms = start_ms
        self._sent = 0
        self._outputs = 0
        self.runtime.add_stream_callback("Out", self._count)
        self.runtime.start(start_ms)
        if kind.rows:
            self.runtime.send("T", table_rows(kind.rows, start_ms))

    def _count(self, records: pa.RecordBatch) -> None:
        self._outputs += records.num_rows

    def send(self, count: int, batch: int) -> EngineTiming:
        return self._run(count, float("inf"), batch)

    def measure(self, seconds: float, batch: int) -> EngineTiming:
        return self._run(1 << 62, seconds, batch)

    def _run(self, most: int, seconds: float, batch: int) -> EngineTiming:
        first, outputs, used = self._sent, self._outputs, 0.0
        block = _BLOCK - _BLOCK % batch
        gc.collect()
        while self._sent - first < most and used < seconds:
            parts = list(self._split(min(block, most - (self._sent - first)), batch))
            start = self._now()
            for part in parts:
                self._send(part)
                if self._now() - start + used >= seconds:
                    break
            used += self._now() - start
        return EngineTiming(self._sent - first, used, self._outputs - outputs)

    def _split(self, count: int, batch: int) -> Iterator[Parts]:
        """Yield the next `count` events in batches; those of two streams come in turn, also within a batch."""
        made = events(self._sent, count, self._start_ms)
        if not self._kind.two:
            for start in range(0, count, batch):
                yield (("S", made.slice(start, batch)),)
            return
        if batch == 1:
            for start in range(count):
                yield (("ST"[start % 2], made.slice(start, 1)),)
            return
        sides = [made.take(pa.array(np.arange(side, count, 2))) for side in range(2)]
        for start in range(0, (count + 1) // 2, batch // 2):
            yield tuple((stream, side.slice(start, batch // 2)) for stream, side in zip("ST", sides, strict=True))

    def _send(self, parts: Parts) -> None:
        rows = sum(part.num_rows for _, part in parts)
        if len(parts) == 1:
            self.runtime.send(*parts[0])
        else:
            self.runtime.send_merged(parts, np.arange(rows) % 2)
        self._sent += rows
