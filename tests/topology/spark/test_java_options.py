"""With which options Spark's Java processes are started."""

from __future__ import annotations

from pathlib import Path

import pytest

from topology.spark.driver_side import java_options
from topology.spark.driver_side.java_options import PLAIN_OPTIONS


def test_classes_are_taken_from_the_archive_where_it_was_made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(java_options, "ARCHIVE", tmp_path / "a folder" / "classes.jsa")
    assert java_options.java_options() == PLAIN_OPTIONS
    (tmp_path / "a folder").mkdir()
    (tmp_path / "a folder" / "classes.jsa").touch()
    assert java_options.java_options() == f'{PLAIN_OPTIONS} "-XX:SharedArchiveFile={tmp_path}/a folder/classes.jsa"'
