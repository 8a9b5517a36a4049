"""Where the daemon of executors takes pyspark from."""

from __future__ import annotations

from pathlib import Path

import pytest

from topology.spark.executor_side.daemon import without_archives


@pytest.fixture
def installed(tmp_path: Path) -> Path:
    """A folder in which pyspark is installed, with the archive of its sources that executors are given."""
    package = tmp_path / "site-packages" / "pyspark"
    (package / "python" / "lib").mkdir(parents=True)
    (package / "__init__.py").touch()
    (package / "python" / "lib" / "pyspark.zip").touch()
    return package


def test_archives_of_an_installed_pyspark_give_way_to_it(installed: Path) -> None:
    archives = [str(installed / "python" / "lib" / name) for name in ("pyspark.zip", "py4j-src.zip")]
    others = ["/somewhere", str(installed.parent), "/usr/lib/python311.zip"]
    assert without_archives([*archives, *others]) == others


def test_another_spark_keeps_its_own(installed: Path, tmp_path: Path) -> None:
    path = [str(tmp_path / "spark" / "python" / "lib" / "pyspark.zip"), str(installed.parent)]
    assert without_archives(path) == path


def test_without_an_installed_pyspark_nothing_changes(tmp_path: Path) -> None:
    path = [str(tmp_path / "spark" / "python" / "lib" / "pyspark.zip"), str(tmp_path)]
    assert without_archives(path) == path
