"""Options of sources, sinks and mappers that plans leave to the worker's configuration."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest
from worker_world import PLAN, World, alerts, until

from cep_common.errors import ConfigError
from cep_common.protocol.registry import Connector
from cep_worker.config import WorkerConfig
from cep_worker.plans.extensions import ConnectorExtension, ConnectorExtensions

CONFIGURED = """[
{"ref": {"name": "outgoing", "type": "http", "properties": {"publisher.url": "http://a", "batch.rows": 5}}},
{"ref": {"name": "lines", "type": "csv", "properties": {"header": true}}},
{"extension": {"name": "email", "namespace": "sink", "properties": {"email.address": "a@b.c", "port": 25}}},
{"extension": {"name": "csv", "namespace": "sinkMapper", "properties": {"delimiter": ";"}}}
]"""


def completed(connector: Connector) -> Connector:
    entries = msgspec.json.decode(CONFIGURED, type=tuple[ConnectorExtension, ...])
    return ConnectorExtensions(entries).completed("sink", connector)[0]


def test_a_ref_gives_type_and_options_and_the_plan_wins() -> None:
    found = completed(Connector("Out", "", {"ref": "outgoing", "batch.rows": "7"}, "", {"ref": "lines"}))
    assert found == Connector(
        "Out", "http", {"publisher.url": "http://a", "batch.rows": "7"}, "csv", {"delimiter": ";", "header": "true"}
    )


def test_options_of_a_type_are_those_of_all() -> None:
    found = completed(Connector("Out", "email", {"to": "x@y.z", "port": "587"}, "", {}))
    assert found.options == {"address": "a@b.c", "to": "x@y.z", "port": "587"}


@pytest.mark.parametrize(
    ("options", "type_", "problem"),
    [({"ref": "outging"}, "", "there is no 'outging'; known: outgoing"), ({"ref": "outgoing"}, "file", "not file")],
)
def test_a_ref_that_means_nothing_is_refused(options: dict[str, str], type_: str, problem: str) -> None:
    with pytest.raises(ConfigError, match=problem):
        completed(Connector("Out", type_, options, "", {}))


def test_an_entry_is_either_of_both() -> None:
    with pytest.raises(msgspec.ValidationError, match="either ref or extension"):
        msgspec.json.decode(b'{"extensions": [{}]}', type=WorkerConfig)


def test_sinks_run_as_the_configuration_says(make_world: Callable[..., World], tmp_path: Path) -> None:
    file = tmp_path / "out.csv"
    entries = msgspec.convert(
        [{"ref": {"name": "outgoing", "type": "file", "properties": {"file.uri": str(file)}}}],
        tuple[ConnectorExtension, ...],
    )
    world = make_world(extensions=entries)
    sinks = (
        Connector("Alerts", "", {"ref": "outgoing"}, "csv", {}),
        Connector("Alerts", "", {"ref": "nobody"}, "", {}),
    )
    world.start(msgspec.structs.replace(PLAN, sinks=sinks))
    world.publisher().open().send("Alerts", alerts((1, "UA", 3)))
    until(lambda: file.exists() and file.read_text() == "UA,3\n")
    assert "there is no 'nobody'; known: outgoing" in world.health()["plans"][0]["last_error"]
