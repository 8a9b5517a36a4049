"""The wheel has all that the package needs, and an empty environment that installs it runs the demo."""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from collections.abc import Sequence
from pathlib import Path

import flights_reference
import pytest

pytestmark = pytest.mark.cluster

ROOT = Path(__file__).parents[2]
PACKAGES = ("siddhi", "query_plan", "topology", "cep_common", "cep_manager", "cep_worker", "cep_cli")
INSTALL_S, DEMO_S = 900, 400
WHOLE = os.environ.get("CEP_DIST", "") == "1"
"""`make dist-test` installs it, too, which fetches all libraries."""


def run(command: Sequence[str | Path], where: Path, timeout_s: float = 120) -> str:
    ended = subprocess.run(  # noqa: S603 - the words are ours
        [str(word) for word in command], cwd=where, capture_output=True, text=True, timeout=timeout_s, check=False
    )
    assert ended.returncode == 0, f"{command}: {ended.stdout[-2_000:]}{ended.stderr[-2_000:]}"
    return ended.stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Built of what is in the repository, in a folder of its own: building leaves files beside the sources."""
    folder = tmp_path_factory.mktemp("dist")
    sources = folder / "sources"
    for name in _tracked():
        target = sources / name
        target.parent.mkdir(parents=True, exist_ok=True)
        if (ROOT / name).is_symlink():
            target.symlink_to((ROOT / name).readlink())
        else:
            target.write_bytes((ROOT / name).read_bytes())
    build = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation"]
    run([*build, "--wheel-dir", folder, sources], folder)
    (made,) = folder.glob("*.whl")
    return made


def _tracked() -> list[str]:
    """The files of the packages and what the build reads, whether they are committed yet or not."""
    asked = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "--", *PACKAGES, "benchmarks", "conf"]
    names = run([*asked, "samples", "pyproject.toml", "README.md", "LICENSE"], ROOT).splitlines()
    return [name for name in names if (ROOT / name).exists()]


def test_the_wheel_has_every_file_of_the_packages(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as opened:
        held = set(opened.namelist())
        metadata = next(opened.read(name).decode() for name in held if name.endswith(".dist-info/METADATA"))
    wanted: set[str] = set()
    for name in _tracked():
        path = ROOT / name
        if name.split("/")[0] in PACKAGES:
            wanted |= {f"{name}/{one.name}" for one in path.iterdir() if one.is_file()} if path.is_dir() else {name}
    assert wanted - held == set()
    assert "cep_cli/system/flights/departures.parquet" in held
    assert "cep_manager/monitoring/logs/conf/manager.yaml" in held
    assert {f"{package}/py.typed" for package in PACKAGES} <= held
    assert "License-Expression: Apache-2.0" in metadata
    assert any(name.endswith("LICENSE") for name in held)


if WHOLE:

    def test_an_empty_environment_installs_it_and_runs_the_demo(wheel: Path, tmp_path: Path) -> None:
        environment = tmp_path / "environment"
        run([sys.executable, "-m", "venv", environment], tmp_path)
        pinned = ["--constraint", ROOT / "requirements.lock"]
        run([environment / "bin" / "pip", "install", "--quiet", *pinned, wheel], tmp_path, INSTALL_S)
        said = run([environment / "bin" / "cep", "demo", "--seconds", "2"], tmp_path, DEMO_S).splitlines()
        expected = [f"{stream}: {len(rows)} events" for stream, rows in flights_reference.reference().items()]
        assert said[-len(expected) :] == expected
