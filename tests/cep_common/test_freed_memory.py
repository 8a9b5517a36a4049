"""Frames that come and go do not make the system hand out their pages anew each time."""

from __future__ import annotations

import ctypes
import subprocess
import sys

import pytest

ROUNDS = 20
FRAMES = """
import resource
from cep_common.freed_memory import keep_freed_memory
if {keeps}:
    keep_freed_memory()
def frames():
    return [bytearray(225_000) for _ in range(16)]
frames()
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
for _ in range({rounds}):
    frames()
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""


def faults(keeps: bool) -> int:
    text = FRAMES.format(keeps=keeps, rounds=ROUNDS)
    run = subprocess.run([sys.executable, "-c", text], capture_output=True, check=True, text=True)  # noqa: S603 - our own text
    return int(run.stdout)


@pytest.mark.skipif(not hasattr(ctypes.CDLL(None), "mallopt"), reason="not glibc's allocator")
def test_memory_of_frames_that_were_freed_is_used_again() -> None:
    assert faults(keeps=True) < 10 * ROUNDS < faults(keeps=False)
