"""Executors that have a Python and none of our packages run topologies from the archive that we pack."""

from __future__ import annotations

import os
import subprocess
import sys
import venv
from pathlib import Path

import pytest
from late_plan import assert_events_flow, deploy_late
from standalone_cluster import StandaloneCluster

from cep_cli.system.local_system import LocalSystem, Ports
from cep_cli.system.package import write_archive

pytestmark = [pytest.mark.spark, pytest.mark.cluster]


@pytest.fixture
def bare_python(tmp_path: Path) -> Path:
    """A Python that can import nothing but the standard library."""
    venv.create(tmp_path / "bare")
    python = tmp_path / "bare" / "bin" / "python"
    tried = subprocess.run([python, "-c", "import pyarrow"], capture_output=True, env={}, check=False)  # noqa: S603 - ours
    assert b"No module named 'pyarrow'" in tried.stderr
    return python


def test_a_plan_runs_where_nothing_is_installed(tmp_path: Path, bare_python: Path) -> None:
    archive = tmp_path / "cep-environment.tar.gz"
    write_archive(archive)
    nothing_installed = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    with StandaloneCluster(tmp_path, workers=1, environment=nothing_installed) as cluster:
        settings = {
            "spark.executor.memory": "512m",
            "spark.archives": f"{archive}#environment",
            "spark.executorEnv.CEP_PYTHON": str(bare_python),
        }
        environment = {
            **os.environ,
            **cluster.driver_settings(settings),
            "PYSPARK_PYTHON": "./environment/bin/python",
        }
        with LocalSystem(tmp_path / "system", Ports.free(), environment=environment) as system:
            deploy_late(system)

            (task,) = system.client.cluster()["tasks"]
            assert_events_flow(system)
            mapped = Path(f"/proc/{task['process_id']}/maps").read_text(encoding="utf-8")

    libraries = {line.split()[-1] for line in mapped.splitlines() if "libarrow.so" in line}
    assert libraries
    assert all("/environment/lib/pyarrow/" in library for library in libraries)
    assert sys.prefix not in mapped, "nothing comes from where the driver's packages are"
