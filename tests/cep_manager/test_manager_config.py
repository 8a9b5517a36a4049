"""conf/manager.yaml and the structs behind it say the same."""

import re
import socket
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml

from cep_common.configuration.loading import load_config
from cep_common.errors import ConfigError
from cep_common.ids import Endpoint
from cep_manager.config import ManagerConfig

SHIPPED = Path(__file__).parents[2] / "conf" / "manager.yaml"


def uncommented(text: str) -> str:
    """The file with every key switched on: lines such as `# key: value` without their mark."""
    return re.sub(r"^# ?((?:  )*(?:# .*|[a-z_]+:.*))$", r"\1", text, flags=re.MULTILINE)


def keys_of(values: dict[str, Any], prefix: str = "") -> set[str]:
    nested = {key: value for key, value in values.items() if isinstance(value, dict) and value}
    flat = {prefix + key for key in values if key not in nested}
    return flat.union(*(keys_of(value, f"{prefix}{key}.") for key, value in nested.items()))


def test_the_file_shows_every_key_with_its_default() -> None:
    shown = yaml.safe_load(uncommented(SHIPPED.read_text()))
    defaults = msgspec.json.decode(msgspec.json.encode(ManagerConfig()))
    assert keys_of(shown) == keys_of(defaults)
    assert shown == defaults


def test_the_file_as_shipped_changes_nothing() -> None:
    assert load_config(ManagerConfig, SHIPPED, "manager", {}) == ManagerConfig()


def test_every_key_has_a_comment_above_it() -> None:
    lines = SHIPPED.read_text().splitlines()
    keys = [number for number, line in enumerate(lines) if re.match(r"#( {5}| {3}| )[a-z_]+: .+", line)]
    assert len(keys) == len(keys_of(msgspec.to_builtins(ManagerConfig())))
    assert all(re.match(r"# *#? ?[A-Z]", lines[number - 1]) for number in keys)


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("CEP_MANAGER__CONTROL__PORT", "70000", "control.port"),
        ("CEP_MANAGER__CONTROL__LEASE_MS", "1500", "lease_ms: must be at least twice heartbeat_ms"),
        ("CEP_MANAGER__HTTP__PORTT", "1", "unknown key http.portt; did you mean port?"),
        ("CEP_MANAGER__ELECTION__RETRIES", "1", "election.retries"),
        ("CEP_MANAGER__MANAGERS", "[here]", "'here' is not host:port"),
        ("CEP_MANAGER__TOPOLOGY__WORKERS", "0", "topology.workers"),
        ("CEP_MANAGER__QUOTAS__SLOTS", "-1", "quotas.slots"),
        ("CEP_MANAGER__QUOTAS__TENANTS", "{7: {slot: 1}}", "slot"),
    ],
)
def test_a_wrong_value_is_refused_by_its_key(name: str, value: str, message: str) -> None:
    with pytest.raises(ConfigError, match=re.escape(message)):
        load_config(ManagerConfig, None, "manager", {name: value})


def test_the_environment_overrides_the_file() -> None:
    found = load_config(ManagerConfig, SHIPPED, "manager", {"CEP_MANAGER__HTTP__PORT": "9999"})
    assert found.http.port == 9999


ON_SEVERAL = "[10.0.0.5:8904, 10.0.0.6:8904]"


def test_managers_of_several_hosts_need_more_than_a_file() -> None:
    given = {"CEP_MANAGER__HOST": "10.0.0.5", "CEP_MANAGER__MANAGERS": ON_SEVERAL}
    refusal = r"manager\.db is a file of one host.*10\.0\.0\.5, 10\.0\.0\.6.*PostgreSQL"
    with pytest.raises(ConfigError, match=refusal):
        load_config(ManagerConfig, None, "manager", given)
    shared = {**given, "CEP_MANAGER__DATABASE__URL": "postgresql://cep@10.0.0.9/cep"}
    assert len(load_config(ManagerConfig, None, "manager", shared).manager_endpoints()) == 2
    of_one_host = {"CEP_MANAGER__MANAGERS": "[127.0.0.1:8904, localhost:8905]"}
    assert len(load_config(ManagerConfig, None, "manager", of_one_host).manager_endpoints()) == 2


def test_a_manager_is_reached_at_the_address_that_it_is_told_or_at_its_hosts_name() -> None:
    everywhere = {"CEP_MANAGER__HOST": "0.0.0.0", "CEP_MANAGER__HTTP__HOST": "10.0.0.1"}  # noqa: S104 - to be told
    by_name = load_config(ManagerConfig, None, "manager", everywhere)
    assert by_name.control_endpoint() == Endpoint(socket.gethostname(), 8904)
    told = load_config(ManagerConfig, None, "manager", {**everywhere, "CEP_MANAGER__ADVERTISED_HOST": "10.0.0.5"})
    assert (told.control_endpoint(), told.http_address()) == (Endpoint("10.0.0.5", 8904), "http://10.0.0.5:9080")
    assert ManagerConfig().http_address() == "http://127.0.0.1:9080"


def test_a_tenant_has_the_common_quota_unless_it_has_its_own() -> None:
    given = {"CEP_MANAGER__QUOTAS__PLANS": "5", "CEP_MANAGER__QUOTAS__TENANTS": "{7: {slots: 2}}"}
    quotas = load_config(ManagerConfig, None, "manager", given).quotas
    assert (quotas.of(7).plans, quotas.of(7).slots) == (0, 2)
    assert (quotas.of(8).plans, quotas.of(8).slots) == (5, 0)


def test_beyond_loopback_people_must_log_in_unless_anybody_is_let_in_on_purpose() -> None:
    open_to_all = {"CEP_MANAGER__ACCOUNTS__LOGIN": "false", "CEP_MANAGER__HTTP__HOST": "10.0.0.1"}
    with pytest.raises(ConfigError, match=r"accounts\.login: people must log in where http\.host is 10\.0\.0\.1"):
        load_config(ManagerConfig, None, "manager", open_to_all)
    assert load_config(ManagerConfig, None, "manager", {"CEP_MANAGER__HTTP__HOST": "10.0.0.1"}).accounts.login
    insecure = {**open_to_all, "CEP_MANAGER__SECURITY__INSECURE": "true"}
    assert not load_config(ManagerConfig, None, "manager", insecure).accounts.login
