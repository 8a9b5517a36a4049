"""A process of a test whose clock is set: its time of day does not jump, and it says that its host's clock did."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

from shifted_clocks import ShiftedClocks

PROGRAM = """
import os, sys, time
from cep_common.clock import SystemClock

clock = SystemClock()
before_ms, before_s = clock.now_ms(), time.time()
print("ready", flush=True)
sys.stdin.readline()
print(round((time.time() - before_s) / 3_600), round((clock.now_ms() - before_ms) / 3_600_000), flush=True)
if os.fork() == 0:
    print(round((time.time() - before_s) / 3_600), flush=True)
    os._exit(0)
os.wait()
"""


def test_the_time_of_day_of_a_process_does_not_jump_with_its_clock(tmp_path: Path) -> None:
    clocks = ShiftedClocks(tmp_path)
    environment = {**os.environ, **clocks.environment("worker-1")}
    assert clocks.names("worker") == ["worker-1"]
    with subprocess.Popen(  # noqa: S603 - our own program
        [sys.executable, "-c", PROGRAM], env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        stderr=subprocess.PIPE, text=True,
    ) as process:  # fmt: skip
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        clocks.set("worker-1", 10 * 3_600_000)
        out, err = process.communicate("\n", timeout=60)
    assert out.split() == ["10", "0", "10"], "the clock jumped, the process's time did not; a child sees the clock, too"
    assert re.search(r"the host's clock jumped by 3[56]\d{6} ms", err)
