"""Up-times are the process's own."""

import subprocess
import sys
import time

from cep_common.process.up_time import process_up_ms

CODE = "import time; time.sleep(0.3)\nfrom cep_common.process.up_time import process_up_ms\nprint(process_up_ms())"


def test_the_time_before_anything_of_ours_was_loaded_counts() -> None:
    began = time.monotonic()
    told = subprocess.run([sys.executable, "-c", CODE], capture_output=True, text=True, check=True)  # noqa: S603
    up_ms = int(told.stdout)
    assert 290 <= up_ms <= (time.monotonic() - began) * 1_000 + 20


def test_it_goes_on() -> None:
    before = process_up_ms()
    time.sleep(0.03)
    assert 20 <= process_up_ms() - before < 5_000
