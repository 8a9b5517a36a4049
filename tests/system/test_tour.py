"""The tour through the console (`make tour`) in a real browser, on a system of its own. Skipped without Chromium."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from tour_visitor import CHROMIUM

pytestmark = [
    pytest.mark.spark,
    pytest.mark.skipif(CHROMIUM is None, reason="no Chromium on this machine"),
]

ROOT = Path(__file__).parents[2]
TIMEOUT_S = 500


def test_every_step_of_the_tour_finds_what_it_should(tmp_path: Path) -> None:
    ended = subprocess.run(
        [sys.executable, "tests/system/tour_run.py"], cwd=ROOT, env={**os.environ, "TOUR_PICTURES": str(tmp_path)},
        capture_output=True, text=True, timeout=TIMEOUT_S, check=False,
    )  # fmt: skip

    assert ended.returncode == 0, f"{ended.stdout}\n{ended.stderr[-2_000:]}"
    told = re.fullmatch(r"tour: steps=(\d+) failed=0", ended.stdout.splitlines()[-1])
    assert told is not None
    assert len(list(tmp_path.glob("*.png"))) == 2 * int(told[1]), "every step in light and dark"
