"""What goes into the archive for executors; that it runs topologies is shown on a cluster."""

from __future__ import annotations

import subprocess
import sys
from importlib import metadata
from pathlib import Path

import pytest

from cep_cli.system.package import PYTHON, PackagingError, libraries


def test_the_archive_has_all_libraries_of_stages_and_what_those_need_but_not_what_spark_brings() -> None:
    found = libraries()
    assert {"pyarrow", "numba", "llvmlite", "numpy", "msgspec", "pyzmq", "lark", "croniter", "python-dateutil"} <= found
    assert not found & {"pyspark", "py4j", "pytest", "mypy", "cep-on-spark"}


def test_what_is_installed_of_the_optional_parts_travels_along(monkeypatch: pytest.MonkeyPatch) -> None:
    assert {"psycopg", "psycopg-binary", "quickjs-ng"} <= libraries()
    find_really = metadata.distribution

    def find(name: str) -> metadata.Distribution:
        if name == "quickjs-ng":
            raise metadata.PackageNotFoundError(name)
        return find_really(name)

    monkeypatch.setattr(metadata, "distribution", find)
    found = libraries()
    assert "quickjs-ng" not in found
    assert "psycopg-binary" in found


def test_a_library_that_is_not_installed_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    def find(name: str) -> metadata.Distribution:
        if name == "numba":
            raise metadata.PackageNotFoundError(name)
        return find_really(name)

    find_really = metadata.distribution
    monkeypatch.setattr(metadata, "distribution", find)
    with pytest.raises(PackagingError, match="the library numba is not installed here"):
        libraries()


def test_its_python_is_the_named_one_with_the_packages_of_the_archive_in_front(tmp_path: Path) -> None:
    (tmp_path / "bin").mkdir()
    (tmp_path / "lib" / "msgspec").mkdir(parents=True)
    (tmp_path / "lib" / "msgspec" / "__init__.py").write_text("where = 'archive'")
    python = tmp_path / "bin" / "python"
    python.write_text(PYTHON, encoding="utf-8")
    python.chmod(0o755)

    told = subprocess.run(  # noqa: S603 - ours
        [python, "-c", "import msgspec, sys; print(msgspec.where, sys.executable)"],
        cwd=tmp_path, env={"CEP_PYTHON": sys.executable, "PATH": "/usr/bin:/bin"}, capture_output=True, text=True,
        check=True,
    )  # fmt: skip

    assert told.stdout.split() == ["archive", sys.executable]
