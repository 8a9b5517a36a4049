"""Tests that are left out are counted in the last line with their reasons, and fail a run on CI."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

TESTS = Path(__file__).parents[1]
PASSES = "def test_passes():\n    pass\n"
LEFT_OUT = """
import pytest

@pytest.mark.skipif(True, reason="no Chromium on this machine")
def test_in_a_browser():
    pass

def test_in_a_database():
    pytest.skip("no PostgreSQL server")

def test_in_another_database():
    pytest.skip("no PostgreSQL server")
"""


def _run(folder: Path, text: str, *options: str, ci: bool) -> tuple[int, str]:
    """Run pytest on a file with `text`; return its exit code and its last line."""
    (folder / "test_made.py").write_text(text)
    (folder / "conftest.py").write_text("from left_out import pytest_sessionfinish, pytest_unconfigure\n")
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("PYTEST", "CI"))}
    # Other plug-ins take seconds to load, and have nothing to do with it.
    environment |= {"PYTHONPATH": str(TESTS), "CI": "true" if ci else "", "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    done = subprocess.run(  # noqa: S603 - our own command
        [
            sys.executable,
            "-m",
            "pytest",
            "-q",
            "--rootdir",
            str(folder),
            *options,
            str(folder),
        ],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    return done.returncode, done.stdout.strip().splitlines()[-1]


@pytest.mark.thorough
@pytest.mark.parametrize("options", [(), ("-p", "xdist", "-n", "2")], ids=["one process", "two processes"])
def test_the_last_line_says_what_was_left_out_and_why(options: tuple[str, ...], tmp_path: Path) -> None:
    code, line = _run(tmp_path, PASSES + LEFT_OUT, *options, ci=False)
    assert code == 0
    assert line == ("3 tests were left out: 2 because: no PostgreSQL server; 1 because: no Chromium on this machine.")


@pytest.mark.thorough
def test_on_ci_nothing_may_be_left_out(tmp_path: Path) -> None:
    code, line = _run(tmp_path, PASSES + LEFT_OUT, ci=True)
    assert code == pytest.ExitCode.TESTS_FAILED
    assert line.endswith("That fails a run with CI=true.")


@pytest.mark.thorough
def test_on_ci_a_run_of_everything_passes(tmp_path: Path) -> None:
    assert _run(tmp_path, PASSES, ci=True) == (0, "No test was left out.")
