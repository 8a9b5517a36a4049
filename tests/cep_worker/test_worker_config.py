"""The worker's configuration: the file shows what the structs say, and mistakes are named."""

from __future__ import annotations

import re
from itertools import pairwise
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml

from cep_common.configuration.loading import load_config
from cep_common.errors import ConfigError
from cep_worker.config import WorkerConfig

SHIPPED = Path(__file__).parents[2] / "conf" / "worker.yaml"


def shown() -> dict[str, Any]:
    """The shipped file with every `#` before a key removed; comments within groups stay comments."""
    lines = [line[2:] for line in SHIPPED.read_text().splitlines() if line.startswith("# ")]
    start = next(number for number, line in enumerate(lines) if line.startswith("name:"))
    kept = [line for line in lines[start:] if not line[:1].isupper()]
    return yaml.safe_load("\n".join(kept))


def test_the_shipped_file_shows_every_key_with_its_default() -> None:
    assert shown() == msgspec.json.decode(msgspec.json.encode(WorkerConfig()))


def test_every_shown_key_has_a_comment_above_it() -> None:
    lines = SHIPPED.read_text().splitlines()
    keys = [(before, line) for before, line in pairwise(lines) if re.match(r"# (  )?[a-z_]+: ", line)]
    assert len(keys) > 30
    assert [line for before, line in keys if not re.match(r"# (  # )?[A-Z]", before)] == []


def test_the_shipped_file_loads_as_it_is() -> None:
    assert load_config(WorkerConfig, SHIPPED, "worker", {}) == WorkerConfig()


@pytest.mark.parametrize(
    ("environment", "message"),
    [
        ({"CEP_WORKER__INGRESS__PORTS": "1"}, "ingress.ports"),
        ({"CEP_WORKER__INGRESS__PORT": "0"}, "ingress.port"),
        ({"CEP_WORKER__MANAGERS": "[localhost]"}, "'localhost' is not host:port"),
        ({"CEP_WORKER__MANAGERS": "[]"}, "managers"),
        ({"CEP_WORKER__OUTFLOW__LAST_PORT": "14000"}, "last_port: must be at least first_port"),
        ({"CEP_WORKER__HTTP__BODY_BYTES": "much"}, "http.body_bytes"),
    ],
)
def test_a_wrong_key_or_value_is_named(environment: dict[str, str], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        load_config(WorkerConfig, None, "worker", environment)
