"""The real Siddhi in a process of its own, which plays one case after the other."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from tools.differential.siddhi_jars import compile_driver, fetch_jars

_MEMORY = "-Xmx768m"
_DRIVER = Path(__file__).parent / "java"


@dataclass(frozen=True, slots=True)
class SiddhiAnswer:
    """What Siddhi gave for a case: `expect` in the form of a case file, or the `error` with which it refused the app.

    `failures` are the errors that it logged while it ran; `hung` says that it did not come to an end.
    """

    expect: Mapping[str, Any] | None = None
    error: Mapping[str, Any] | None = None
    failures: tuple[str, ...] = ()
    hung: bool = False


class SiddhiProcess:
    """Starts Siddhi when the first case comes; `play` may be called any number of times."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[str] | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        """End the process."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def play(self, case: Mapping[str, Any]) -> SiddhiAnswer:
        """Return Siddhi's answer to `case`, ignoring its own expectation."""
        process = self._process or self._start()
        assert process.stdin is not None  # noqa: S101 - for mypy
        assert process.stdout is not None  # noqa: S101 - for mypy
        document = {key: value for key, value in case.items() if key in ("app", "events", "listen", "start_time")}
        process.stdin.write(json.dumps(document) + "\n")
        process.stdin.flush()
        line = process.stdout.readline()
        if not line:
            self.close()
            raise RuntimeError("Siddhi's process ended; what it printed is above")
        answer = json.loads(line)
        if answer.get("hung"):
            self.close()
            return SiddhiAnswer(hung=True)
        return SiddhiAnswer(answer.get("expect"), answer.get("error"), tuple(answer.get("runtime_errors", ())))

    def _start(self) -> subprocess.Popen[str]:
        jars = fetch_jars()
        classes = compile_driver(_DRIVER, jars)
        command = [
            "java",
            _MEMORY,
            "-XX:+UseSerialGC",
            "-XX:TieredStopAtLevel=1",
            "-cp",
            str(classes),
            "SiddhiDriver",
            str(classes),
            str(jars),
        ]
        self._process = subprocess.Popen(  # noqa: S603 - our own command
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, encoding="utf-8"
        )
        return self._process
