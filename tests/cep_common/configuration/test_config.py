"""Configuration: one file, overridden by the environment, wrong keys and values named."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import msgspec
import pytest
import yaml

from cep_common.configuration.loading import load_config
from cep_common.errors import ConfigError
from cep_common.ids import Endpoint
from topology.spark.driver_side.config import DriverConfig

ROOT = Path(__file__).parents[3]


class Inner(msgspec.Struct, frozen=True):
    port: Annotated[int, msgspec.Meta(ge=1, le=65535)] = 8904
    name: str = "inner"
    ratio: float = 0.5
    hosts: tuple[Endpoint, ...] = ()
    options: dict[str, str] = {}


class Outer(msgspec.Struct, frozen=True):
    inner: Inner = Inner()
    trace: bool = False


def load(tmp_path: Path, text: str = "", **environment: str) -> Outer:
    path = tmp_path / "outer.yaml"
    path.write_text(text, encoding="utf-8")
    return load_config(Outer, path, "outer", environment)


def test_without_file_and_environment_the_defaults_hold() -> None:
    assert load_config(Outer, None, "outer", {}) == Outer()


def test_an_empty_file_leaves_the_defaults(tmp_path: Path) -> None:
    assert load(tmp_path, "# nothing\n") == Outer()


def test_the_file_overrides_single_keys(tmp_path: Path) -> None:
    assert load(tmp_path, "inner: {port: 1}") == Outer(inner=Inner(port=1))


def test_the_environment_overrides_the_file(tmp_path: Path) -> None:
    config = load(
        tmp_path,
        "inner: {port: 1, name: file}",
        CEP_OUTER__INNER__PORT="2",
        CEP_OUTER__TRACE="true",
        CEP_OUTER__INNER__HOSTS="[{host: a, port: 3}]",
        CEP_OUTER__INNER__OPTIONS="{a: b}",
        CEP_OTHER__INNER__PORT="9",
    )
    assert config == Outer(inner=Inner(port=2, name="file", hosts=(Endpoint("a", 3),), options={"a": "b"}), trace=True)


@pytest.mark.parametrize("text", ["12", "true", "a: b", "[", ""])
def test_a_text_from_the_environment_is_taken_as_it_is(tmp_path: Path, text: str) -> None:
    assert load(tmp_path, CEP_OUTER__INNER__NAME=text).inner.name == text


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("inner: {prot: 1}", "unknown key inner.prot; did you mean port?"),
        ("iner: {}", "unknown key iner; did you mean inner?"),
        ("zzz: 1", "unknown key zzz; known here: inner, trace"),
        ("inner: {port: many}", "inner.port: expected `int`"),
        ("inner: {port: 0}", "inner.port: expected `int` >= 1"),
        ("inner: 5", "inner: expected `object`"),
        ("inner: {hosts: [{host: a, port: x}]}", r"inner.hosts[0].port: expected `int`"),
        ("inner: {hosts: [{host: a}]}", "inner.hosts[0]: object missing required field `port`"),
        ("trace: perhaps", "trace: expected `bool`"),
        ("[1, 2]", "must hold keys and values, not a list"),
        ("inner: [", "is not YAML"),
        ("inner:", "inner: expected `object`, got `null`"),
    ],
)
def test_what_cannot_be_used_is_named_with_file_and_dotted_key(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        load(tmp_path, text)
    assert message in caught.value.message
    assert str(tmp_path / "outer.yaml") in caught.value.message


def test_a_wrong_key_of_the_environment_is_refused_too(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"unknown key inner\.prot; did you mean port"):
        load(tmp_path, CEP_OUTER__INNER__PROT="1")
    with pytest.raises(ConfigError, match=r"trace\.level: trace is not a group of keys"):
        load(tmp_path, "trace: true", CEP_OUTER__TRACE__LEVEL="1")
    with pytest.raises(ConfigError, match=r"trace: expected `bool`"):
        load(tmp_path, CEP_OUTER__TRACE="2020-13-45")


@pytest.mark.parametrize(
    ("variable", "text"),
    [
        ("CEP_OUTER__INNER__PROT", "1"),
        ("CEP_OUTER__TRACE__LEVEL", "1"),
        ("CEP_OUTER__INNER__PORT", "many"),
        ("CEP_OUTER__INNER__HOSTS", "[{host: a}]"),
        ("CEP_OUTER__INNER", "3"),
        ("CEP_OUTER__INNER", "{prot: 1}"),
        ("CEP_OUTER__INNER", "{port: many}"),
        ("CEP_OUTER__TRACE", "perhaps"),
    ],
)
def test_what_is_wrong_in_the_environment_is_not_blamed_on_the_file(tmp_path: Path, variable: str, text: str) -> None:
    with pytest.raises(ConfigError) as caught:
        load(tmp_path, "inner: {name: file}", **{variable: text})
    assert caught.value.message.startswith(f"{variable}: ")
    assert "outer.yaml" not in caught.value.message


def test_the_nearest_variable_is_blamed(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"^CEP_OUTER__INNER__PORT: inner\.port: expected `int`"):
        load(tmp_path, CEP_OUTER__INNER="{port: 5}", CEP_OUTER__INNER__PORT="many")


@pytest.mark.parametrize("text", ["inner: 3", "inner:"])
def test_a_file_with_something_else_for_a_group_is_blamed(tmp_path: Path, text: str) -> None:
    with pytest.raises(ConfigError, match=r"outer\.yaml: inner: expected `object`"):
        load(tmp_path, text, CEP_OUTER__INNER__PORT="5")


def test_a_group_that_is_wrong_as_a_whole_is_blamed_on_all_that_set_it(tmp_path: Path) -> None:
    path = tmp_path / "driver.yaml"
    path.write_text("stages: {first_port: 16000}", encoding="utf-8")
    with pytest.raises(ConfigError, match=r"driver\.yaml") as caught:
        load_config(DriverConfig, path, "driver", {"CEP_DRIVER__STAGES__LAST_PORT": "15000"})
    assert "CEP_DRIVER__STAGES__LAST_PORT" in caught.value.message


def test_a_wrong_value_of_the_file_is_not_blamed_on_a_variable_beside_it(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"outer\.yaml: inner\.port: expected `int`"):
        load(tmp_path, "inner: {port: many}", CEP_OUTER__INNER__NAME="x")


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"nowhere\.yaml: cannot be read: No such file"):
        load_config(Outer, tmp_path / "nowhere.yaml", "outer", {})


def test_the_drivers_file_shows_every_key_with_its_default() -> None:
    path = ROOT / "conf" / "driver.yaml"
    assert load_config(DriverConfig, path, "driver", {}) == DriverConfig()
    shown = yaml.safe_load(path.read_text(encoding="utf-8"))
    assert dotted(shown) == dotted(msgspec.to_builtins(DriverConfig()))


def dotted(values: dict[str, Any], prefix: str = "") -> set[str]:
    keys: set[str] = set()
    for key, value in values.items():
        keys |= dotted(value, f"{prefix}{key}.") if isinstance(value, dict) and value else {prefix + key}
    return keys


def test_the_stages_ports_are_a_range(tmp_path: Path) -> None:
    path = tmp_path / "driver.yaml"
    path.write_text("stages: {first_port: 16000, last_port: 15000}", encoding="utf-8")
    with pytest.raises(ConfigError, match=r"stages: .*last_port"):
        load_config(DriverConfig, path, "driver", {})
