"""Memory that was freed is used again, by whichever thread."""

from __future__ import annotations

import ctypes
import subprocess
import sys

import pytest

ROUNDS = 20
FRAMES = """
import resource
from cep_common.process.freed_memory import keep_freed_memory
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

TURNS = """
import threading
from pathlib import Path
from cep_common.process.freed_memory import share_freed_memory
if {shares}:
    share_freed_memory()
turns = [threading.Event() for _ in range(33)]
def answer(number):
    turns[number].wait()
    blocks = [bytearray(1_000 + 16 * block) for block in range(1_000)]
    del blocks
    turns[number + 1].set()
def resident_bytes():
    return 4096 * int(Path("/proc/self/statm").read_text().split()[1])
threads = [threading.Thread(target=answer, args=(number,)) for number in range(32)]
before = resident_bytes()
for thread in threads:
    thread.start()
turns[0].set()
turns[32].wait()
print(resident_bytes() - before)
"""

BUSY = """
from pathlib import Path
from cep_common.process.freed_memory import give_back_freed_memory, keep_freed_memory
keep_freed_memory()
def resident_bytes():
    return 4096 * int(Path("/proc/self/statm").read_text().split()[1])
blocks = [bytearray(100_000) for _ in range(400)]
kept = blocks[::20]
del blocks
busy = resident_bytes()
give_back_freed_memory()
print(busy - resident_bytes())
"""


def faults(keeps: bool) -> int:
    return answer_of(FRAMES.format(keeps=keeps, rounds=ROUNDS))


def answer_of(text: str) -> int:
    run = subprocess.run([sys.executable, "-c", text], capture_output=True, check=True, text=True)  # noqa: S603 - our own text
    return int(run.stdout)


glibc_only = pytest.mark.skipif(not hasattr(ctypes.CDLL(None), "mallopt"), reason="not glibc's allocator")


@glibc_only
def test_memory_of_frames_that_were_freed_is_used_again() -> None:
    assert faults(keeps=True) < 10 * ROUNDS < faults(keeps=False)


@pytest.mark.thorough
@glibc_only
def test_threads_that_take_turns_use_the_memory_that_others_have_freed() -> None:
    shared, apart = (answer_of(TURNS.format(shares=shares)) for shares in (True, False))
    assert shared < apart / 2


@pytest.mark.thorough
@glibc_only
def test_what_a_busy_moment_took_and_freed_goes_back() -> None:
    assert answer_of(BUSY) > 30_000_000
