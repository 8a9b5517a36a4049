"""Sources and sinks that YAML files declare."""

from __future__ import annotations

from pathlib import Path

import pytest
from worker_world import PLAN

from cep_common.errors import ConfigError
from cep_common.ids import SUPER_TENANT
from cep_common.protocol.registry import Connector
from cep_worker.plans.connectors import Artefact, declared_by_artefacts, read_artefacts
from cep_worker.plans.streams import PlanStream, StreamDirectory


def test_a_file_declares_a_connector_and_values_become_texts(tmp_path: Path) -> None:
    (tmp_path / "b.yaml").write_text("stream: Alerts\ntype: log\noptions: {priority: WARN}\n")
    (tmp_path / "a.yml").write_text(
        "stream: Alerts:1.0.0\ntype: http\ntenant: 7\noptions:\n  batch.rows: 5\n  flag: true\n"
        "map:\n  type: json\n  options: {payload: '{{late}}'}\n"
    )
    (tmp_path / "notes.txt").write_text("not an artefact")
    assert read_artefacts(str(tmp_path)) == (
        Artefact(
            Connector("Alerts:1.0.0", "http", {"batch.rows": "5", "flag": "true"}, "json", {"payload": "{{late}}"}), 7
        ),
        Artefact(Connector("Alerts", "log", {"priority": "WARN"}, "", {}), SUPER_TENANT),
    )
    assert read_artefacts("") == ()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("type: log", "missing required field `stream`"),
        ("stream: A\ntype: log\nopts: {}", "unknown field `opts`"),
        ("- stream: A", "Expected `object`"),
        ("stream: [", "is not YAML"),
        ("stream: A\ntype: log\nmap: json", r"Expected `object`, got `str` - at `\$.map`"),
    ],
)
def test_a_wrong_file_is_named_with_its_mistake(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "bad.yaml").write_text(text)
    with pytest.raises(ConfigError, match=message) as refused:
        read_artefacts(str(tmp_path))
    assert str(tmp_path / "bad.yaml") in refused.value.message


def test_a_missing_directory_is_a_mistake() -> None:
    with pytest.raises(ConfigError, match="not a directory"):
        read_artefacts("/nowhere/at/all")


def test_an_artefact_whose_stream_no_plan_has_waits() -> None:
    directory = StreamDirectory([PlanStream(PLAN.key, PLAN.exported[0])])
    artefacts = tuple(Artefact(Connector(name, "log", {}, "", {}), SUPER_TENANT) for name in ("Alerts", "Other"))
    found = declared_by_artefacts(artefacts, directory)
    assert [one.connector.stream for one in found] == ["Alerts"]
    assert found[0].key is None
    assert found[0].plan().plan == "KnockOnDelays"
