"""What calls of script functions cost in the engine's process and in one of their own.

    python -m benchmarks.script_processes

Prints microseconds for each call in batches of some sizes: processor time of both processes together, and time of the
clock. Each is the best of several rounds.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from pathlib import Path

from siddhi.scripts.javascript import JAVASCRIPT
from siddhi.scripts.language import ScriptLanguage
from siddhi.scripts.python import PYTHON
from topology.stages.settings import ScriptProcessSettings
from topology.stages.tasks.script_runner import PlanScripts

ROUNDS = 7
CALLS = 8_192
SIZES = (1, 16, 256, 4_096)
SCRIPTS = (
    ("one operation", PYTHON, "\nreturn data[0] * 2\n"),
    ("a percentage", PYTHON, "\npart, whole = data\nreturn round(100.0 * part / whole, 2) if whole else None\n"),
    ("one operation", JAVASCRIPT, "return data[0] * 2;"),
)

Calls = Callable[[Sequence[Sequence[object]]], object]


def used_s(process_id: int | None) -> float:
    """Return the processor time of this process and of the one with that id."""
    if process_id is None:
        return time.process_time()
    nanoseconds = int(Path(f"/proc/{process_id}/schedstat").read_text().split()[0])
    return time.process_time() + nanoseconds / 1e9


def best(make: Calls, batches: Sequence[Sequence[Sequence[object]]], process_id: int | None) -> tuple[float, float]:
    """Return the least processor time and the least time of the clock of a round, for each call, in microseconds."""
    found: list[tuple[float, float]] = []
    for _ in range(ROUNDS):
        began_s, cpu_s = time.perf_counter(), used_s(process_id)
        for batch in batches:
            make(batch)
        found.append((used_s(process_id) - cpu_s, time.perf_counter() - began_s))
    calls = sum(map(len, batches))
    return min(cpu for cpu, _ in found) / calls * 1e6, min(wall for _, wall in found) / calls * 1e6


def compare(title: str, language: ScriptLanguage, body: str) -> None:
    """Print a line for each size of batches."""
    inside, scripts = language.compile(body), PlanScripts(ScriptProcessSettings())
    outside = scripts.function(language, body, title)
    began_s = time.perf_counter()
    outside([[1, 2]])
    print(f"{language.name}, {title}: the process starts in {time.perf_counter() - began_s:.2f} s")
    process = scripts.process_id
    for size in SIZES:
        count = min(CALLS, 512 * size)
        batches = [[[place, size] for place in range(first, first + size)] for first in range(0, count, size)]
        here, here_wall = best(lambda batch: [inside(list(given)) for given in batch], batches, None)
        there, there_wall = best(outside, batches, process)
        print(
            f"  batches of {size:5}: {here:7.2f} us, own process {there:7.2f} us ({there / here:5.2f}x);"
            f" clock {here_wall:7.2f} us, {there_wall:7.2f} us"
        )
    scripts.close()


def main() -> None:
    """Print all comparisons."""
    for script in SCRIPTS:
        compare(*script)


if __name__ == "__main__":
    main()
