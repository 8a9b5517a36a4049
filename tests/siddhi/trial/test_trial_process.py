"""The limits of a process that answers one request, apart from loading the engine."""

from __future__ import annotations

import json
import signal
import subprocess
import sys

import pytest

PROGRAM = """
import time
import msgspec
from siddhi.trial.process import answer

class Wanted(msgspec.Struct):
    seconds: int
    memory_bytes: int
    running_s: float

def load():
    time.sleep({loading_s})
    def run(wanted):
        time.sleep(wanted.running_s)
        return "done"
    return run

answer(Wanted, load)
"""


@pytest.mark.parametrize(("loading_s", "running_s", "code"), [(1.3, 0.0, 0), (0.0, 60.0, -signal.SIGALRM)])
def test_only_what_comes_after_loading_counts(loading_s: float, running_s: float, code: int) -> None:
    request = {"seconds": 1, "memory_bytes": 2**31, "running_s": running_s}
    program = PROGRAM.replace("{loading_s}", str(loading_s))
    done = subprocess.run(  # noqa: S603 - the program above
        [sys.executable, "-c", program], input=json.dumps(request).encode(), stdout=subprocess.PIPE, check=False
    )
    assert done.returncode == code
    assert done.stdout == (b'"done"' if code == 0 else b"")
