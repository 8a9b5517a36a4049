"""What `warm_up` loads is enough for the fast path: no plan waits for the compiler at its first small batch."""

from __future__ import annotations

import subprocess
import sys

import pytest

_LOADED = """
from siddhi.engine.arrow_c.copy_kernel import passing_records
from siddhi.engine.arrow_c.read_kernels import keep_rows, read_records
from siddhi.engine.arrow_c.write_kernels import write_records
from siddhi.engine.operators.expressions.batch_kernel import run_over_rows
from siddhi.engine.warm_up import warm_up

warm_up()
for loop in (passing_records, keep_rows, read_records, write_records, run_over_rows):
    print(loop.py_func.__name__, len(loop.signatures))
"""


@pytest.mark.thorough
def test_the_loops_around_filters_and_programs_are_loaded_by_the_warm_up() -> None:
    """Another process, as the tests of this one have loaded them."""
    told = subprocess.run([sys.executable, "-c", _LOADED], check=True, capture_output=True, text=True).stdout  # noqa: S603 - our own
    assert [line.split()[1] for line in told.splitlines()] == ["1"] * 5, told
