"""Every key of a configuration is told with where it was set."""

from __future__ import annotations

from pathlib import Path

import msgspec

from cep_common.configuration.loading import load_with_sources
from cep_common.inspection.settings import settings_of
from cep_common.protocol.inspection import Setting


class Inner(msgspec.Struct, frozen=True):
    port: int = 1
    password: str = ""
    conf: dict[str, str] = {}


class Outer(msgspec.Struct, frozen=True):
    inner: Inner = Inner()
    names: tuple[str, ...] = ("a",)
    trace: bool = False


def test_file_environment_and_defaults_are_told_apart(tmp_path: Path) -> None:
    path = tmp_path / "outer.yaml"
    path.write_text("inner: {port: 5, conf: {a: b}}\nnames: [a]\n")
    environment = {"CEP_OUTER__INNER__PORT": "7", "CEP_OUTER__INNER__PASSWORD": "hunter2"}
    loaded = load_with_sources(Outer, path, "outer", environment)
    assert loaded.config.inner.port == 7
    assert settings_of(loaded.config, loaded.sources) == (
        Setting("inner.port", "7", "1", "environment", "CEP_OUTER__INNER__PORT"),
        Setting("inner.password", '"•••"', '""', "environment", "CEP_OUTER__INNER__PASSWORD"),
        Setting("inner.conf", '{"a":"b"}', "{}", "file", str(path)),
        Setting("names", '["a"]', '["a"]', "file", str(path)),
        Setting("trace", "false", "false", "default", ""),
    )


def test_an_entry_of_a_mapping_may_come_from_the_environment() -> None:
    loaded = load_with_sources(Outer, None, "outer", {"CEP_OUTER__INNER__CONF__A": "b"})
    (conf,) = [one for one in settings_of(loaded.config, loaded.sources) if one.key == "inner.conf"]
    assert (conf.value, conf.origin, conf.where) == ('{"a":"b"}', "environment", "CEP_OUTER__INNER__CONF__A")


def test_what_no_file_and_no_variable_set_was_given_by_whatever_started_the_process() -> None:
    told = {one.key: one.origin for one in settings_of(Outer(trace=True), otherwise="driver")}
    assert told["trace"] == "driver"
    assert told["inner.port"] == "default"
