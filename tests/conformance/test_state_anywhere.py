"""Over recorded cases of all kinds: a snapshot restored anywhere, a compaction of the strings anywhere, and any cut
into batches change no answer."""

from __future__ import annotations

import random
import zlib

import pytest
from recorded_cases import recorded_cases

from siddhi.engine.app_runtime import AppRuntime
from siddhi.testing import Case, restored, run_case

SHARE = 24
"""One case in so many is run, always the same ones; each kind of app has several."""


def _cases() -> list[Case]:
    return [
        case for case in recorded_cases() if "error" not in case.document and zlib.crc32(case.id.encode()) % SHARE == 0
    ]


def compacted(runtime: AppRuntime) -> AppRuntime:
    """`runtime` with other codes for all its strings."""
    runtime.pool.codes(f"unused string {number}" for number in range(len(runtime.pool), len(runtime.pool) + 3))
    runtime.compact()
    return runtime


def moved(case: Case, generator: random.Random) -> list[str]:
    """What `case` answers otherwise when its app is cut, restored and compacted at random."""

    def between(runtime: AppRuntime) -> AppRuntime:
        runtime = restored(runtime) if generator.random() < 0.5 else runtime
        return compacted(runtime) if generator.random() < 0.5 else runtime

    plain = run_case(case)
    result = run_case(case, generator.choice([1, 2, 3, 5, 8]), between)
    return [] if result.differences == plain.differences else list(result.differences) or ["passes"]


@pytest.mark.parametrize("part", [0, *(pytest.param(part, marks=pytest.mark.cluster) for part in (1, 2, 3))])
def test_cuts_snapshots_and_compactions_anywhere_change_no_answer(part: int) -> None:
    changed = {case.id: moved(case, random.Random(case.id)) for case in _cases()[part::4]}  # noqa: S311 - no secret
    assert {name: differences for name, differences in changed.items() if differences} == {}
