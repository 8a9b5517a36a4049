"""What the console says that configuration keys mean is what the files in conf/ say."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

import pytest

from cep_common.insight.settings import settings_of
from cep_manager.config import ManagerConfig
from cep_manager.logs.meanings import explain
from cep_worker.config import WorkerConfig

ROOT = Path(__file__).parents[3]
def test_the_written_meanings_are_those_of_the_files() -> None:
    spec = importlib.util.spec_from_file_location("write_meanings", ROOT / "tools" / "write_meanings.py")
    assert spec is not None
    assert spec.loader is not None
    tool: Any = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(tool)
    assert tool.WRITTEN.read_text(encoding="utf-8") == tool.as_text(), "run tools/write_meanings.py"


@pytest.mark.parametrize(("kind", "config"), [("manager", ManagerConfig()), ("worker", WorkerConfig())])
def test_every_key_has_a_meaning(kind: str, config: Any) -> None:
    assert [one.key for one in explain(kind, settings_of(config)) if not one.meaning] == []


def test_numbers_have_units() -> None:
    units = {one.key: one.unit for one in explain("worker", settings_of(WorkerConfig()))}
    assert units["leave_ms"] == "ms"
    assert units["spool.maximum_bytes"] == "bytes"
    assert units["security.requests_per_s"] == "per second"
    assert units["host"] == ""
