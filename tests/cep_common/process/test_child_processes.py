"""Child processes are ended with everything they started, and their last words are known."""

from __future__ import annotations

import os
import select
import subprocess
import sys
import tempfile

from cep_common.process.child_processes import LAST_WORDS_BYTES, end, last_words

PROGRAM = """
import subprocess, sys
other = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"], stdin=subprocess.DEVNULL)
sys.stderr.write("x" * 5_000 + "end")
print(other.pid, flush=True)
sys.stdin.read()
"""


def test_a_process_is_ended_with_what_it_started() -> None:
    with tempfile.TemporaryFile() as errors:
        process = subprocess.Popen(  # noqa: S603 - this interpreter
            [sys.executable, "-c", PROGRAM],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors, start_new_session=True,
        )  # fmt: skip
        assert process.stdin is not None
        assert process.stdout is not None
        started = os.pidfd_open(int(process.stdout.readline()))
        end(process)
        select.select([started], [], [])
        os.close(started)
        assert process.returncode == -9
        assert process.stdin.closed
        assert process.stdout.closed
        assert last_words(errors.fileno()) == "x" * (LAST_WORDS_BYTES - 3) + "end"
        end(process)  # a second time it has nothing to do
