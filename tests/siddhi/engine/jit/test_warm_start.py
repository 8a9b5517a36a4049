"""A plan whose loops are on disk starts without a compiler."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[4]


def compiled_by_a_deployment() -> list[str]:
    """Return what a new process compiles to deploy the flights plan and emit its first results."""
    command = [sys.executable, "-m", "benchmarks.cold_deploy", "--once"]
    finished = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True, timeout=120)  # noqa: S603
    names: list[str] = json.loads(finished.stdout)["compiled"]
    return names


@pytest.mark.cluster
def test_a_plan_that_was_deployed_once_compiles_nothing_in_the_next_process() -> None:
    compiled_by_a_deployment()
    assert compiled_by_a_deployment() == []
