"""`cep demo` from start to end: what it prints, how it ends, and that nothing is left of it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import flights_reference
import pytest

pytestmark = [pytest.mark.spark, pytest.mark.cluster]

ROOT = Path(__file__).parents[2]
DEMO_TIMEOUT_S = 200


def test_the_demo_ends_with_the_counts_and_leaves_nothing_running(tmp_path: Path) -> None:
    ended = subprocess.run(
        [sys.executable, "-m", "cep_cli", "demo", "--seconds", "2"],
        cwd=ROOT, env={**os.environ, "TMPDIR": str(tmp_path)}, capture_output=True, text=True, timeout=DEMO_TIMEOUT_S,
        check=False,
    )  # fmt: skip

    assert ended.returncode == 0, ended.stderr[-2_000:]
    lines = ended.stdout.splitlines()
    expected = flights_reference.reference()
    assert lines[-3:] == [f"{stream}: {len(rows)} events" for stream, rows in expected.items()]
    for stream, rows in expected.items():
        alerts = [line for line in lines[:-3] if line.startswith(f"{stream} 2013-01-")]
        assert len(alerts) == len(rows), "every alert is shown as it comes"
    assert any(line.startswith("console: http://127.0.0.1:") for line in lines)
    assert "events" in ended.stderr, "a progress bar"
    assert _processes_of(tmp_path) == []
    assert list(tmp_path.glob("cep-demo-*")) == [], "its folder is removed"


def _processes_of(folder: Path) -> list[str]:
    """The commands of all processes that were started with `folder` as their place for temporary files."""
    found = []
    mark = f"TMPDIR={folder}".encode()
    for process in Path("/proc").iterdir():
        if process.name.isdigit():
            try:
                if mark in (process / "environ").read_bytes().split(b"\0"):
                    found.append((process / "cmdline").read_bytes().replace(b"\0", b" ").decode())
            except (FileNotFoundError, ProcessLookupError, PermissionError):
                continue
    return found
