"""What the console says that configuration keys mean is what the files in conf/ say."""

from __future__ import annotations

from typing import Any

import pytest

from cep_common.inspection.settings import settings_of
from cep_manager.config import ManagerConfig
from cep_manager.monitoring.logs.key_descriptions import explain, read_meanings
from cep_worker.config import WorkerConfig
from topology.spark.driver_side.config import DriverConfig
from topology.stages.settings import StageSettings


@pytest.mark.parametrize(("kind", "config"), [("manager", ManagerConfig()), ("worker", WorkerConfig())])
def test_every_key_has_a_meaning(kind: str, config: Any) -> None:
    assert [one.key for one in explain(kind, settings_of(config)) if not one.meaning] == []


def test_comments_behind_keys_are_meanings_too_and_tasks_are_told_those_of_stages() -> None:
    driver = {one.key: one.meaning for one in explain("driver", settings_of(DriverConfig()))}
    tasks = {one.key: one.meaning for one in explain("task", settings_of(StageSettings()))}
    assert driver["stages.window_rows"] == tasks["window_rows"] != ""
    assert driver["name"].startswith("name of the driver")


def test_comments_are_read_above_behind_and_below_keys() -> None:
    text = """\
# What the file is for.

# Its name.
# name: ""

# group:
#   # How large; a text
#   # of two lines.
#   size: 1
other:
  key: 5   # what it is
           # for
  bare: 6
"""
    assert read_meanings(text) == {
        "name": "Its name.",
        "group.size": "How large; a text of two lines.",
        "other.key": "what it is for",
    }


def test_numbers_have_units() -> None:
    units = {one.key: one.unit for one in explain("worker", settings_of(WorkerConfig()))}
    assert units["leave_ms"] == "ms"
    assert units["wal.maximum_bytes"] == "bytes"
    assert units["security.requests_per_s"] == "per second"
    assert units["host"] == ""
