"""Whatever is sent to the REST API, the answer is one that its description promises. CEP_FUZZ_EXAMPLES sends more.

The manager is a real one, with plan store and control loop; only its web server is not there.
"""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Iterator
from typing import Any

import pytest
import schemathesis
from flask import Flask
from free_ports import free_port
from hypothesis import HealthCheck, given, settings
from hypothesis.errors import Unsatisfiable
from manager_world import FakeView, World
from schemathesis.generation import GenerationMode
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    negative_data_rejection,
    response_schema_conformance,
    status_code_conformance,
)

from cep_manager.config import (
    AccountsConfig,
    ControlConfig,
    DatabaseConfig,
    LiveConfig,
    ManagerConfig,
    ManagerHttpConfig,
)
from cep_manager.main import ManagerProcess
from cep_manager.web.app import create_app

PLAN = """\
@Plan:name('Storms')
@Import('Departures:1.0.0') define stream Departures (origin string, delay int);
@Export('Late:1.0.0') define stream Late (origin string, delay int);
from Departures[delay > 60] select origin, delay insert into Late;
"""
EXAMPLES = int(os.environ.get("CEP_FUZZ_EXAMPLES", "3"))
CHECKS = [status_code_conformance, content_type_conformance, response_schema_conformance, negative_data_rejection]
CALLS = [
    (method, path)
    for path, operations in create_app(FakeView(World()), 1_000)
    .test_client()
    .get("/api/v1/openapi.json")
    .get_json()["paths"]
    .items()
    for method in operations
]
BODY_BYTES = 20_000


@schemathesis.serializer("application/x-ndjson", "application/vnd.apache.parquet")
def as_bytes(context: Any, value: Any) -> bytes:
    return value if isinstance(value, bytes) else json.dumps(value).encode()


@schemathesis.hook
def before_load_schema(context: Any, raw_schema: dict[str, Any]) -> None:
    """Describe tuples by what may be anywhere in them.

    schemathesis rewrites `prefixItems` for what it draws, in the very schema by which it judges answers.
    """
    waiting: list[Any] = [raw_schema]
    while waiting:
        one = waiting.pop()
        if isinstance(one, dict) and isinstance(one.get("prefixItems"), list):
            one["items"] = {"anyOf": one.pop("prefixItems")}
        waiting += one.values() if isinstance(one, dict) else one if isinstance(one, list) else ()


@pytest.fixture(scope="module")
def app(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Flask]:
    config = ManagerConfig(
        control=ControlConfig(port=free_port()),
        http=ManagerHttpConfig(port=free_port()),
        accounts=AccountsConfig(login=False),
        live=LiveConfig(at_once=0),  # a client without a server would read such a stream to its end
        database=DatabaseConfig(url=f"sqlite:///{tmp_path_factory.mktemp('fuzz') / 'manager.db'}"),
    )
    process = ManagerProcess(config)
    app = create_app(process.manager, BODY_BYTES)
    assert app.test_client().post("/api/v1/plans", data=PLAN).status_code == 201
    yield app
    process.close()


@pytest.fixture(scope="module")
def described(app: Flask) -> Any:
    found = schemathesis.openapi.from_wsgi("/api/v1/openapi.json", app)

    @found.hook
    def map_path_parameters(context: Any, path_parameters: Any) -> Any:
        """Names are often of what there is: otherwise nearly every answer would be that there is none."""
        for name, there in (("name", "Storms"), ("savepoint", "before")):
            written = (path_parameters or {}).get(name)
            if isinstance(written, str) and len(written) % 2 == 0:
                path_parameters[name] = there
        return path_parameters

    return found


SETTINGS = settings(
    max_examples=EXAMPLES, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck), database=None
)


@pytest.mark.thorough
@pytest.mark.parametrize(("method", "path"), CALLS)
def test_every_answer_is_as_described(described: Any, method: str, path: str) -> None:
    """Whatever each part of a call can look like was sent, one at a time."""
    operation = described[path][method]
    config = described.config.generation_for(operation=operation)
    for case in described.iter_coverage_cases(
        operation, generation_modes=list(GenerationMode), generation_config=config
    ):
        check(case)


@pytest.mark.cluster
@pytest.mark.parametrize(("method", "path"), CALLS)
def test_every_answer_to_what_is_drawn_at_random_is_as_described(described: Any, method: str, path: str) -> None:
    operation = described[path][method]
    for mode in GenerationMode:

        @SETTINGS
        @given(case=operation.as_strategy(generation_mode=mode))
        def answers_as_described(case: schemathesis.Case) -> None:
            check(case)

        # A call that takes nothing cannot be asked wrongly.
        with contextlib.suppress(Unsatisfiable):
            answers_as_described()


def check(case: schemathesis.Case) -> None:
    answer = case.call()
    assert answer.status_code != 500, case.as_curl_command()
    case.validate_response(answer, checks=CHECKS)
