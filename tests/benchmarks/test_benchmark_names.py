"""Benchmarks are started by path, so their folder is the first in which modules are looked for."""

from __future__ import annotations

import sys
from pathlib import Path

FOLDER = Path(__file__).parents[2] / "benchmarks"


def test_no_benchmark_hides_a_module_of_python() -> None:
    names = {script.stem for script in FOLDER.glob("*.py")}
    assert "engine" in names
    assert names & sys.stdlib_module_names == set()
